package yamlfile

import (
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/bouldermgr/manager/internal/command"
)

// refuse reports every tag, anchor and alias below a node, also of keys and of values that are not read. YAML drops them
// from a text: the command `! grep -q TODO main.go` would arrive without its `!`, with the opposite meaning.
func (f *File) refuse(n *yaml.Node, data []byte) {
	what, mark := "", ""
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		what, mark = "YAML reads this as an anchor or an alias", "& or *"
	// A lone ! has no style of its own, and no other tag is spelled so.
	case n.Style&yaml.TaggedStyle != 0, n.Tag == "!":
		what, mark = "YAML reads this as a tag", "!"
	}
	if what != "" {
		f.refused[n] = true
		do := "remove it; a text that begins with " + mark + " goes between quotes"
		meant := ""
		if len(f.problems) < maxProblems { // it searches the file
			meant = sourceOf(n, data)
		}
		if meant != "" {
			do = "a text that begins with " + mark + " goes between quotes, as in " + quote(meant)
		}
		f.add(spotOf(n), what, do)
	}
	for _, below := range n.Content {
		f.refuse(below, data)
	}
}

// sourceOf returns a plain one-line text as it stands in the file, with its tag or anchor; "" for everything else.
func sourceOf(n *yaml.Node, data []byte) string {
	if n.Kind != yaml.ScalarNode || n.Style&^yaml.TaggedStyle != 0 || n.Value == "" {
		return ""
	}
	lines := strings.Split(string(data), "\n")
	if n.Line < 1 || n.Line > len(lines) {
		return ""
	}
	line := []rune(strings.TrimPrefix(lines[n.Line-1], "\uFEFF"))
	mark, _, found := strings.Cut(string(line[min(max(0, n.Column-1), len(line)):]), n.Value)
	if !found { // it continues in the next line
		return ""
	}
	return mark + n.Value
}

// quote writes a text as YAML in single quotes.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// noteAltered remembers that a plain text loses what stands after " #": it is a comment to YAML.
func (f *File) noteAltered(path string, n *yaml.Node) {
	if n.Style == 0 && n.LineComment != "" {
		f.altered[path] = Problem{f.name, n.Line, n.Column, "`" + n.LineComment + "` is a comment to YAML, and no part of the command",
			"if it is meant, write the command between quotes: " + quote(n.Value+" "+n.LineComment)}
	}
}

// Command warns of a command at a path: of what YAML took from it, and of what makes it a weak gate.
func (f *File) Command(path, line string) {
	at := f.nearest(path)
	if altered, is := f.altered[path]; is {
		f.warnings = append(f.warnings, altered)
	}
	if strings.HasPrefix(line, "-") {
		f.warnings = append(f.warnings, Problem{f.name, at.line, at.column, "no program has a name that begins with -",
			"brackets make a list in YAML: write the command between quotes, as in '[ " + line + " ]'"})
	}
	for _, doubt := range command.Doubts(line) {
		f.warnings = append(f.warnings, Problem{f.name, at.line, at.column, doubt.What, doubt.Do})
	}
}

// Warnings returns what [File.Command] found, in the order of the file.
func (f *File) Warnings() []Problem {
	slices.SortStableFunc(f.warnings, byPlace)
	return f.warnings
}

func byPlace(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}
