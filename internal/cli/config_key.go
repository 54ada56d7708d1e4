package cli

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/bouldermgr/manager/internal/text"
)

// keyAt names what stands at a place of a configuration file as people write it: limits.attempts, gates[0]. It is empty
// for the file as a whole, and where the place cannot be found again.
func keyAt(data []byte, at *token.Token) string {
	file, err := parser.ParseBytes(data, 0)
	if err != nil || at == nil || at.Position == nil {
		return ""
	}
	f := keyFinder{at: at.Position}
	for _, doc := range file.Docs {
		if doc.Body != nil {
			ast.Walk(&f, doc.Body)
		}
	}
	return strings.TrimPrefix(strings.TrimPrefix(f.path, "$"), ".")
}

// keyFinder remembers the path of the innermost node at a place.
type keyFinder struct {
	at   *token.Position
	path string
}

// Visit looks at one node.
func (f *keyFinder) Visit(n ast.Node) ast.Visitor {
	if t := n.GetToken(); t != nil && t.Position != nil && t.Position.Line == f.at.Line &&
		t.Position.Column == f.at.Column && len(n.GetPath()) > len(f.path) {
		f.path = n.GetPath()
	}
	return f
}

// unknownKey says that there is no such key, and which one was probably meant: one beside it, or else one of the same
// name in another place.
func unknownKey(path, key string) string {
	where, known := "here", keysOf(reflect.TypeFor[config]())
	parent := strings.TrimSuffix(strings.TrimSuffix(path, key), ".")
	if parent != "" {
		where = "in " + parent
	}
	var beside, elsewhere []string
	for _, k := range known {
		group, name := "", k
		if i := strings.LastIndexByte(k, '.'); i >= 0 {
			group, name = k[:i], k[i+1:]
		}
		if group == withoutIndexes(parent) {
			beside = append(beside, name)
		} else if name == key {
			elsewhere = append(elsewhere, fmt.Sprintf("%q", k))
		}
	}
	meant := strings.Join(elsewhere, " or ")
	if near := text.Nearest(key, beside); near != "" {
		meant = fmt.Sprintf("%q", near)
	}
	if meant == "" {
		return fmt.Sprintf("there is no key %q %s: see docs/cli.md#configuration-file", key, where)
	}
	return fmt.Sprintf("there is no key %q %s: did you mean %s?", key, where, meant)
}

// withoutIndexes makes models of models[0].
func withoutIndexes(path string) string {
	var b strings.Builder
	depth := 0
	for _, r := range path {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case depth == 0:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// keysOf lists the keys of a struct and of what is below it, sorted: attempts, models, models.pattern.
func keysOf(t reflect.Type) []string {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var keys []string
	for _, f := range reflect.VisibleFields(t) {
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if key == "" {
			continue
		}
		keys = append(keys, key)
		for _, k := range keysOf(f.Type) {
			keys = append(keys, key+"."+k)
		}
	}
	slices.Sort(keys)
	return keys
}
