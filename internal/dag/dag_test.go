package dag_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/internal/dag"
)

type node = dag.Node

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		nodes []node
		want  []string
	}{
		"empty":     {nil, nil},
		"fine":      {[]node{{"a", nil}, {"b", []string{"a"}}}, nil},
		"any order": {[]node{{"b", []string{"a"}}, {"a", nil}}, nil},
		"self":      {[]node{{"a", []string{"a"}}}, []string{"self a.0"}},
		"unknown":   {[]node{{"a", []string{"x"}}}, []string{"unknown a.0"}},
		"repeated":  {[]node{{"a", nil}, {"b", []string{"a", "a"}}}, []string{"repeated b.1"}},
		"duplicate": {[]node{{"a", nil}, {"a", nil}}, []string{"duplicate a.-1"}},
		"pair":      {[]node{{"a", []string{"b"}}, {"b", []string{"a"}}}, []string{"cycle a.0 a → b → a"}},
		"downstream": {
			[]node{{"z", []string{"a"}}, {"a", []string{"b"}}, {"b", []string{"a"}}},
			[]string{"cycle a.0 a → b → a"},
		},
		"second step is the one": {
			[]node{{"a", []string{"c", "b"}}, {"b", []string{"a"}}, {"c", nil}},
			[]string{"cycle a.1 a → b → a"},
		},
		"shortest through the first": {
			[]node{{"a", []string{"b", "d"}}, {"b", []string{"c"}}, {"c", []string{"a"}}, {"d", []string{"a"}}},
			[]string{"cycle a.1 a → d → a"},
		},
		"one for each knot": {
			[]node{{"a", []string{"b"}}, {"b", []string{"a"}}, {"c", []string{"a", "d"}}, {"d", []string{"c"}}},
			[]string{"cycle a.0 a → b → a", "cycle c.1 c → d → c"},
		},
		"all at once": {
			[]node{{"a", []string{"b", "x", "x"}}, {"b", []string{"b", "a"}}, {"a", []string{"y"}}},
			[]string{"unknown a.1", "repeated a.2", "self b.0", "duplicate a.-1", "unknown a.0", "cycle a.0 a → b → a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, f := range dag.Check(tc.nodes) {
				s := fmt.Sprintf("%s %s.%d", kinds()[f.Kind], tc.nodes[f.Node].ID, f.Edge)
				if f.Kind == dag.Cycle {
					s += " " + strings.Join(f.Path, " → ")
				}
				got = append(got, s)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func kinds() map[dag.Kind]string {
	return map[dag.Kind]string{
		dag.Duplicate: "duplicate", dag.Unknown: "unknown", dag.Self: "self", dag.Repeated: "repeated", dag.Cycle: "cycle",
	}
}

func graphs(t *rapid.T) []node {
	n := rapid.IntRange(0, 12).Draw(t, "n")
	nodes := make([]node, n)
	for i := range nodes {
		nodes[i].ID = fmt.Sprint("n", i)
		for _, j := range rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 0, min(n, 3), rapid.ID[int]).Draw(t, "deps") {
			nodes[i].DependsOn = append(nodes[i].DependsOn, fmt.Sprint("n", j))
		}
	}
	return nodes
}

// reaches reports, slowly and obviously, whether a depends on b.
func reaches(nodes []node, a, b string, seen map[string]bool) bool {
	if seen[a] {
		return false
	}
	seen[a] = true
	i := slices.IndexFunc(nodes, func(n node) bool { return n.ID == a })
	for _, id := range nodes[i].DependsOn {
		if id == b || reaches(nodes, id, b, seen) {
			return true
		}
	}
	return false
}

// TestCyclesProperty: every reported path is a cycle, and for every node on a cycle one is reported that it is tied to.
func TestCyclesProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes := graphs(t)
		inCycle := map[string]bool{}
		for _, f := range dag.Check(nodes) {
			switch f.Kind {
			case dag.Self:
				inCycle[nodes[f.Node].ID] = true
			case dag.Cycle:
				checkCycle(t, nodes, f)
				for _, id := range f.Path {
					inCycle[id] = true
				}
			default:
				t.Fatalf("unexpected %v", f)
			}
		}
		for _, n := range nodes {
			if !reaches(nodes, n.ID, n.ID, map[string]bool{}) || inCycle[n.ID] {
				continue
			}
			tied := slices.ContainsFunc(nodes, func(o node) bool {
				return inCycle[o.ID] && reaches(nodes, n.ID, o.ID, map[string]bool{}) &&
					reaches(nodes, o.ID, n.ID, map[string]bool{})
			})
			if !tied {
				t.Fatalf("%s depends on itself, but no cycle near it was found", n.ID)
			}
		}
	})
}

