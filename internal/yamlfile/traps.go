package yamlfile

import (
	"strings"

	"go.yaml.in/yaml/v4"
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
		if meant := sourceOf(n, data); meant != "" {
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
