package secret

import (
	"encoding/json"
	"reflect"
	"time"
)

// Cleaner takes secrets out of texts, as a [Redactor] does.
type Cleaner interface {
	Text(s string) string
	JSON(data []byte) []byte
}

// Each returns a copy of v, which shares nothing that can be changed with it, with every string in it cleaned: in exported
// fields of structs, in slices, maps (keys stay), pointers and interfaces. An encoded value ([json.RawMessage]) is cleaned
// as JSON; other bytes and times are left as they are.
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
	out.Set(in) // unexported fields and what holds no text
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