func checkCycle(t *rapid.T, nodes []node, f dag.Fault) {
	if len(f.Path) < 3 || f.Path[0] != f.Path[len(f.Path)-1] || f.Path[0] != nodes[f.Node].ID {
		t.Fatalf("not a cycle of its node: %v", f)
	}
	if nodes[f.Node].DependsOn[f.Edge] != f.Path[1] {
		t.Fatalf("edge %d is not the first step of %v", f.Edge, f.Path)
	}
	for i, id := range f.Path[:len(f.Path)-1] {
		place := slices.IndexFunc(nodes, func(n node) bool { return n.ID == id })
		if !slices.Contains(nodes[place].DependsOn, f.Path[i+1]) {
			t.Fatalf("%s does not depend on %s", id, f.Path[i+1])
		}
	}
	if slices.Sort(f.Path[1:]); len(slices.Compact(f.Path[1:])) != len(f.Path)-1 {
		t.Fatalf("an id is twice in %v", f.Path)
	}
}

// TestLevelsProperty: a node's level is one above its deepest dependency. Nodes on or behind a cycle have none.
func TestLevelsProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes := graphs(t)
		for i := range nodes { // a self-reference is another fault
			nodes[i].DependsOn = slices.DeleteFunc(nodes[i].DependsOn, func(id string) bool { return id == nodes[i].ID })
		}
		depth := map[string]int{}
		for d, level := range dag.Levels(nodes) {
			if !slices.IsSorted(level) || len(level) == 0 {
				t.Fatalf("level %d is %v", d, level)
			}
			for _, i := range level {
				depth[nodes[i].ID] = d
			}
		}
		for _, n := range nodes {
			want := 0
			for _, id := range n.DependsOn {
				want = max(want, depth[id]+1)
			}
			got, placed := depth[n.ID]
			cyclic := reaches(nodes, n.ID, n.ID, map[string]bool{}) || slices.ContainsFunc(nodes, func(o node) bool {
				return reaches(nodes, n.ID, o.ID, map[string]bool{}) && reaches(nodes, o.ID, o.ID, map[string]bool{})
			})
			if placed == cyclic || placed && got != want {
				t.Fatalf("%s: level %d (placed %v, cyclic %v), want %d", n.ID, got, placed, cyclic, want)
			}
		}
	})
}

// TestLargeGraphs: quadratic code would take minutes for this reversed chain, closed to a cycle.
func TestLargeGraphs(t *testing.T) {
	t.Parallel()
	const n = 100_000
	nodes := make([]node, n)
	for i := range nodes {
		nodes[i] = node{ID: fmt.Sprint(i), DependsOn: []string{fmt.Sprint((i + 1) % n)}}
	}
	faults := dag.Check(nodes)
	if len(faults) != 1 || len(faults[0].Path) != n+1 {
		t.Fatalf("%d faults", len(faults))
	}
	nodes[n-1].DependsOn = nil
	if levels := dag.Levels(nodes); len(dag.Check(nodes)) != 0 || len(levels) != n || levels[0][0] != n-1 {
		t.Fatalf("%d levels", len(levels))
	}
}
