package secret

import (
	"encoding/json"
	"reflect"
	"time"
)

// Each returns a copy of v, which shares nothing that can be changed with it, with every string in it given to replace:
// in exported fields of structs, in slices, maps (keys stay), pointers and interfaces. An encoded value
// ([json.RawMessage]) is given to replaceJSON; other bytes and times are left as they are.
func Each[T any](v T, replace func(string) string, replaceJSON func([]byte) []byte) T {
	var clean T
	replacer{replace, replaceJSON}.copy(reflect.ValueOf(&clean).Elem(), reflect.ValueOf(&v).Elem())
	return clean
}

type replacer struct {
	text func(string) string
	json func([]byte) []byte
}

var (
	rawType  = reflect.TypeFor[json.RawMessage]()
	timeType = reflect.TypeFor[time.Time]()
)

func (r replacer) copy(out, in reflect.Value) {
	out.Set(in) // unexported fields and what holds no text
	switch in.Kind() {
	case reflect.String:
		out.SetString(r.text(in.String()))
	case reflect.Pointer:
		if !in.IsNil() {
			out.Set(reflect.New(in.Type().Elem()))
			r.copy(out.Elem(), in.Elem())
		}
	case reflect.Interface:
		if !in.IsNil() {
			elem := reflect.New(in.Elem().Type()).Elem()
			r.copy(elem, in.Elem())
			out.Set(elem)
		}
	case reflect.Struct:
		if in.Type() == timeType {
			return
		}
		for i := range in.NumField() {
			if in.Type().Field(i).IsExported() {
				r.copy(out.Field(i), in.Field(i))
			}
		}
	case reflect.Slice:
		switch {
		case in.IsNil():
		case in.Type() == rawType:
			out.SetBytes(append([]byte{}, r.json(in.Bytes())...))
		default:
			out.Set(reflect.MakeSlice(in.Type(), in.Len(), in.Len()))
			for i := range in.Len() {
				r.copy(out.Index(i), in.Index(i))
			}
		}
	case reflect.Map:
		if in.IsNil() {
			return
		}
		out.Set(reflect.MakeMap(in.Type()))
		for key, value := range in.Seq2() {
			clean := reflect.New(in.Type().Elem()).Elem()
			r.copy(clean, value)
			out.SetMapIndex(key, clean)
		}
	}
}
