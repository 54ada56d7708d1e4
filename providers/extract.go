package providers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/internal/text"
)

const (
	maxAnswer  = 1 << 20 // the longest answer that is searched for JSON, in bytes. Ledgers are a few kilobytes.
	maxObjects = 16      // how many objects are tried, from the end. Drafts come in twos and threes.
)

var errNoJSON = errors.New("the answer contains no JSON object")

// candidates gives the valid top-level JSON objects of a model's answer, the last one first, at least one if the error is
// nil. Reasoning blocks, code fences and prose around them are ignored; slips that have only one reading are put right, see
// [lenient]. The error says, in words fit for the model, what is wrong.
//
// What it never does is guess. An object that is not closed was cut, and completing it would turn half an answer into
// a whole one ("completed": true, with the objections missing); an object inside of another is never taken for the
// answer; prose stays prose.
func candidates(answer string) ([]json.RawMessage, error) {
	if len(answer) > maxAnswer {
		return nil, fmt.Errorf("the answer of %d bytes is too long, at most %d are read", len(answer), maxAnswer)
	}
	// Some gateways encode the object a second time, as a JSON string.
	var inner string
	if json.Unmarshal([]byte(answer), &inner) == nil {
		answer = inner
	}
	answer = leadingReasoning().ReplaceAllString(answer, "")
	found, err := scan([]byte(answer))
	// A closing tag without its opening one ends a reasoning block too: chat templates often open it in the prompt.
	// But the words may also stand inside of a string, so the part behind it counts only if an answer is there.
	if tag := lastClosingTag().FindStringIndex(answer); tag != nil {
		if behind, tailErr := scan([]byte(answer[tag[1]:])); tailErr == nil {
			found, err = behind, nil
		}
	}
	return found, err
}

// blank is what is invisible outside of strings; JSON knows four of them.
const blank = `\s\x{85}\p{Z}\x{200B}-\x{200D}\x{2060}\x{FEFF}`

// Models think aloud between marks; in brackets Magistral, in triangles Kimi. A block that is never closed is all there is.
var (
	leadingReasoning = text.Regexp(`(?s)^(?:[` + blank + `]|<think>.*?(?:</think>|\z)|<thinking>.*?(?:</thinking>|\z)|` +
		`<reasoning>.*?(?:</reasoning>|\z)|<thought>.*?(?:</thought>|\z)|` +
		`\[THINK\].*?(?:\[/THINK\]|\z)|◁think▷.*?(?:◁/think▷|\z))+`)
	lastClosingTag = text.Regexp(`(?s)^.*(?:</(?:think|thinking|reasoning|thought)>|\[/THINK\]|◁/think▷)`)
)

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
		}
		problem = cmp.Or(problem, err)
	}
	switch {
	case len(found) > 0:
		return found, nil
	case problem == nil:
		return nil, noJSON(src)
	}
	return nil, problem
}

// almost matches what was meant to be an object, but does not begin like one.
var almost = text.Regexp(`\{\s*(?:(“|”|„|«|\\")|([A-Za-z_][A-Za-z0-9_]*)\s*:)`)

// maxHint is how much of an answer without an object is searched for what was meant to be one, in bytes.
const maxHint = 16 << 10

func noJSON(src []byte) error {
	src = src[:min(len(src), maxHint)]
	switch m := almost().FindSubmatchIndex(src); {
	case m == nil:
		return errNoJSON
	case m[2] >= 0 && src[m[2]] == '\\':
		return fmt.Errorf("%w: the quotation marks of %s are escaped; write them without the backslash",
			errNoJSON, quoteHead(src[m[0]:]))
	case m[2] >= 0:
		return fmt.Errorf("%w: %s has typographic quotation marks; write straight ones (\")",
			errNoJSON, quoteHead(src[m[0]:]))
	default:
		return fmt.Errorf("%w: the key %s is not in quotation marks", errNoJSON, src[m[4]:min(m[5], m[4]+40)])
	}
}

// A value begins like an object, or like a list of objects, and not like prose or a template with braces ("{name}",
// "{{"). Its tokens are strings, comments and brackets.
var (
	opening = text.Regexp(`(?:\[[` + blank + `]*)?\{[` + blank + `]*["'}/#]`)
	token   = text.Regexp(`(?s)` + stringOrComment + `|[][{}"']`)
)

const stringOrComment = `"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|#[^\n]*|//[^\n]*|/\*.*?(?:\*/|\z)`

// topLevel finds what is balanced and looks like an object or a list of objects, in order. Its time is linear, whatever
// the input: what is balanced is stepped over, and what is not ends the search.
func topLevel(src []byte) ([][]byte, error) {
	var values [][]byte
	for {
		start := opening().FindIndex(src)
		if start == nil {
			return values, nil
		}
		src = src[start[0]:]
		length := balancedLen(src)
		if length < 0 {
			return nil, fmt.Errorf("the JSON that begins with %s is not closed: it was cut, or a quotation mark inside "+
				"of a string is not escaped", quoteHead(src))
		}
		values = append(values, src[:length])
		src = src[length:]
	}
}

