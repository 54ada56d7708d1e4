package yamlfile

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/bouldermgr/manager/internal/text"
)

// Value is a value of a file, for types that read themselves.
type Value struct{ node ast.Node }

// Reader is a type that reads itself from a value.
type Reader interface {
	// ReadYAML returns [Wanted] if the value is of another kind; the text of any other error follows "NAME must be ".
	ReadYAML(v Value) error
}

// Wanted is an error that says what a value must be: "a duration as 90s".
type Wanted string

// Error says what is wanted.
func (w Wanted) Error() string { return string(w) }

// Text is a scalar as it is written; ok is false for everything else.
func (v Value) Text() (text string, ok bool) {
	switch n := v.node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// List gives the entries of a list; ok is false for everything else.
func (v Value) List() (items []Value, ok bool) {
	list, ok := v.node.(*ast.SequenceNode)
	if !ok {
		return nil, false
	}
	for _, n := range list.Values {
		items = append(items, Value{n})
	}
	return items, true
}

// String names the value in a message.
func (v Value) String() string {
	const shown = 60
	switch v.node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys and values"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	}
	written, ok := v.Text()
	if !ok {
		written = v.node.GetToken().Value
	}
	return strconv.Quote(text.Cut(written, shown))
}

// decoder writes values into Go's, collects what does not fit, and remembers where everything stood.
type decoder struct {
	file  *File
	to    reflect.Value
	known map[string][]string // where each key is known: paths without indexes
}

func newDecoder(f *File, to any) *decoder {
	d := &decoder{file: f, to: reflect.ValueOf(to).Elem(), known: map[string][]string{}}
	d.learn("", d.to.Type())
	return d
}

// learn collects the keys of a struct and of what is below it.
func (d *decoder) learn(path string, t reflect.Type) {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for _, f := range fieldsOf(t) {
		below := join(path, f.key)
		d.known[f.key] = append(d.known[f.key], below)
		d.learn(below, f.Type)
	}
}

func (d *decoder) decode(root ast.Node) { d.read("", root, d.to) }

func (d *decoder) wrong(path string, n ast.Node, what, do string) {
	if path == "" {
		path = "the file"
	}
	d.file.add(spotOf(n), path+" "+what, do)
}

// wrongKind reports a value of another kind than the one that is wanted.
func (d *decoder) wrongKind(path string, n ast.Node, wanted, do string) {
	d.wrong(path, n, fmt.Sprintf("must be %s, not %s", wanted, Value{n}), do)
}

// read reads a value, which is nothing only as an entry of a list.
func (d *decoder) read(path string, n ast.Node, to reflect.Value) {
	d.file.spots[path] = spotOf(n)
	if list, ok := n.(*ast.SequenceNode); ok {
		for i, item := range list.Values {
			d.file.spots[fmt.Sprintf("%s[%d]", path, i)] = spotOf(item)
		}
	}
	switch self := to.Addr().Interface().(type) {
	case Reader:
		d.readItself(path, n, self.ReadYAML(Value{n}))
		return
	case *time.Time:
		text, _ := Value{n}.Text()
		if self.UnmarshalText([]byte(text)) != nil {
			d.wrongKind(path, n, "a time as 2026-01-31T12:00:00Z", "")
		}
		return
	}
	switch to.Kind() {
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		d.read(path, n, to.Elem())
	case reflect.Struct:
		d.mapping(path, n, to)
	case reflect.Slice:
		d.list(path, n, to)
	case reflect.Map:
		d.freeMapping(path, n, to)
	default:
		d.scalar(path, n, to)
	}
}

func (d *decoder) readItself(path string, n ast.Node, err error) {
	wanted, kind := errors.AsType[Wanted](err)
	switch {
	case kind:
		d.wrongKind(path, n, string(wanted), "")
	case err != nil:
		d.wrong(path, n, "must be "+err.Error(), "")
	}
}

func (d *decoder) scalar(path string, n ast.Node, to reflect.Value) {
	text, ok := Value{n}.Text()
	switch to.Kind() {
	case reflect.String:
		switch {
		case !ok:
			d.wrongKind(path, n, "a text", "write it as one text, between quotes if need be")
		case strings.ContainsRune(text, 0):
			d.wrong(path, n, "contains a NUL character", "remove it; no command and no prompt can hold one")
		default:
			to.SetString(text)
		}
	case reflect.Bool:
		b, ok := n.(*ast.BoolNode)
		if !ok {
			d.wrongKind(path, n, "true or false", "write true or false, without quotes")
			return
		}
		to.SetBool(b.Value)
	case reflect.Int:
		v, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			d.wrongKind(path, n, "a whole number", "")
			return
		}
		to.SetInt(v)
	case reflect.Float64:
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			d.wrongKind(path, n, "a number", "")
			return
		}
		to.SetFloat(v)
	default:
		panic("yamlfile: no way to read a " + to.Type().String())
	}
}

