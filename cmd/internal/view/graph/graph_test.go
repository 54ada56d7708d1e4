package graph_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/testkit/golden"
)

// If a golden changes, look at the picture: run `go test ./cmd/internal/view/graph -update` and open the .svg in a browser.
func TestGolden(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*shape{
		"diamond": diamond(), "statuses": statuses(), "layers": layers(3, 4, 2), "fan": fan(9),
		"empty": {title: "Nothing yet"},
	} {
		g := s.graph()
		golden.Compare(t, "golden/"+name+".mmd", g.Mermaid())
		golden.Compare(t, "golden/"+name+".dot", g.DOT())
		golden.Compare(t, "golden/"+name+".svg", g.SVG(nil))
		golden.Compare(t, "golden/"+name+".txt", g.Text(120, plain))
	}
	golden.Compare(t, "golden/diamond_narrow.txt", diamond().graph().Text(40, plain))
	golden.Compare(t, "golden/statuses_narrow.txt", statuses().graph().Text(60, plain))
	golden.Compare(t, "golden/many.txt", layers(3, 20, 3).graph().Text(80, plain))
}

// Paint gets every status sign, and nothing else is coloured.
func TestPaint(t *testing.T) {
	t.Parallel()
	var got []string
	statuses().graph().Text(120, func(status, s string) string {
		got = append(got, status+" "+s)
		return s
	})
	slices.Sort(got)
	want := []string{
		"blocked !", "cancelled -", "completed ✓", "failed ✗",
		"in_progress ●", "pending ○", "skipped -", "superseded -",
	}
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("painted was %q, want %q", got, want)
	}
}

// Far larger than real plans: code that is quadratic in lanes or levels would take minutes and gigabytes.
func TestLargeGraphs(t *testing.T) {
	t.Parallel()
	const n = 4_000
	long := (&shape{}).add(name(0), "", "pending", "")
	for i := 1; i < n; i++ {
		long.add(name(i), "", "pending", "", name(i-1), name(0), name(i/2))
	}
	for _, s := range []*shape{long, fan(n), layers(50, 40, 3)} {
		g := s.graph()
		for _, text := range []string{g.Mermaid(), g.DOT(), g.SVG(nil), g.Text(80, plain)} {
			if strings.Count(text, "\n") < len(s.nodes) {
				t.Errorf("%d lines for %d nodes", strings.Count(text, "\n"), len(s.nodes))
			}
		}
	}
}
