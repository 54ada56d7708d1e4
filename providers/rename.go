package providers

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// renamed returns raw, which is valid JSON, with the keys of its objects spelled as T has them: models write dependsOn
// or needs where depends_on was asked for, and a key that the decoder does not know would be lost. A field's tag also
// lists other names, which may end with a *. What still has no field goes to the field [Rest], if there is one.
func renamed(raw json.RawMessage, to reflect.Type) json.RawMessage {
	in := json.NewDecoder(bytes.NewReader(raw))
	in.UseNumber() // keeps numbers as written
	var value any
	if in.Decode(&value) != nil || !rename(value, to) {
		return raw
	}
	encoded, _ := json.Marshal(value) // it was decoded
	return encoded
}

// rename reports whether it changed anything.
func rename(value any, to reflect.Type) (changed bool) {
	for to.Kind() == reflect.Pointer {
		to = to.Elem()
	}
	switch value := value.(type) {
	case []any:
		for i := range value {
			if to.Kind() == reflect.Slice {
				changed = rename(value[i], to.Elem()) || changed
			}
		}
	case map[string]any:
		if to.Kind() == reflect.Slice { // one value for a list
			return rename(value, to.Elem())
		}
		if to.Kind() != reflect.Struct || reflect.PointerTo(to).Implements(reflect.TypeFor[json.Unmarshaler]()) {
			return false
		}
		for field := range to.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" || name == "-" || name == Rest {
				continue
			}
			for key, given := range value {
				if strings.EqualFold(key, name) || !means(key, name, field.Tag.Get("also")) || known(key, to) {
					continue
				}
				delete(value, key)
				value[name] = joined(value[name], given)
				changed = true
			}
			changed = rename(value[name], field.Type) || changed
		}
		changed = collectRest(value, to) || changed
	}
	return changed
}

// Rest is the key of a field, a map[string]any, that gets the keys of an answer which no other field has.
const Rest = "*"

func collectRest(value map[string]any, to reflect.Type) bool {
	rest := map[string]any{}
	for key, given := range value {
		if known(Rest, to) && !known(key, to) {
			rest[key] = given
			delete(value, key)
		}
	}
	if len(rest) == 0 {
		return false
	}
	value[Rest] = rest
	return true
}

// joined adds what a second name of a list holds.
func joined(first, second any) any {
	list := func(value any) []any {
		if all, ok := value.([]any); ok || value == nil {
			return all
		}
		return []any{value}
	}
	if _, isList := first.([]any); first == nil || !isList {
		return second
	}
	return append(list(first), list(second)...)
}

// known reports whether a field of its own has this key.
func known(key string, to reflect.Type) bool {
	for field := range to.Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); strings.EqualFold(name, key) {
			return true
		}
	}
	return false
}

func means(key, name, also string) bool {
	plain := func(s string) string {
		return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
	}
	key = plain(key)
	if key == plain(name) {
		return true
	}
	for other := range strings.SplitSeq(also, ",") {
		prefix, open := strings.CutSuffix(other, "*")
		if prefix != "" && (key == prefix || open && strings.HasPrefix(key, prefix)) {
			return true
		}
	}
	return false
}
