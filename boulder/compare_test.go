package boulder

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// genEdit changes a plan as users and models do: texts, lists, order, sub-tasks and rows that come and go.
func genEdit(t *rapid.T, p Plan) Plan {
	p = p.Clone()
	for range rapid.IntRange(0, 4).Draw(t, "edits") {
		s := &p.SubTasks[rapid.IntRange(0, len(p.SubTasks)-1).Draw(t, "sub-task")]
		switch rapid.IntRange(0, 11).Draw(t, "edit") {
		case 0:
			s.Description = rapid.SampledFrom([]string{"one", "one\ntwo", "one\n\ntwo\n"}).Draw(t, "description")
		case 1:
			s.Gates = rapid.SampledFrom([][]string{nil, {"true"}, {"false", "true"}}).Draw(t, "gates")
		case 2:
			s.Budget = &Budget{Attempts: rapid.IntRange(1, 3).Draw(t, "attempts"), Time: 1e9}
		case 3:
			s.ExpectsChanges = !s.ExpectsChanges
		case 4:
			p.SubTasks = rapid.Permutation(p.SubTasks).Draw(t, "order")
		case 5:
			p.SubTasks = append(p.SubTasks, Spec{ID: rapid.StringMatching("n[0-9]").Draw(t, "id"), Subject: "new"})
			p.SubTasks = slices.CompactFunc(slices.SortedFunc(slices.Values(p.SubTasks), func(a, b Spec) int {
				return strings.Compare(a.ID, b.ID)
			}), func(a, b Spec) bool { return a.ID == b.ID })
		case 6:
			if len(p.SubTasks) > 1 {
				p.SubTasks = p.SubTasks[1:]
			}
		case 7:
			p.Facts.Guesses = append(p.Facts.Guesses, rapid.StringN(1, 3, -1).Draw(t, "guess"))
		case 8:
			p.Generated = map[string]string{"go.sum": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "command"), "x": "y"}
		case 9:
			p.Request = append(p.Request, Obligation{ID: "r" + p.Hash()[:8], Text: "row"})
		case 10:
			p.Request = rapid.Permutation(p.Request).Draw(t, "rows")
		case 11:
			p.Model, p.Scope = "p/m", ScopeVeto
		}
	}
	return p
}

// Two plans are equal if and only if nothing is reported, and the other way round the report is the same backwards. A part
// is reported as what happened to it. If a field of Plan or Spec were forgotten, the hashes would differ without a report.
func TestComparePlans(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		was := genEdit(t, genPlan(t, 5))
		now := genEdit(t, was)
		there, back := ComparePlans(&was, &now), ComparePlans(&now, &was)
		if there.Empty() != (was.Hash() == now.Hash()) {
			t.Fatalf("same hash: %t, reported: %+v", was.Hash() == now.Hash(), there)
		}
		kinds := map[string]ChangeKind{}
		for _, s := range was.SubTasks {
			kinds[s.ID] = PartRemoved
		}
		for _, s := range now.SubTasks {
			switch before := was.spec(s.ID); {
			case before == nil:
				kinds[s.ID] = PartAdded
			case cmp.Equal(*before, s):
				delete(kinds, s.ID)
			default:
				kinds[s.ID] = PartChanged
			}
		}
		reported, swapped := map[string]ChangeKind{}, map[string]ChangeKind{}
		for _, p := range there.SubTasks {
			reported[p.ID] = p.Change
		}
		turned := map[ChangeKind]ChangeKind{PartAdded: PartRemoved, PartRemoved: PartAdded, PartChanged: PartChanged}
		for _, p := range back.SubTasks {
			swapped[p.ID] = turned[p.Change]
			for _, f := range p.Fields {
				if slices.Equal(f.Was, f.Now) {
					t.Fatalf("%s of %s is reported, and is the same: %q", f.Field, p.ID, f.Now)
				}
			}
		}
		if diff := cmp.Diff(kinds, reported); diff != "" {
			t.Fatalf("reported otherwise than it is (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(reported, swapped); diff != "" {
			t.Fatalf("backwards (-there +back):\n%s", diff)
		}
	})
}

// Fields have the names and the order of the plan file.
func TestComparePlansNames(t *testing.T) {
	t.Parallel()
	was := Plan{Task: "task", Goal: "old", SubTasks: []Spec{
		{ID: "a", Subject: "A", Description: "one\ntwo", Gates: []string{"x"}}, {ID: "b", Subject: "B"}, {ID: "c", Subject: "C"},
	}, Request: []Obligation{{ID: "r1", Text: "row", Owner: "b"}}}
	now := was.Clone()
	now.Goal, now.Facts.Guesses, now.Request[0].Owner = "new", []string{"g"}, "a"
	now.SubTasks = []Spec{
		{ID: "c", Subject: "C"}, {ID: "d", Subject: "D", Budget: &Budget{Attempts: 2, Time: Duration(30 * 60e9)}},
		{ID: "a", Subject: "A", Description: "one\n2", Gates: []string{"x", "y"}, EmptyOK: true},
	}
	want := PlanChanges{
		Fields: []FieldChange{
			{"goal", []string{"old"}, []string{"new"}}, {"facts.guesses", nil, []string{"g"}},
			{"sub_tasks", []string{"a", "c"}, []string{"c", "a"}},
		},
		Request: []PartChange{{"r1", PartChanged, []FieldChange{{"owner", []string{"b"}, []string{"a"}}}}},
		SubTasks: []PartChange{
			{"b", PartRemoved, []FieldChange{{"subject", []string{"B"}, nil}}},
			{"d", PartAdded, []FieldChange{
				{"subject", nil, []string{"D"}}, {"budget.attempts", nil, []string{"2"}}, {"budget.time", nil, []string{"30m0s"}},
			}},
			{"a", PartChanged, []FieldChange{
				{"description", []string{"one", "two"}, []string{"one", "2"}}, {"gates", []string{"x"}, []string{"x", "y"}},
				{"empty_ok", nil, []string{"true"}},
			}},
		},
	}
	if diff := cmp.Diff(want, ComparePlans(&was, &now)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
