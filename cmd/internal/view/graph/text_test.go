package graph_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/cmd/internal/view/graph"
)

// plans generates acyclic graphs, whose nodes have no title.
func plans(t *rapid.T) *shape {
	s := &shape{}
	n := rapid.IntRange(1, 12).Draw(t, "nodes")
	for i := range n {
		s.nodes = append(s.nodes, graph.Node{ID: name(i)})
		from := rapid.SliceOfNDistinct(rapid.IntRange(0, max(i-1, 0)), 0, min(i, 4), rapid.ID[int]).Draw(t, "from")
		for _, j := range from {
			s.edges = append(s.edges, graph.Edge{From: name(j), To: name(i)})
		}
	}
	return s
}

// The line down from a row leads to exactly the rows that depend on it, all of them below.
func TestLinesLeadToWhatWaits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := plans(t)
		text := s.graph().Text(400, plain)
		rows := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		idOf := func(row string) string { return strings.Fields(strings.TrimLeft(row, " ┌┬├┼└┴│─"))[1] }
		for at, row := range rows {
			var got, want []string
			lane := slices.IndexFunc([]rune(row), func(r rune) bool { return r == '┌' || r == '┬' })
			for _, below := range rows[at+1:] {
				stroke := 'x'
				if lane >= 0 {
					stroke = []rune(below)[lane]
				}
				if strings.ContainsRune("├┼└┴", stroke) {
					got = append(got, idOf(below))
				}
				if !strings.ContainsRune("├┼│", stroke) {
					break
				}
			}
			for _, e := range s.edges {
				if e.From == idOf(row) {
					want = append(want, e.To)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("from %s the line leads to %v, want %v:\n%s", idOf(row), got, want, text)
			}
		}
	})
}

// Each row names its dependencies, even where no lines are drawn.
func TestRowsSayWhatTheyWaitFor(t *testing.T) {
	t.Parallel()
	var all []string
	s := &shape{}
	for i := range 50 {
		s.add(name(i), "", "", "", all...)
		all = append(all, name(i))
	}
	s.add("last", "", "", "", name(3), name(1), name(5), name(4), name(9))
	text := s.graph().Text(80, plain)
	for _, want := range []string{" 1 n0    n0", " 2 n1    n1    after 1", "50 n49   n49   after 1-49", "51 last  last  after 2, 4-6, 10"} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %q:\n%s", want, text)
		}
	}
}

// A node keeps its number where others are left out, in its row and in those that wait for it.
func TestNodesKeepTheirNumbers(t *testing.T) {
	t.Parallel()
	nodes := []graph.Node{{ID: "a", Number: 1}, {ID: "new", Number: 4}, {ID: "more", Number: 5}, {ID: "last", Number: 12}}
	edges := []graph.Edge{{From: "a", To: "new"}, {From: "a", To: "last"}, {From: "new", To: "last"}, {From: "more", To: "last"}}
	text := graph.New("", nodes, edges).Text(80, plain)
	for _, want := range []string{" 4 new   new   after 1\n", "12 last  last  after 1, 4, 5\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q:\n%s", want, text)
		}
	}
}

var svgRect = regexp.MustCompile(`class="box" x="(-?\d+)" y="(-?\d+)" width="(\d+)" height="(\d+)"`)

// Boxes of an SVG do not overlap or leave the page, and each edge has an arrow head.
func TestBoxesHaveRoom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := plans(t)
		svg := s.graph().SVG(nil)
		var width, height int
		_, err := fmt.Sscanf(svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d"`, &width, &height)
		if err != nil {
			t.Fatal(err)
		}
		type box struct{ left, top, right, bottom int }
		var boxes []box
		for _, m := range svgRect.FindAllStringSubmatch(svg, -1) {
			var b box
			if _, err := fmt.Sscan(strings.Join(m[1:], " "), &b.left, &b.top, &b.right, &b.bottom); err != nil {
				t.Fatal(err)
			}
			b.right, b.bottom = b.right+b.left, b.bottom+b.top
			if b.left < 0 || b.top < 0 || b.right > width || b.bottom > height {
				t.Fatalf("%+v is off the page of %d × %d", b, width, height)
			}
			for _, o := range boxes {
				if b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom {
					t.Fatalf("%+v lies on %+v", b, o)
				}
			}
			boxes = append(boxes, b)
		}
		if len(boxes) != len(s.nodes) {
			t.Fatalf("%d boxes for %d nodes", len(boxes), len(s.nodes))
		}
		if heads := strings.Count(svg, "marker-end"); heads != len(s.edges) {
			t.Fatalf("%d arrow heads for %d edges", heads, len(s.edges))
		}
	})
}
