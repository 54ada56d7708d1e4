package providers

import (
	"bytes"
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
	case reflect.Struct:
		return coerceStruct(raw, to)
	case reflect.Map:
		return coerceMap(raw, to.Elem())
	case reflect.Slice, reflect.Array:
		return coerceList(raw, to)
	case reflect.String:
		if c := raw[0]; c == '-' || '0' <= c && c <= '9' {
			return quoted(raw)
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

func coerceStruct(raw json.RawMessage, to reflect.Type) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		return raw
	}
	for _, field := range reflect.VisibleFields(to) {
		name, ok := jsonName(field)
		if !ok {
			continue
		}
		for key, value := range object {
			if strings.EqualFold(key, name) { // as encoding/json matches them
				object[key] = coerce(value, field.Type)
			}
		}
	}
	return remarshal(object, raw)
}

func coerceMap(raw json.RawMessage, elem reflect.Type) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		return raw
	}
	for key, value := range object {
		object[key] = coerce(value, elem)
	}
	return remarshal(object, raw)
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

// jsonName gives the key under which encoding/json stores a field; ok is false for fields it does not store itself.
func jsonName(field reflect.StructField) (name string, ok bool) {
	tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if !field.IsExported() || tag == "-" || field.Anonymous && tag == "" {
		return "", false
	}
	if tag == "" {
		return field.Name, true
	}
	return tag, true
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

func quoted(raw json.RawMessage) json.RawMessage { return remarshal(string(raw), raw) }

// remarshal encodes a value made of strings and valid raw JSON, which cannot fail; original is the way out all the
// same.
func remarshal(value any, original json.RawMessage) json.RawMessage {
	encoded, err := json.Marshal(value)
	if err != nil {
		return original
	}
	return encoded
}
