package yamlfile

import (
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/internal/text"
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

// noteAltered remembers that a plain text loses what stands after " #", which is a comment to YAML, and where YAML joins the
// lines of a text.
func (f *File) noteAltered(path string, n *yaml.Node) {
	if lines := f.linesOf(n); lines != n.Value {
		f.joined[path] = lines
	}
	if n.Style == 0 && n.LineComment != "" {
		f.altered[path] = Problem{f.name, n.Line, n.Column, "`" + n.LineComment + "` is a comment to YAML, and no part of the command",
			"if it is meant, write the command between quotes: " + quote(n.Value+" "+n.LineComment)}
	}
}

// maxLine bounds the lines, in bytes, where a text of several lines may begin: nobody writes longer ones by hand.
const maxLine = 1000

// words matches a word and the space before it.
var words = text.Regexp(`(\s*)(\S+)`)

// linesOf returns a text with the line breaks that it has in the file; a text of one line as it is.
func (f *File) linesOf(n *yaml.Node) string {
	at := n.Line - 1
	if n.Style == yaml.LiteralStyle || at < 0 || at >= len(f.lines) || len(f.lines[at]) > maxLine {
		return n.Value
	}
	line := []rune(strings.TrimPrefix(f.lines[at], "\uFEFF"))
	unescape := strings.NewReplacer()
	switch n.Style {
	case yaml.FoldedStyle:
		line = nil // it begins in the next one
	case yaml.SingleQuotedStyle:
		line, unescape = line[min(n.Column, len(line)):], strings.NewReplacer("''", "'")
	case yaml.DoubleQuotedStyle:
		line, unescape = line[min(n.Column, len(line)):], strings.NewReplacer(`\\`, `\`, `\"`, `"`)
	default:
		line = line[min(max(0, n.Column-1), len(line)):]
	}
	rest := unescape.Replace(string(line))
	var lines strings.Builder
	for i, word := range words().FindAllStringSubmatch(n.Value, -1) {
		gap := word[1]
		rest = strings.TrimLeft(rest, " \t\r")
		for rest == "" && at < len(f.lines)-1 {
			at++
			rest, gap = strings.TrimLeft(unescape.Replace(f.lines[at]), " \t\r"), "\n"
		}
		found := false
		if rest, found = strings.CutPrefix(rest, word[2]); !found {
			return n.Value // written with escapes
		}
		lines.WriteString(text.If(i > 0, gap) + word[2])
	}
	return lines.String()
}

// Command warns of a command at a path: of what YAML took from it, and of what makes it a weak gate.
func (f *File) Command(path, line string) {
	at := f.nearest(path)
	if altered, is := f.altered[path]; is {
		f.warnings = append(f.warnings, altered)
	}
	if lines, is := f.joined[path]; is && !command.Same(lines, line) {
		f.warnings = append(f.warnings, Problem{f.name, at.line, at.column, "YAML joins these lines: the command is `" + text.Short(line, 200) + "`",
			"make each command an entry of its own, or begin with | and write the lines below"})
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
