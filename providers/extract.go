package providers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// maxAnswer is the longest answer that is searched for JSON, in bytes. Ledgers are a few kilobytes.
	maxAnswer = 1 << 20
	// maxObjects is how many objects are tried, from the end. Drafts come in twos and threes.
	maxObjects = 16
)

// ErrNoJSON is in the chain of the error when an answer contains nothing that looks like a JSON object.
var ErrNoJSON = errors.New("the answer contains no JSON object")

// Extract finds the JSON object in a model's answer: the last balanced one that is valid. Reasoning blocks, code fences
// and prose around it are ignored; slips that have only one reading are put right, see [lenient]. The error says, in
// words fit for the model, what is wrong.
//
// What it never does is guess. An object that is not closed was cut, and completing it would turn half an answer into
// a whole one ("completed": true, with the objections missing); an object inside of another is never taken for the
// answer; prose stays prose.
func Extract(text string) (json.RawMessage, error) {
	found, err := candidates(text)
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// candidates gives the valid top-level objects of an answer, the last one first, at least one if the error is nil.
func candidates(text string) ([]json.RawMessage, error) {
	if len(text) > maxAnswer {
		return nil, fmt.Errorf("the answer of %d bytes is too long, at most %d are read", len(text), maxAnswer)
	}
	// Some gateways encode the object a second time, as a JSON string.
	var inner string
	if json.Unmarshal([]byte(text), &inner) == nil {
		text = inner
	}
	answer := afterReasoning(text)
	found, err := scan([]byte(answer))
	// A closing tag without its opening one ends a reasoning block too: chat templates often open it in the prompt.
	// But the words may also stand inside of a string, so the part behind it counts only if an answer is there.
	if _, tail, ok := cutLastClosingTag(answer); ok {
		if behind, tailErr := scan([]byte(tail)); tailErr == nil {
			found, err = behind, nil
		}
	}
	return found, err
}

// reasoning are the marks between which models think aloud; of Magistral the brackets, of Kimi the triangles.
var reasoning = [...]struct{ opening, closing string }{
	{"<think>", "</think>"}, {"<thinking>", "</thinking>"}, {"<reasoning>", "</reasoning>"}, {"<thought>", "</thought>"},
	{"[THINK]", "[/THINK]"}, {"◁think▷", "◁/think▷"},
}

// afterReasoning cuts reasoning blocks off the beginning of an answer. A block that is never closed is all there is.
func afterReasoning(text string) string {
	for {
		text = strings.TrimSpace(text)
		rest, cut := cutLeadingBlock(text)
		if !cut {
			return text
		}
		text = rest
	}
}

func cutLeadingBlock(text string) (rest string, cut bool) {
	for _, mark := range reasoning {
		if body, ok := strings.CutPrefix(text, mark.opening); ok {
			_, rest, _ = strings.Cut(body, mark.closing)
			return rest, true
		}
	}
	return text, false
}

func cutLastClosingTag(text string) (before, after string, found bool) {
	last, width := -1, 0
	for _, mark := range reasoning {
		if i := strings.LastIndex(text, mark.closing); i > last {
			last, width = i, len(mark.closing)
		}
	}
	if last < 0 {
		return text, "", false
	}
	return text[:last], text[last+width:], true
}

// scan gives the valid top-level objects of src, the last one first, at least one if the error is nil. The error is
// about the last one.
func scan(src []byte) ([]json.RawMessage, error) {
	values, err := topLevel(src)
	if err != nil {
		return nil, err
	}
	var found []json.RawMessage
	var problem error
	for _, value := range slices.Backward(values[max(0, len(values)-maxObjects):]) {
		object, err := single(value)
		if err == nil {
			found = append(found, object)
		} else if problem == nil {
			problem = err
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case problem != nil:
		return nil, problem
	default:
		return nil, noJSON(src)
	}
}

// almost matches what was meant to be an object, but does not begin like one.
var almost = regexp.MustCompile(`\{\s*(?:(“|”|„|«|\\")|([A-Za-z_][A-Za-z0-9_]*)\s*:)`)

// maxHint is how much of an answer without an object is searched for what was meant to be one, in bytes.
const maxHint = 16 << 10

// noJSON says what keeps the answer from being read, if it can be told.
func noJSON(src []byte) error {
	src = src[:min(len(src), maxHint)]
	switch m := almost.FindSubmatchIndex(src); {
	case m == nil:
		return ErrNoJSON
	case m[2] >= 0 && src[m[2]] == '\\':
		return fmt.Errorf("%w: the quotation marks of %s are escaped; write them without the backslash",
			ErrNoJSON, quoteHead(src[m[0]:]))
	case m[2] >= 0:
		return fmt.Errorf("%w: %s has typographic quotation marks; write straight ones (\")",
			ErrNoJSON, quoteHead(src[m[0]:]))
	default:
		return fmt.Errorf("%w: the key %s is not in quotation marks", ErrNoJSON, src[m[4]:min(m[5], m[4]+40)])
	}
}

// topLevel finds what is balanced and looks like an object or a list of objects, in order. Its time is linear, whatever
// the input: what is balanced is stepped over, and what is not ends the search.
func topLevel(src []byte) ([][]byte, error) {
	var values [][]byte
	for i := 0; i < len(src); i++ {
		if !opensValue(src[i:]) {
			continue
		}
		length := balancedLen(src[i:])
		if length < 0 {
			return nil, fmt.Errorf("the JSON that begins with %s is not closed: it was cut, or a quotation mark inside "+
				"of a string is not escaped", quoteHead(src[i:]))
		}
		values = append(values, src[i:i+length])
		i += length - 1
	}
	return values, nil
}

// opensValue reports whether src begins like an object, or like a list of objects, and not like prose or a template
// with braces ("{name}", "{{").
func opensValue(src []byte) bool {
	switch src[0] {
	case '{':
		inside := trimSpace(src[1:min(len(src), 256)])
		return len(inside) > 0 && (inside[0] == '"' || inside[0] == '\'' || inside[0] == '}' || inside[0] == '/' ||
			inside[0] == '#')
	case '[':
		inside := trimSpace(src[1:min(len(src), 256)])
		return len(inside) > 1 && inside[0] == '{' && opensValue(inside)
	default:
		return false
	}
}

func trimSpace(src []byte) []byte {
	for {
		src = bytes.TrimLeft(src, " \t\r\n")
		if len(src) == 0 || src[0] < utf8.RuneSelf {
			return src
		}
		r, n := utf8.DecodeRune(src)
		if !isForeignSpace(r) {
			return src
		}
		src = src[n:]
	}
}

// balancedLen gives the length of the value that src begins with, or -1 if it is not closed. Brackets inside of
// strings and comments do not count.
func balancedLen(src []byte) int {
	depth := 0
	for i := 0; i < len(src); i++ {
		switch c := src[i]; c {
		case '"', '\'':
			end := stringLen(src[i:])
			if end < 0 {
				return -1
			}
			i += end - 1
		case '/', '#':
			i += max(commentLen(src[i:]), 1) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// stringLen gives the length of the string that src begins with, both quotes included, or -1.
func stringLen(src []byte) int {
	for i := 1; i < len(src); i++ {
		switch src[i] {
		case '\\':
			i++
		case src[0]:
			return i + 1
		}
	}
	return -1
}

// commentLen gives the length of the comment that src begins with, or 0 if it begins with none.
func commentLen(src []byte) int {
	switch {
	case src[0] == '#', bytes.HasPrefix(src, []byte("//")):
		if n := bytes.IndexByte(src, '\n'); n >= 0 {
			return n
		}
		return len(src)
	case bytes.HasPrefix(src, []byte("/*")):
		if n := bytes.Index(src[2:], []byte("*/")); n >= 0 {
			return n + 4
		}
		return len(src)
	default:
		return 0
	}
}

// single makes the one object of a balanced value: itself, or the only element of a list.
func single(src []byte) (json.RawMessage, error) {
	value := src
	if !json.Valid(value) {
		value = lenient(src)
	}
	if src[0] == '[' {
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil {
			return nil, invalid(src, value, err)
		}
		if len(list) != 1 || list[0][0] != '{' {
			return nil, fmt.Errorf("the answer is a list of %d values, wanted is one JSON object", len(list))
		}
		value = list[0]
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(value, &object); err != nil {
		return nil, invalid(src, value, err)
	}
	if key := repeatedKey(value); key != "" {
		return nil, fmt.Errorf("the key %s is there twice in one object; give it once", key)
	}
	return value, nil
}

// repeatedKey gives a key that an object inside of value, or value itself, has twice: nobody can tell which one is
// meant, and a decoder would take the last. value is valid JSON.
func repeatedKey(value []byte) string {
	var open []map[string]bool // the keys of each open object; nil for a list
	for i := 0; i < len(value); i++ {
		switch value[i] {
		case '{':
			open = append(open, map[string]bool{})
		case '[':
			open = append(open, nil)
		case '}', ']':
			open = open[:len(open)-1]
		case '"':
			text := value[i : i+stringLen(value[i:])]
			i += len(text) - 1
			if keys := open[len(open)-1]; keys != nil && isKey(value[i+1:]) {
				var key string
				if json.Unmarshal(text, &key) != nil || keys[key] {
					return quoteHead([]byte(key))
				}
				keys[key] = true
			}
		}
	}
	return ""
}

// isKey reports whether a colon comes next.
func isKey(behind []byte) bool {
	behind = bytes.TrimLeft(behind, " \t\r\n")
	return len(behind) > 0 && behind[0] == ':'
}

// invalid describes a syntax error with the text before it, which a model finds more easily than an offset.
func invalid(src, value []byte, err error) error {
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return fmt.Errorf("the JSON that begins with %s cannot be read: %w", quoteHead(src), err)
	}
	at := min(max(int(syntax.Offset)-1, 0), len(value))
	return fmt.Errorf("invalid JSON after %s: %w", quoteTail(value[:at]), err)
}

func quoteHead(b []byte) string {
	return fmt.Sprintf("%q", bytes.ToValidUTF8(b[:min(len(b), 40)], nil))
}

func quoteTail(b []byte) string {
	return fmt.Sprintf("%q", bytes.ToValidUTF8(b[max(0, len(b)-40):], nil))
}
