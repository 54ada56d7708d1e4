package secret

import (
	"bytes"
	"encoding/json"
	"reflect"
	"time"

	"github.com/bouldermgr/manager/internal/text"
)

// JSON applies [Redactor.Text] to the strings of a JSON text, member names included. Valid JSON stays valid, with the
// same structure and types; numbers are never changed. A value whose name says that it is secret is replaced as a whole
// if it looks random. Other input is treated as text. The result may be data itself.
func (r *Redactor) JSON(data []byte) []byte {
	if !json.Valid(data) {
		return []byte(r.Text(string(data)))
	}
	name := ""
	return literal().ReplaceAllFunc(data, func(m []byte) []byte {
		end := bytes.LastIndexByte(m, '"') + 1
		var s string
		if end == 0 || json.Unmarshal(m[:end], &s) != nil {
			name = ""
			return m
		}
		clean := r.Text(s)
		if clean == s && name != "" && secretName(name) && random(s) && !pathLike(s) && !placeholder(s) {
			clean = Redacted
		}
		if end < len(m) {
			name = s
		}
		if clean == s {
			return m
		}
		return append([]byte(`"`+jsonEscaped(clean, false)+`"`), m[end:]...)
	})
}

// literal matches a string in valid JSON, with the colon after a name; or what ends the value of a name.
var literal = text.Regexp(`"(?:[^"\\]|\\.)*"(?:\s*:)?|[,{}]`)

// Cleaner removes secrets from texts, as a [Redactor] does.
type Cleaner interface {
	Text(s string) string
	JSON(data []byte) []byte
}

// Each returns a deep copy of v with every string cleaned: in exported fields of structs, in slices, maps (not their
// keys), pointers and interfaces. A [json.RawMessage] is cleaned as JSON; other bytes and times stay.
func Each[T any](v T, c Cleaner) T {
	var clean T
	cleanCopy(c, reflect.ValueOf(&clean).Elem(), reflect.ValueOf(&v).Elem())
	return clean
}

var (
	rawType  = reflect.TypeFor[json.RawMessage]()
	timeType = reflect.TypeFor[time.Time]()
)

func cleanCopy(c Cleaner, out, in reflect.Value) {
	out.Set(in) // unexported fields and values without text
	switch in.Kind() {
	case reflect.String:
		out.SetString(c.Text(in.String()))
	case reflect.Pointer:
		if !in.IsNil() {
			out.Set(reflect.New(in.Type().Elem()))
			cleanCopy(c, out.Elem(), in.Elem())
		}
	case reflect.Interface:
		if !in.IsNil() {
			elem := reflect.New(in.Elem().Type()).Elem()
			cleanCopy(c, elem, in.Elem())
			out.Set(elem)
		}
	case reflect.Struct:
		if in.Type() == timeType {
			return
		}
		for i := range in.NumField() {
			if in.Type().Field(i).IsExported() {
				cleanCopy(c, out.Field(i), in.Field(i))
			}
		}
	case reflect.Slice:
		switch {
		case in.IsNil():
		case in.Type() == rawType:
			out.SetBytes(append([]byte{}, c.JSON(in.Bytes())...))
		default:
			out.Set(reflect.MakeSlice(in.Type(), in.Len(), in.Len()))
			for i := range in.Len() {
				cleanCopy(c, out.Index(i), in.Index(i))
			}
		}
	case reflect.Map:
		if in.IsNil() {
			return
		}
		out.Set(reflect.MakeMap(in.Type()))
		for key, value := range in.Seq2() {
			clean := reflect.New(in.Type().Elem()).Elem()
			cleanCopy(c, clean, value)
			out.SetMapIndex(key, clean)
		}
	}
}
