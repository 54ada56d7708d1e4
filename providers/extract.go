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
	maxAnswer  = 1 << 20 // in bytes. Ledgers are a few kilobytes.
	maxObjects = 16      // tried, from the end. Drafts come in twos and threes.
)

var errNoJSON = errors.New("the answer contains no JSON object")

// candidates returns the valid top-level JSON objects of a model's answer, the last one first, or else an error for the
// model. It ignores reasoning, code fences and prose around them, and repairs unambiguous slips, see [lenient].
//
// It never guesses. An unclosed object was cut, and completing it could lose half of the answer ("completed": true,
// without the objections). A nested object is never taken for the answer, nor is prose.
func candidates(answer string) ([]json.RawMessage, error) {
	if len(answer) > maxAnswer {
		return nil, fmt.Errorf("the answer of %d bytes is too long, at most %d are read", len(answer), maxAnswer)
	}
	// Some gateways encode the object again, as a JSON string.
	var inner string
	if json.Unmarshal([]byte(answer), &inner) == nil {
		answer = inner
	}
	answer = leadingReasoning().ReplaceAllString(answer, "")
	found, err := scan([]byte(answer))
	// A closing tag without an opening one also ends reasoning, as chat templates often open it in the prompt. But it may
	// be part of a string, so the text after it counts only if it has an answer.
	if tag := lastClosingTag().FindStringIndex(answer); tag != nil {
		if behind, tailErr := scan([]byte(answer[tag[1]:])); tailErr == nil {
			found, err = behind, nil
		}
	}
	return found, err
}

// blank matches what is invisible outside strings; JSON allows four of them.
const blank = `\s\x{85}\p{Z}\x{200B}-\x{200D}\x{2060}\x{FEFF}`

// Models mark their reasoning; Magistral with brackets, Kimi with triangles. An unclosed block extends to the end.
var (
	leadingReasoning = text.Regexp(`(?s)^(?:[` + blank + `]|<think>.*?(?:</think>|\z)|<thinking>.*?(?:</thinking>|\z)|` +
		`<reasoning>.*?(?:</reasoning>|\z)|<thought>.*?(?:</thought>|\z)|` +
		`\[THINK\].*?(?:\[/THINK\]|\z)|◁think▷.*?(?:◁/think▷|\z))+`)
	lastClosingTag = text.Regexp(`(?s)^.*(?:</(?:think|thinking|reasoning|thought)>|\[/THINK\]|◁/think▷)`)
)

// scan returns the valid top-level objects of src, the last one first, or else an error about the last one.
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

// almost matches an intended object that does not start like one.
var almost = text.Regexp(`\{\s*(?:(“|”|„|«|\\")|([A-Za-z_][A-Za-z0-9_]*)\s*:)`)

// maxHint is how much of an answer without an object is searched for an intended one, in bytes.
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

// opening matches the start of an object, or of a list of objects, but not of prose or a template with braces
// ("{name}", "{{"). token matches strings, comments and brackets.
var (
	opening = text.Regexp(`(?:\[[` + blank + `]*)?\{[` + blank + `]*["'}/#]`)
	token   = text.Regexp(`(?s)` + stringOrComment + `|[][{}"']`)
)

const stringOrComment = `"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|#[^\n]*|//[^\n]*|/\*.*?(?:\*/|\z)`

// topLevel returns the balanced values that look like an object or a list of objects, in order. It is linear for any
// input: it skips balanced values, and stops at an unbalanced one.
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

// balancedLen returns the length of the value at the start of src, or -1 if it is not closed.
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
		case found[1]-found[0] == 1 && first != '#': // a single quotation mark
			return -1
		}
	}
}

// single returns the object of a balanced value: itself, or the only element of a list.
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

// member matches the strings and brackets of valid JSON; a colon follows a member's name.
var member = text.Regexp(`("(?:[^"\\]|\\.)*")(\s*:)?|[][{}]`)

// repeatedKey returns a key that occurs twice in an object of value, which is valid JSON. Decoders would take the last.
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

// invalid describes a syntax error by the text before it, which a model finds more easily than an offset.
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
	// inString matches what needs no escape in a string, and the escapes of JSON or Python.
	inString = text.Regexp(`\\u[0-9A-Fa-f]{4}|\\["\\/bfnrt']|\\|"|[\x00-\x1f]`)
	// commas matches trailing commas, which are removed, and commas before which something is missing, which stay.
	commas = text.Regexp(`(?s)"(?:[^"\\]|\\.)*"|[[{,:]\s*,|,\s*[]}]`)
)

// lenient turns slips with exactly one reading into JSON: trailing commas, comments, other languages' true, false and
// null, single-quoted strings, raw line breaks and tabs in strings, unknown escapes, and typographic blanks and
// full-width colons and commas outside strings. The decoder refuses anything else. Valid JSON keeps its meaning.
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
	case string(found) == `"`: // only inside single quotes
		return []byte(`\"`)
	case string(found) == `\`: // \d, \_ or C:\Users can only mean a literal backslash
		return []byte(`\\`)
	case string(found) == `\'`: // an escape in Python only
		return []byte(`'`)
	}
	return found
}

// coerced adapts a valid JSON value to a Go type where they differ only in form: "true" for a boolean, 3 for a string
// (ids), one value for a list. Anything else stays, for the decoder to report. Types that decode themselves stay too.
func coerced(raw json.RawMessage, to reflect.Type) json.RawMessage {
	var value any
	in := json.NewDecoder(bytes.NewReader(raw))
	in.UseNumber()                                // keeps numbers as written
	_ = in.Decode(&value)                         // it is valid
	encoded, _ := json.Marshal(coerce(value, to)) // and stays so
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
