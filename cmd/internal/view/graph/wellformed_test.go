package graph_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"
)

func name(i int) string { return fmt.Sprint("n", i) }

// failer is the part of a test that the checks need.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func checkAll(t failer, s *shape) {
	t.Helper()
	g := s.graph()
	checkSVG(t, g.SVG(nil))
	checkMermaid(t, g.Mermaid())
	checkDOT(t, g.DOT())
	for _, width := range []int{40, 80, 200} {
		checkText(t, g.Text(width, plain), width)
	}
}

// Everything that our SVGs may contain. Anything else leaked out of a text.
var (
	svgElements = []string{"svg", "title", "style", "defs", "marker", "path", "rect", "text", "g", "circle"}
	svgNames    = []string{
		"xmlns", "width", "height", "viewBox", "role", "id", "refX", "refY", "markerWidth", "markerHeight", "markerUnits",
		"orient", "d", "class", "x", "y", "rx", "r", "transform", "marker-end",
	}
)

func checkSVG(t failer, svg string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if !slices.Contains(svgElements, token.Name.Local) {
				t.Fatalf("a foreign element %s:\n%s", token.Name.Local, svg)
			}
			for _, a := range token.Attr {
				switch {
				case !slices.Contains(svgNames, a.Name.Local):
					t.Fatalf("a foreign attribute %s:\n%s", a.Name.Local, svg)
				case strings.Contains(a.Value, "url(") && a.Value != "url(#tip)",
					strings.Contains(a.Value, "NaN"), strings.Contains(a.Value, "Inf"):
					t.Fatalf("%s is %q", a.Name.Local, a.Value)
				}
			}
		case xml.Comment, xml.ProcInst, xml.Directive:
			t.Fatalf("a foreign token %T:\n%s", token, svg)
		}
	}
}

var mermaidLine = regexp.MustCompile(`^(flowchart TD` +
	`|    n\d+\["(?:[^\x00-\x7f]|[A-Za-z0-9 .,\-/()?!']|#\d+;|<br/>)*"\]:::[a-z]+` +
	`|    n\d+ --> n\d+` +
	`|    classDef [a-z]+ [a-z0-9#:,\- ]+)$`)

func checkMermaid(t failer, text string) {
	t.Helper()
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if !mermaidLine.MatchString(line) || !utf8.ValidString(line) {
			t.Fatalf("not a line of ours: %q", line)
		}
	}
}

var dotLine = regexp.MustCompile(`^(digraph boulder \{|\}` +
	`|    (?:rankdir|labelloc)=[A-Za-z]+;` +
	`|    [a-z]+="(?:[^"\\]|\\.)*";` +
	`|    (?:n\d+|node|edge) \[(?:(?:, )?[a-z]+=(?:[a-z0-9.]+|"(?:[^"\\]|\\[n\\"])*"))+\];` +
	`|    n\d+ -> n\d+;)$`)

var bareEntity = regexp.MustCompile(`&(?:amp;)?`)

func checkDOT(t failer, text string) {
	t.Helper()
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if !dotLine.MatchString(line) || !utf8.ValidString(line) {
			t.Fatalf("not a line of ours: %q", line)
		}
		if slices.Contains(bareEntity.FindAllString(line, -1), "&") {
			t.Fatalf("Graphviz would read an entity: %q", line)
		}
	}
}

func checkText(t failer, text string, width int) {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if w := ansi.StringWidthWc(line); w > width {
			t.Fatalf("a line of %d columns, there are %d:\n%s", w, width, text)
		}
		for _, r := range line {
			if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == utf8.RuneError && !utf8.ValidString(line) {
				t.Fatalf("%U in %q", r, line)
			}
		}
	}
}

// nasty has pieces of text with a meaning in one of the formats.
var nasty = []string{
	`"`, `'`, "`", `\`, `\"`, `\N`, "]", `"]`, `"]:::x`, "<", ">", "</text>", "<script>alert(1)</script>", "]]>",
	"<!--", "-->",
	"&", "&amp;", "&#34;", "#quot;", "#", ";", "%%", "%%{init: {}}%%",
	"\n", "\r\n", "\t", "\x00", "\x1b[31m", "\x1b]0;x\a",
	"\u202e", "\u2066", "\u2028", "\ufffe", "\uffff", "\xff", "\xed\xa0\x80",
	"style a:#1;", "end", "click n1", "---", "}", "{",
	"主题", "👩‍👩‍👧", "e\u0301", "\u200b", "\u0301", "word ", "a-very-long-word-without-any-place-to-break-it-at-all",
	"1. ", "- ",
	"=",
	"subgraph", "n1 --> n2", "url(http://x)", " ", "",
}

func nastyText(t *rapid.T, label string) string {
	if rapid.Bool().Draw(t, label+" free") {
		return rapid.String().Draw(t, label)
	}
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(nasty), 0, 12).Draw(t, label), "")
}

// No text of a plan may escape from its place in a drawing. Damaged records have cycles, edges to missing nodes, and
// duplicate ids and edges: they must not hang or crash a drawing.
func TestWellFormedProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &shape{title: nastyText(t, "title")}
		id := rapid.Custom(func(t *rapid.T) string { return nastyText(t, "id") })
		ids := append(rapid.SliceOfN(id, 0, 10).Draw(t, "ids"), "nosuch")
		for _, id := range ids[:len(ids)-1] {
			s.add(id, nastyText(t, "node title"), rapid.OneOf(
				rapid.SampledFrom([]string{"", "pending", "completed", "superseded"}), rapid.SampledFrom(nasty),
			).Draw(t, "status"), nastyText(t, "note"), rapid.SliceOfN(rapid.SampledFrom(ids), 0, 3).Draw(t, "after")...)
		}
		checkAll(t, s)
		twice := &shape{title: s.title, nodes: s.nodes, edges: append(s.edges, s.edges...)}
		if s.graph().DOT() != twice.graph().DOT() {
			t.Fatal("edges that are given twice are drawn twice")
		}
	})
}
