package schedule

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
)

// TestIsolate: with auto, slots are for plans with two sub-tasks that can run at once. No attempt starts before that is
// known, nor while the gates are tried.
func TestIsolate(t *testing.T) {
	t.Parallel()
	one := DefaultLimits()
	one.Models = []ModelLimit{{Pattern: "p/one", Limit: 1}}
	for name, c := range map[string]struct {
		isolation boulder.Isolation
		plan      []boulder.Spec
		slots     bool
	}{
		"two": {boulder.IsolationAuto, []boulder.Spec{{ID: "a"}, {ID: "b"}}, true},
		"a chain, written backwards": {
			boulder.IsolationAuto, []boulder.Spec{{ID: "c", DependsOn: []string{"b"}}, {ID: "b", DependsOn: []string{"a"}}, {ID: "a"}}, false,
		},
		"a chain, always": {boulder.IsolationAlways, []boulder.Spec{{ID: "a"}, {ID: "b", DependsOn: []string{"a"}}}, true},
		"two in the middle": {boulder.IsolationAuto, []boulder.Spec{
			{ID: "a"}, {ID: "b", DependsOn: []string{"a"}}, {ID: "c", DependsOn: []string{"a"}}, {ID: "d", DependsOn: []string{"b", "c"}},
		}, true},
		"both write the same": {boulder.IsolationAuto, []boulder.Spec{{ID: "a", Writes: []string{"x/**"}}, {ID: "b", Writes: []string{"x/y"}}}, false},
		"one of a model":      {boulder.IsolationAuto, []boulder.Spec{{ID: "a", Model: "p/one"}, {ID: "b", Model: "p/one"}}, false},
		"one of each model":   {boulder.IsolationAuto, []boulder.Spec{{ID: "a", Model: "p/one"}, {ID: "b", Model: "p/two"}}, true},
	} {
		s := begun(t, c.plan...)
		s.Boulder.Isolation, s.Boulder.Line = c.isolation, boulder.Line{Base: "c0", Tip: "c0", Trial: true}
		got := Compute(s, one, epoch)
		if c.slots {
			if d := cmp.Diff([]Action{Try{}}, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
			continue
		}
		applyAll(t, s, epoch, got)
		if l := s.Boulder.Line; s.Boulder.Isolated() || l.InPlace != "no two sub-tasks can be at work at once" {
			t.Errorf("%s: %+v", name, l)
		}
		if kindsOf(Compute(s, one, epoch)) == "" {
			t.Errorf("%s: then nothing starts", name)
		}
	}
}