// balancedLen gives the length of the value that src begins with, or -1 if it is not closed. Brackets inside of
// strings and comments do not count.
func balancedLen(src []byte) int {
	depth := 0
	for at := 0; ; {
		found := token().FindIndex(src[at:])
		if found == nil {
			return -1
		}
		first := src[at+found[0]]
		at += found[1]
		switch {
		case first == '{' || first == '[':
			depth++
		case first == '}' || first == ']':
			if depth--; depth == 0 {
				return at
			}
		case found[1]-found[0] == 1 && first != '#': // a quote without its other one
			return -1
		}
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

// member matches the strings and brackets of valid JSON; behind the name of a member comes a colon.
var member = text.Regexp(`("(?:[^"\\]|\\.)*")(\s*:)?|[][{}]`)

// repeatedKey gives a key that an object inside of value, or value itself, has twice: nobody can tell which one is
// meant, and a decoder would take the last. value is valid JSON.
func repeatedKey(value []byte) string {
	var open []map[string]bool // the keys of each open object
	for _, found := range member().FindAllSubmatch(value, -1) {
		switch found[0][0] {
		case '{', '[':
			open = append(open, map[string]bool{})
		case '}', ']':
			open = open[:len(open)-1]
		default:
			var key string
			if found[2] == nil {
				continue
			}
			if keys := open[len(open)-1]; json.Unmarshal(found[1], &key) != nil || keys[key] {
				return quoteHead([]byte(key))
			}
			open[len(open)-1][key] = true
		}
	}
	return ""
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

var (
	slip = text.Regexp(`(?s)` + stringOrComment + `|\b(?:True|TRUE|False|FALSE|None|NULL)\b|[：，、]|[` + blank + `]+`)
	// inString is what stands in a string for itself, and the escapes that JSON or Python know.
	inString = text.Regexp(`\\u[0-9A-Fa-f]{4}|\\["\\/bfnrt']|\\|"|[\x00-\x1f]`)
	// commas are the last ones before a closing bracket, and those before which something is missing: these stay.
	commas = text.Regexp(`(?s)"(?:[^"\\]|\\.)*"|[[{,:]\s*,|,\s*[]}]`)
)

// lenient rewrites a balanced value so that slips which have exactly one reading become JSON: trailing commas,
// comments, other languages' words for true, false and null, single-quoted strings, raw line breaks and tabs inside of
// strings, escapes that JSON does not know, typographic blanks and full-width colons and commas outside of strings.
// Everything else is left as it is, for the decoder to refuse. Valid JSON keeps its meaning.
func lenient(src []byte) []byte {
	value := slip().ReplaceAllFunc(src, func(found []byte) []byte {
		switch string(found) {
		case "True", "TRUE", "False", "FALSE":
			return bytes.ToLower(found)
		case "None", "NULL":
			return []byte("null")
		case "：":
			return []byte(":")
		case "，", "、":
			return []byte(",")
		}
		if quote := found[0]; quote != '"' && quote != '\'' { // a blank or a comment
			return []byte(" ")
		}
		return fmt.Appendf(nil, `"%s"`, inString().ReplaceAllFunc(found[1:len(found)-1], mendInString))
	})
	return commas().ReplaceAllFunc(value, func(found []byte) []byte {
		if last := found[len(found)-1]; last == ']' || last == '}' {
			return []byte{last}
		}
		return found
	})
}

func mendInString(found []byte) []byte {
	switch {
	case found[0] < ' ':
		return fmt.Appendf(nil, `\u%04x`, found[0])
	case string(found) == `"`: // only possible inside of single quotes
		return []byte(`\"`)
	case string(found) == `\`: // \d, \_ or C:\Users: nothing but a literal backslash can be meant
		return []byte(`\\`)
	case string(found) == `\'`: // an escape in Python only
		return []byte(`'`)
	}
	return found
}

// coerced rewrites a valid JSON value towards the Go type that it shall be decoded into, where model and type differ
// only in form: "true" for a boolean, 3 for a string (ids), one value for a list. What does not fit is left as it is, for
// the decoder to name. Types that decode themselves are not touched.
func coerced(raw json.RawMessage, to reflect.Type) json.RawMessage {
	var value any
	in := json.NewDecoder(bytes.NewReader(raw))
	in.UseNumber()                                // to write them as they were
	_ = in.Decode(&value)                         // it is valid
	encoded, _ := json.Marshal(coerce(value, to)) // and stays it
	return encoded
}

func coerce(value any, to reflect.Type) any {
	if value == nil || reflect.PointerTo(to).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return value
	}
	switch to.Kind() {
	case reflect.Pointer:
		return coerce(value, to.Elem())
	case reflect.Struct:
		object, _ := value.(map[string]any)
		for key, value := range object {
			for field := range to.Fields() {
				if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); strings.EqualFold(key, name) {
					object[key] = coerce(value, field.Type)
				}
			}
		}
	case reflect.Slice:
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for i := range list {
			list[i] = coerce(list[i], to.Elem())
		}
		return list
	case reflect.String:
		if number, ok := value.(json.Number); ok {
			return number.String()
		}
	case reflect.Bool:
		said, _ := value.(string)
		if said = strings.ToLower(strings.TrimSpace(said)); said == "true" || said == "false" {
			return said == "true"
		}
	}
	return value
}
