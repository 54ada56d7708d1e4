package boulder

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// plan says how values of a type are written. Finding that out takes longer than writing one, so it is done once.
type plan struct {
	append func(w writer, to []byte, v reflect.Value) ([]byte, error)
}

var plans sync.Map // reflect.Type → *plan

func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	p, _ := plans.LoadOrStore(t, makePlan(t)) // another goroutine's is as good
	return p.(*plan)
}

var (
	timeType      = reflect.TypeFor[time.Time]()
	marshalerType = reflect.TypeFor[json.Marshaler]()
	textType      = reflect.TypeFor[encoding.TextMarshaler]()
)

// makePlan knows the kinds of values that records are made of. It does not know types that contain themselves.
func makePlan(t reflect.Type) *plan {
	if t == timeType {
		return &plan{func(w writer, to []byte, v reflect.Value) ([]byte, error) { return w.time(to, timeIn(v)) }}
	}
	if t.Kind() != reflect.Pointer {
		if p := reflect.PointerTo(t); p.Implements(marshalerType) || p.Implements(textType) {
			return &plan{writer.other}
		}
	}
	switch t.Kind() {
	case reflect.String:
		return &plan{func(w writer, to []byte, v reflect.Value) ([]byte, error) { return w.text(to, v.String()), nil }}
	case reflect.Bool:
		return &plan{func(_ writer, to []byte, v reflect.Value) ([]byte, error) {
			return strconv.AppendBool(to, v.Bool()), nil
		}}
	case reflect.Int, reflect.Int64:
		return &plan{func(_ writer, to []byte, v reflect.Value) ([]byte, error) {
			return strconv.AppendInt(to, v.Int(), 10), nil
		}}
	case reflect.Uint64:
		return &plan{func(_ writer, to []byte, v reflect.Value) ([]byte, error) {
			return strconv.AppendUint(to, v.Uint(), 10), nil
		}}
	case reflect.Float64:
		return &plan{appendFloat}
	case reflect.Pointer:
		return planOfPointer(planOf(t.Elem()))
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			return planOfSlice(planOf(t.Elem()))
		}
	case reflect.Struct:
		if fields, ok := fieldsOf(t, nil); ok {
			return planOfStruct(fields)
		}
	}
	return &plan{writer.other}
}

// timeIn takes a time out of a record without a copy on the heap, where that can be.
func timeIn(v reflect.Value) time.Time {
	if v.CanAddr() {
		return *v.Addr().Interface().(*time.Time)
	}
	return v.Interface().(time.Time)
}

// appendFloat knows zero, which costs are that have no price; the format of others is a subject of its own.
func appendFloat(w writer, to []byte, v reflect.Value) ([]byte, error) {
	if v.IsZero() {
		return append(to, '0'), nil
	}
	return w.other(to, v)
}

func planOfPointer(of *plan) *plan {
	return &plan{func(w writer, to []byte, v reflect.Value) ([]byte, error) {
		if v.IsNil() {
			return append(to, "null"...), nil
		}
		return of.append(w, to, v.Elem())
	}}
}

func planOfSlice(of *plan) *plan {
	return &plan{func(w writer, to []byte, v reflect.Value) (_ []byte, err error) {
		if v.IsNil() {
			return append(to, "null"...), nil
		}
		to = append(to, '[')
		for i := range v.Len() {
			if i > 0 {
				to = append(to, ',')
			}
			if to, err = of.append(w, to, v.Index(i)); err != nil {
				return nil, err
			}
		}
		return append(to, ']'), nil
	}}
}

// field is one member of an object.
type field struct {
	index []int  // of the field, through embedded structs
	key   string // with quotes and colon
	omit  func(reflect.Value) bool
	plan  *plan
}

// fieldsOf lists the fields of a struct, those of embedded ones in their place. It gives up on tags that records do not
// have.
func fieldsOf(t reflect.Type, at []int) (all []field, ok bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		index := append(slices.Clone(at), i)
		switch {
		case f.Tag.Get("json") == "-":
			continue
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			inner, ok := fieldsOf(f.Type, index)
			if !ok {
				return nil, false
			}
			all = append(all, inner...)
			continue
		case !f.IsExported(), name == "", f.Anonymous:
			return nil, false
		}
		omit, known := omission(options, f.Type)
		if !known {
			return nil, false
		}
		all = append(all, field{index, string(writer{html: true}.text(nil, name)) + ":", omit, planOf(f.Type)})
	}
	return all, !repeated(all)
}

// repeated reports whether two fields have the same key: which one counts is a matter of rules that are not known here.
func repeated(all []field) bool {
	has := map[string]bool{}
	for _, f := range all {
		if has[f.key] {
			return true
		}
		has[f.key] = true
	}
	return false
}

// omission says which values of a field are left out; nil: none.
func omission(options string, t reflect.Type) (omit func(reflect.Value) bool, known bool) {
	switch options {
	case "":
		return nil, true
	case "omitempty":
		switch t.Kind() {
		case reflect.Slice, reflect.Map:
			return func(v reflect.Value) bool { return v.Len() == 0 }, true
		case reflect.Struct, reflect.Array:
			return nil, t.Kind() == reflect.Struct // a struct is never empty
		}
		return reflect.Value.IsZero, true
	case "omitzero":
		if t == timeType {
			return func(v reflect.Value) bool { return timeIn(v).IsZero() }, true
		}
		_, own := reflect.PointerTo(t).MethodByName("IsZero")
		return reflect.Value.IsZero, !own
	}
	return nil, false
}

func planOfStruct(fields []field) *plan {
	return &plan{func(w writer, to []byte, v reflect.Value) (_ []byte, err error) {
		to = append(to, '{')
		first := true
		for i := range fields {
			f := &fields[i]
			member := v.Field(f.index[0])
			for _, inner := range f.index[1:] {
				member = member.Field(inner)
			}
			if f.omit != nil && f.omit(member) {
				continue
			}
			if !first {
				to = append(to, ',')
			}
			first = false
			to = append(to, f.key...)
			if to, err = f.plan.append(w, to, member); err != nil {
				return nil, err
			}
		}
		return append(to, '}'), nil
	}}
}
