package tasklist

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/internal/text"
)

// value is a JSON value with the line where it ends, which for a text or number is where it stands.
type value struct {
	line   int
	object bool
	fields []field // of an object, in order
	list   bool
	items  []*value
	scalar any // string, json.Number, bool; nil: null, or no scalar
}

type field struct {
	key   string
	value *value
}

// get returns the first of the named fields that has a value, or nil. Of a field that is there twice the last one counts.
func (v *value) get(keys ...string) *value {
	if v != nil {
		for _, key := range keys {
			for _, f := range slices.Backward(v.fields) {
				if f.key == key && !f.value.null() {
					return f.value
				}
			}
		}
	}
	return nil
}

// has reports whether the object has one of the keys, if only with null.
func (v *value) has(keys ...string) bool {
	return slices.ContainsFunc(v.fields, func(f field) bool { return slices.Contains(keys, f.key) })
}

func (v *value) null() bool { return v == nil || !v.object && !v.list && v.scalar == nil }

// is names the kind of a value, for messages.
func (v *value) is() string {
	switch v.scalar.(type) {
	case string:
		return "a text"
	case json.Number:
		return "a number"
	case bool:
		return "true or false"
	}
	return text.If(v.object, "an object") + text.If(v.list, "a list") + text.If(v.null(), "nothing")
}

// plain returns a text, a number or a bool as text; "" for all else.
func (v *value) plain() string {
	if v == nil || v.scalar == nil {
		return ""
	}
	return strings.TrimSpace(tidy(fmt.Sprint(v.scalar)))
}

// words returns a text, and whether it is one.
func (v *value) words() (string, bool) {
	if v == nil {
		return "", false
	}
	_, ok := v.scalar.(string)
	return v.plain(), ok
}

// tidy drops what neither a prompt nor a YAML file should hold.
func tidy(s string) string {
	return strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "", "\ufeff", "").Replace(strings.ToValidUTF8(s, "\uFFFD"))
}

// jsonError is a mistake in a JSON text.
type jsonError struct {
	line int
	what string
}

func (e *jsonError) Error() string { return e.what }

// decoder reads JSON values, and counts lines.
type decoder struct {
	*json.Decoder
	data     []byte
	line, at int // the line of the offset at
}

func newDecoder(data []byte, line int) *decoder {
	d := &decoder{Decoder: json.NewDecoder(bytes.NewReader(data)), data: data, line: line}
	d.UseNumber()
	return d
}

// here returns the line of the end of what was read last.
func (d *decoder) here() int {
	end := min(int(d.InputOffset()), len(d.data))
	d.line += bytes.Count(d.data[d.at:end], []byte("\n"))
	d.at = end
	return d.line
}

// maxDepth bounds nesting: the formats need six.
const maxDepth = 64

// next reads one value, or returns [io.EOF] at the end.
func (d *decoder) next() (*value, error) {
	v, err := d.value(0)
	if err == nil || errors.Is(err, io.EOF) {
		return v, err
	}
	if _, told := errors.AsType[*jsonError](err); told {
		return nil, err
	}
	wrong := &jsonError{what: "it is no JSON: " + strings.TrimPrefix(err.Error(), "json: ")}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		wrong.line = d.line + bytes.Count(d.data[d.at:min(max(int(syntax.Offset)-1, d.at), len(d.data))], []byte("\n"))
	} else {
		wrong.line = d.here()
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		wrong.what = "it ends in the middle of a value: the file is cut off"
	}
	return nil, wrong
}

func (d *decoder) value(depth int) (*value, error) {
	token, err := d.Token()
	if err != nil {
		if depth > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	v := &value{line: d.here()}
	if depth > maxDepth {
		return nil, &jsonError{v.line, fmt.Sprintf("it is nested deeper than %d levels", maxDepth)}
	}
	switch token {
	case json.Delim('{'):
		v.object = true
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			inner, err := d.value(depth + 1)
			if err != nil {
				return nil, err
			}
			name, _ := key.(string) // else Token fails
			v.fields = append(v.fields, field{name, inner})
		}
		_, err = d.Token()
	case json.Delim('['):
		v.list = true
		for d.More() {
			inner, err := d.value(depth + 1)
			if err != nil {
				return nil, err
			}
			v.items = append(v.items, inner)
		}
		_, err = d.Token()
	default:
		v.scalar = token
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return v, err
}

// document reads a file that is one JSON value.
func document(data []byte) (*value, error) {
	d := newDecoder(data, 1)
	v, err := d.next()
	if err == nil {
		if _, more := d.next(); !errors.Is(more, io.EOF) {
			err = &jsonError{d.here(), "something follows the end of the JSON"}
		}
	}
	if errors.Is(err, io.EOF) {
		err = &jsonError{1, "it is empty"}
	}
	return v, err
}
