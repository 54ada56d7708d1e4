package providers

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
)

// coerce rewrites a valid JSON value towards the Go type that it shall be decoded into, where model and type differ
// only in form: "true" for a boolean, "3" for a number, 3 for a string (ids), one value for a list. What does not fit
// is left as it is, for the decoder to name. Types that decode themselves are not touched.
func coerce(raw json.RawMessage, to reflect.Type) json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" || decodesItself(to) {
		return raw
	}
	switch to.Kind() {
	case reflect.Pointer:
		return coerce(raw, to.Elem())
	case reflect.Struct, reflect.Map:
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return raw
		}
		for key, value := range object {
			if member := memberType(to, key); member != nil {
				object[key] = coerce(value, member)
			}
		}
		return remarshal(object, raw)
	case reflect.Slice, reflect.Array:
		return coerceList(raw, to)
	case reflect.String:
		if c := raw[0]; c == '-' || '0' <= c && c <= '9' {
			return remarshal(string(raw), raw)
		}
	case reflect.Bool:
		switch word := strings.ToLower(unquoted(raw)); word {
		case "true", "false":
			return json.RawMessage(word)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64:
		if number := strings.TrimSpace(unquoted(raw)); number != "" && json.Valid([]byte(number)) {
			return json.RawMessage(number)
		}
	}
	return raw
}

// memberType is the type of a member of an object, as encoding/json finds it; nil if there is none.
func memberType(object reflect.Type, key string) reflect.Type {
	if object.Kind() == reflect.Map {
		return object.Elem()
	}
	for _, field := range reflect.VisibleFields(object) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		stored := field.IsExported() && name != "-" && (!field.Anonymous || name != "")
		if stored && strings.EqualFold(key, cmp.Or(name, field.Name)) {
			return field.Type
		}
	}
	return nil
}

func coerceList(raw json.RawMessage, to reflect.Type) json.RawMessage {
	if to.Elem().Kind() == reflect.Uint8 {
		return raw // bytes are base64 text
	}
	var list []json.RawMessage
	switch {
	case raw[0] != '[':
		list = []json.RawMessage{raw}
	case json.Unmarshal(raw, &list) != nil:
		return raw
	}
	for i, value := range list {
		list[i] = coerce(value, to.Elem())
	}
	return remarshal(list, raw)
}

func decodesItself(t reflect.Type) bool {
	pointer := reflect.PointerTo(t)
	return pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func unquoted(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// remarshal encodes a value made of strings and valid raw JSON, which cannot fail; original is the way out all the
// same.
func remarshal(value any, original json.RawMessage) json.RawMessage {
	encoded, err := json.Marshal(value)
	if err != nil {
		return original
	}
	return encoded
}
