package providers

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// coerced rewrites a valid JSON value towards the Go type that it shall be decoded into, where model and type differ
// only in form: "true" for a boolean, "3" for a number, 3 for a string (ids), one value for a list. What does not fit
// is left as it is, for the decoder to name. Types that decode themselves are not touched.
func coerced(raw json.RawMessage, to reflect.Type) json.RawMessage {
	var value any
	in := json.NewDecoder(bytes.NewReader(raw))
	in.UseNumber() // to write them as they were
	if in.Decode(&value) != nil {
		return raw
	}
	encoded, err := json.Marshal(coerce(value, to))
	if err != nil {
		return raw
	}
	return encoded
}

func coerce(value any, to reflect.Type) any {
	if to.Kind() == reflect.Pointer {
		to = to.Elem()
	}
	self := reflect.PointerTo(to)
	if value == nil || self.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		self.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return value
	}
	said, isText := value.(string)
	said = strings.TrimSpace(said)
	switch to.Kind() {
	case reflect.Struct, reflect.Map:
		object, _ := value.(map[string]any)
		for key, value := range object {
			if member := memberType(to, key); member != nil {
				object[key] = coerce(value, member)
			}
		}
	case reflect.Slice, reflect.Array:
		if to.Elem().Kind() == reflect.Uint8 {
			return value // bytes are base64 text
		}
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
		if strings.EqualFold(said, "true") || strings.EqualFold(said, "false") {
			return strings.EqualFold(said, "true")
		}
	default:
		if _, err := strconv.ParseFloat(said, 64); isText && err == nil && json.Valid([]byte(said)) {
			return json.Number(said)
		}
	}
	return value
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
