package boulder

import (
	"encoding/json"
	"testing"
)

func TestModelsWithEfforts(t *testing.T) {
	t.Parallel()
	m := Models("a/one#low,b/two")
	if m.First() != "a/one" || m.Effort("a/one") != "low" || m.Effort("b/two") != "" || m.String() != "a/one#low, b/two" || m.Bare() != "a/one,b/two" {
		t.Errorf("%q %q %q", m.First(), m, m.Bare())
	}
	if got := m.With("high"); got != "a/one#low,b/two#high" || Models("").With("high") != "" {
		t.Error(got)
	}
	if got := Models("a/one#low").Or("a/one,c/three#max"); got != "a/one#low,c/three#max" {
		t.Error(got)
	}
	for _, m := range []Models{"", "a/one", "a/one#low", "a/one#low,b/two"} {
		text, err := json.Marshal(m)
		var back Models
		if err != nil || json.Unmarshal(text, &back) != nil || back != m {
			t.Errorf("%q is %s, and comes back as %q: %v", m, text, back, err)
		}
	}
}

// TestEffortBelongsToTheModel: that of its entry, else of the sub-task, the plan and the boulder, in this order; and it changes with
// the model in use.
func TestEffortBelongsToTheModel(t *testing.T) {
	t.Parallel()
	s := started(t, Plan{SubTasks: []Spec{
		{ID: "a", Description: "x", Model: "p/one#max,p/two"}, {ID: "b", Description: "x", Effort: DefaultEffort, Model: "p/one"},
	}})
	a := s.SubTask("a")
	if a.Model != "p/one" || a.Effort != "max" || a.Wanted() != "p/one#max,p/two" || s.SubTask("b").Wanted() != "p/one#default" {
		t.Errorf("%+v", a)
	}
	feed(t, s, ModelSet{Effort: "low"})
	if a.Wanted() != "p/one#max,p/two#low" || s.SubTask("b").Effort != DefaultEffort {
		t.Errorf("%+v", a)
	}
	feed(t, s, Switched{From: "p/one", To: "p/two", Reason: "no credit", SubTasks: []string{"a"}})
	o := s.Open("a")
	if o.Attempt.Runs() != "p/two#low" {
		t.Errorf("%+v", o.Attempt)
	}
	ref := o.Attempt.AttemptRef
	feed(t, s, Starting{AttemptRef: ref}, SubTaskStart{AttemptRef: ref, SessionID: "s"})
	refused(t, s, EffortMissing{AttemptRef: ref, Model: "p/two", Effort: "high"})
	feed(t, s, EffortMissing{AttemptRef: ref, Model: "p/two", Effort: "low"})
	refused(t, s, EffortMissing{AttemptRef: ref, Model: "p/two", Effort: "low"})
	if o.Attempt.Runs() != "p/two" || len(o.Attempt.Instead) != 1 || o.Attempt.Instead[0].Model != "p/two#low" {
		t.Errorf("%+v", o.Attempt)
	}
	feed(t, s, ModelSet{Effort: "high"}) // the next prompt asks again whether the model has it
	if o.Attempt.Runs() != "p/two#high" || len(o.Attempt.Instead) > 0 {
		t.Errorf("%+v", o.Attempt)
	}
}
