package yamlfile

import (
	"encoding"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Entry is a value with the path of its key, such as limits.models[0].limit.
type Entry struct {
	Key   string `json:"key"`
	Value string `json:"value"` // as text
}

// Entries lists what [Decode] reads into a value of this type, without empty values.
func Entries(of any) []Entry { return entries("", "", reflect.ValueOf(of)) }

func entries(path, option string, v reflect.Value) (all []Entry) {
	one := func(text string) []Entry { return []Entry{{path, text}} }
	switch value := v.Interface().(type) {
	case fmt.Stringer:
		if v.Kind() == reflect.Pointer && v.IsNil() {
			return nil
		}
		if period, is := value.(time.Duration); is && period == 0 {
			break
		}
		return one(value.String())
	case encoding.TextMarshaler:
		text, _ := value.MarshalText() // only of times, which never fail
		return one(string(text))
	case []string:
		if value == nil {
			return nil
		}
		return one("[" + strings.Join(value, ", ") + "]")
	}
	switch {
	case option == "off" && v.Kind() == reflect.Int && v.Int() < 0, (option == "off" || option == "share") && v.Kind() != reflect.Int && v.IsZero():
		return one("off")
	case v.Kind() == reflect.Pointer && !v.IsNil():
		return entries(path, option, v.Elem())
	case v.Kind() == reflect.Struct:
		for _, f := range fieldsOf(v.Type()) {
			all = append(all, entries(join(path, f.key), f.option, v.FieldByIndex(f.Index))...)
		}
	case v.Kind() == reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			all = append(all, entries(join(path, key.String()), "", v.MapIndex(key))...)
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			all = append(all, entries(fmt.Sprintf("%s[%d]", path, i), "", v.Index(i))...)
		}
	case v.Kind() == reflect.Bool || !v.IsZero():
		return one(fmt.Sprint(v.Interface()))
	}
	return all
}

// Paths returns the paths of all values of the file.
func (f *File) Paths() iter.Seq[string] { return maps.Keys(f.spots) }
