package yamlfile

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/bouldermgr/manager/internal/text"
)

// decoder decodes values into Go values, collects problems, and remembers where everything stood.
type decoder struct {
	file  *File
	known map[string][]string // paths of each key, without indexes
}

// field is a struct field with its key. The option after the key in its tag says how to read a scalar, see [scalarOf].
type field struct {
	reflect.StructField
	key, option string
}

// fieldsOf returns the fields that have a key in their yaml or else json tag; "-" is no key.
func fieldsOf(t reflect.Type) (fields []field) {
	for _, f := range reflect.VisibleFields(t) {
		tag, ok := f.Tag.Lookup("yaml")
		if !ok {
			tag = f.Tag.Get("json")
		}
		if key, option, _ := strings.Cut(tag, ","); key != "" && key != "-" {
			fields = append(fields, field{f, key, option})
		}
	}
	return fields
}

// learn collects the keys of a struct and of everything below it.
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

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func (d *decoder) wrong(path string, n *yaml.Node, what, do string) {
	if path == "" {
		path = "the file"
	}
	d.file.add(spotOf(n), path+" "+what, do)
}

func (d *decoder) wrongKind(path string, n *yaml.Node, wanted, do string) {
	is := strconv.Quote(text.Cut(n.Value, 60))
	switch {
	case n.Kind == yaml.MappingNode:
		is = "keys and values"
	case n.Kind == yaml.SequenceNode:
		is = "a list"
	case isNull(n):
		is = "nothing"
	}
	d.wrong(path, n, fmt.Sprintf("must be %s, not %s", wanted, is), do)
}

// read reads a value. It is null only as an entry of a list.
func (d *decoder) read(path string, n *yaml.Node, to reflect.Value, option string) {
	d.file.spots[path] = spotOf(n)
	if d.file.refused[n] {
		return
	}
	pattern, is := to.Addr().Interface().(*regexp.Regexp)
	switch kind := to.Kind(); {
	case is:
		if err := pattern.UnmarshalText([]byte(n.Value)); err != nil {
			d.wrong(path, n, "must be a regular expression of Go: "+err.Error(), "")
		}
	case kind == reflect.Pointer:
		if to.IsNil() {
			to.Set(reflect.New(to.Type().Elem()))
		}
		d.read(path, n, to.Elem(), option)
	case kind == reflect.Map, kind == reflect.Struct && to.Type() != reflect.TypeFor[time.Time]():
		d.mapping(path, n, to)
	case kind == reflect.Slice:
		d.list(path, n, to, option)
	case isList(to.Type()):
		var items []string
		d.list(path, n, reflect.ValueOf(&items).Elem(), option)
		to.SetString(strings.ReplaceAll(strings.Join(items, ","), ", ", ","))
	default:
		d.scalar(path, n, to, option)
	}
}

// isList reports whether a text of this type is a list, separated by commas: a file may write it as either.
func isList(t reflect.Type) bool {
	_, list := reflect.Zero(t).Interface().(interface{ All() []string })
	return list && t.Kind() == reflect.String
}

// list reads a list, or a single text as a list of one. A null or invalid text keeps its place.
func (d *decoder) list(path string, n *yaml.Node, to reflect.Value, option string) {
	texts := to.Type().Elem().Kind() == reflect.String
	items := n.Content
	switch {
	case n.Kind == yaml.SequenceNode:
	case texts:
		items = []*yaml.Node{n}
	default:
		d.wrongKind(path, n, "a list", "begin each entry with a dash")
		return
	}
	option = itemOption(to.Type(), option)
	all := reflect.MakeSlice(to.Type(), len(items), len(items))
	for i, item := range items {
		at := path
		if item != n {
			at = fmt.Sprintf("%s[%d]", path, i)
		}
		if texts && isNull(item) {
			d.file.spots[at] = spotOf(item)
			continue
		}
		d.read(at, item, all.Index(i), option)
	}
	to.Set(all)
}

// mapping reads a struct or map. Keys must not repeat; those of a map are free.
func (d *decoder) mapping(path string, n *yaml.Node, to reflect.Value) {
	example, fields := "NAME", []field(nil)
	if to.Kind() == reflect.Map {
		to.Set(reflect.MakeMap(to.Type()))
	} else {
		fields = fieldsOf(to.Type())
		example = fields[0].key
	}
	if n.Kind != yaml.MappingNode {
		d.wrongKind(path, n, "keys and values", "write it with keys, as in "+example+": …")
		return
	}
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if line, twice := seen[key.Value]; twice {
			d.file.add(spotOf(key), fmt.Sprintf("the key %q is there twice, first in line %d", key.Value, line), "remove one of them")
			continue
		}
		seen[key.Value] = key.Line
		at := slices.IndexFunc(fields, func(f field) bool { return f.key == key.Value })
		switch {
		case to.Kind() == reflect.Map:
			v := reflect.New(to.Type().Elem()).Elem()
			d.read(join(path, key.Value), value, v, "")
			to.SetMapIndex(reflect.ValueOf(key.Value), v)
		case at < 0:
			d.unknown(path, key, fields)
		case !isNull(value):
			d.read(join(path, key.Value), value, to.FieldByIndex(fields[at].Index), fields[at].option)
		}
	}
}

// unknown reports an unknown key and a likely intended one: a sibling, or else a key of the same name elsewhere.
func (d *decoder) unknown(path string, key *yaml.Node, fields []field) {
	where := "here"
	if path != "" {
		where = "in " + path
	}
	var names, elsewhere []string
	for _, f := range fields {
		names = append(names, f.key)
	}
	for _, k := range d.known[key.Value] {
		elsewhere = append(elsewhere, strconv.Quote(k)+text.If(k == key.Value, " at the top level"))
	}
	do := "remove it, or use one of " + strings.Join(names, ", ")
	if near := text.Nearest(key.Value, names); near != "" {
		do = fmt.Sprintf("did you mean %q?", near)
	} else if len(elsewhere) > 0 {
		do = "did you mean " + strings.Join(elsewhere, " or ") + "?"
	}
	d.file.add(spotOf(key), fmt.Sprintf("there is no key %q %s", text.Cut(key.Value, 60), where), do)
}

// scalar reads a one-line value, see [scalarOf].
func (d *decoder) scalar(path string, n *yaml.Node, to reflect.Value, option string) {
	s := scalarOf(to.Type(), option)
	value, valid := s.read(n.Value)
	switch {
	case !valid || n.Kind != yaml.ScalarNode || isNull(n):
		d.wrongKind(path, n, s.wanted, s.do)
	case to.Kind() == reflect.String && strings.ContainsRune(n.Value, 0):
		d.wrong(path, n, "contains a NUL character", "remove it; no command and no prompt can hold one")
	default:
		to.Set(reflect.ValueOf(value).Convert(to.Type()))
		d.file.noteAltered(path, n)
	}
}