// list reads a list, or a single text as a list of one. A text that is nothing, or cannot be read, keeps its place.
func (d *decoder) list(path string, n ast.Node, to reflect.Value) {
	items := []ast.Node{n}
	if list, ok := n.(*ast.SequenceNode); ok {
		items = list.Values
	} else if to.Type().Elem().Kind() != reflect.String {
		d.wrongKind(path, n, "a list", "begin each entry with a dash")
		return
	}
	all := reflect.MakeSlice(to.Type(), len(items), len(items))
	for i, item := range items {
		at := path
		if item != n {
			at = fmt.Sprintf("%s[%d]", path, i)
		}
		if _, empty := item.(*ast.NullNode); empty && all.Index(i).Kind() == reflect.String {
			d.file.spots[at] = spotOf(item)
			continue
		}
		d.read(at, item, all.Index(i))
	}
	to.Set(all)
}

// mapping reads the keys of a struct, each at most once.
func (d *decoder) mapping(path string, n ast.Node, to reflect.Value) {
	fields := fieldsOf(to.Type())
	d.keys(path, n, fields[0].key, func(name, at string, key, value ast.Node) {
		for _, f := range fields {
			if f.key != name {
				continue
			}
			if _, absent := value.(*ast.NullNode); !absent {
				d.read(at, value, to.FieldByIndex(f.Index))
			}
			return
		}
		d.unknown(path, name, key, fields)
	})
}

// freeMapping reads a map, whose keys may be any.
func (d *decoder) freeMapping(path string, n ast.Node, to reflect.Value) {
	all := reflect.MakeMap(to.Type())
	d.keys(path, n, "NAME", func(name, at string, _, value ast.Node) {
		v := reflect.New(to.Type().Elem()).Elem()
		if _, absent := value.(*ast.NullNode); absent {
			d.file.spots[at] = spotOf(value)
		} else {
			d.read(at, value, v)
		}
		all.SetMapIndex(reflect.ValueOf(name), v)
	})
	to.Set(all)
}

func (d *decoder) keys(path string, n ast.Node, example string, each func(name, at string, key, value ast.Node)) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		d.wrongKind(path, n, "keys and values", "write it with keys, as in "+example+": …")
		return
	}
	seen := make(map[string]int, len(m.Values))
	for _, entry := range m.Values {
		name := entry.Key.GetToken().Value
		at := spotOf(entry.Key)
		if line, twice := seen[name]; twice {
			d.file.add(at, fmt.Sprintf("the key %q is there twice, first in line %d", name, line), "remove one of them")
			continue
		}
		seen[name] = at.line
		each(name, join(path, name), entry.Key, entry.Value)
	}
}

// unknown says that there is no such key, and which one was probably meant: one beside it, or else one of the same name
// in another place.
func (d *decoder) unknown(path, name string, key ast.Node, fields []field) {
	where := "here"
	if path != "" {
		where = "in " + path
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.key
	}
	do := "remove it, or use one of " + strings.Join(names, ", ")
	var elsewhere []string
	for _, k := range d.known[name] {
		elsewhere = append(elsewhere, strconv.Quote(k))
	}
	if near := text.Nearest(name, names); near != "" {
		do = fmt.Sprintf("did you mean %q?", near)
	} else if len(elsewhere) > 0 {
		do = "did you mean " + strings.Join(elsewhere, " or ") + "?"
	}
	d.file.add(spotOf(key), fmt.Sprintf("there is no key %q %s", name, where), do)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// field is a field of a struct with its key.
type field struct {
	reflect.StructField
	key string
}

// fieldsOf lists the fields that have a key in their yaml tag, or else in their json tag.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for _, f := range reflect.VisibleFields(t) {
		tag, ok := f.Tag.Lookup("yaml")
		if !ok {
			tag = f.Tag.Get("json")
		}
		if key, _, _ := strings.Cut(tag, ","); key != "" {
			fields = append(fields, field{f, key})
		}
	}
	return fields
}
