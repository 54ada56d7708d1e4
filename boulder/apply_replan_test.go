package boulder

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRemainder: the sub-task and all that depend on it, even indirectly, in plan order, unless completed.
func TestRemainder(t *testing.T) {
	t.Parallel()
	s := started(t, diamond())
	for id, want := range map[string][]string{
		"a": {"d", "a", "b", "c"}, "b": {"d", "b"}, "d": {"d"}, "e": {"e"}, "x": nil,
	} {
		if got := s.Remainder(id); !slices.Equal(got, want) {
			t.Errorf("of %s: %v, want %v", id, got, want)
		}
	}
	feed(t, s, append(toVerdict(AttemptRef{"a", 1}), completed(AttemptRef{"a", 1}))...)
	if got := s.Remainder("a"); !slices.Equal(got, []string{"d", "b", "c"}) {
		t.Errorf("of a, which is done: %v", got)
	}
	feed(t, s, Starting{AttemptRef: AttemptRef{"c", 1}})
	if got := s.Remainder("a"); !slices.Equal(got, []string{"d", "b"}) {
		t.Errorf("with c at work: %v", got)
	}
}

// replanning starts a plan, completes a, and starts a replan for b that replaces b and d.
func replanning(t *testing.T, plan Plan) (*State, AttemptRef) {
	t.Helper()
	s := started(t, plan)
	done, ref := AttemptRef{"a", 1}, AttemptRef{"b", 1}
	feed(t, s, append(toVerdict(done), completed(done))...)
	feed(t, s, toVerdict(ref)...)
	feed(t, s, ReplanStarted{AttemptRef: ref, Number: 1, Reason: "stalled", Replaces: []string{"d", "b"}})
	return s, ref
}

func revision(number int) PlanRevision {
	return PlanRevision{Number: number, Plan: Plan{Goal: "the new goal"}}
}

// Replaced sub-tasks are superseded, completed and unrelated ones unchanged, and new ones follow on them.
func TestReplanned(t *testing.T) {
	t.Parallel()
	s, ref := replanning(t, diamond())
	before := map[string]SubTask{"a": *s.SubTask("a"), "e": *s.SubTask("e")}
	fresh := []Spec{{ID: "b2", Subject: "Otherwise", DependsOn: []string{"a"}}, {ID: "d2", DependsOn: []string{"b2", "c"}}}
	feed(t, s, Replanned{
		AttemptRef: ref, Revision: 2, Plan: revision(2), SubTasks: fresh, Removed: []string{"d"},
		Changed: []Change{{From: "b", To: PlannedIn{ID: "b2"}}},
	})
	for _, id := range []string{"b", "d"} {
		st := s.SubTask(id)
		if st.Status != SubTaskSuperseded || st.Reason != "replaced by plan revision 2: stalled" || st.EndSeq == 0 {
			t.Errorf("%s is %s: %q", id, st.Status, st.Reason)
		}
	}
	if st := s.SubTask("b"); s.Open("b") != nil || st.Tries != 1 {
		t.Errorf("b has an open attempt: %v, and %d tries", s.Open("b") != nil, st.Tries)
	}
	if st := s.SubTask("d"); st.Tries != 0 {
		t.Errorf("d never ran, but had %d tries", st.Tries)
	}
	for id, was := range before {
		is := *s.SubTask(id)
		was.Blocks, is.Blocks = nil, nil // a has a new dependent
		if d := cmp.Diff(was, is); d != "" {
			t.Errorf("%s is not frozen:\n%s", id, d)
		}
	}
	b2, d2 := s.SubTask("b2"), s.SubTask("d2")
	if b2.Replaces != "b" || b2.Revision != 2 || s.Open("b2") == nil {
		t.Errorf("the new b is %+v", *b2)
	}
	if d2.Replaces != "" || d2.Status != SubTaskPending || s.Open("d2") != nil {
		t.Errorf("the new d is %+v", *d2)
	}
	b := s.Boulder
	if b.Revision != 2 || b.Goal != "the new goal" || b.Replans != 1 || b.Replan != nil || s.Boulder.Tally.Planned != 5 {
		t.Errorf("boulder %+v with %d sub-tasks in its plan", b, s.Boulder.Tally.Planned)
	}
	old := []Spec{{ID: "d", DependsOn: []string{"b", "c"}}, {ID: "b", DependsOn: []string{"a"}}}
	if want := []string{SpecsHash(old), SpecsHash(fresh)}; !slices.Equal(s.Boulder.TriedParts, want) {
		t.Errorf("tried %v, want what was replaced and what replaced it: %v", s.Boulder.TriedParts, want)
	}
	// What is left of the old plan still leads to the new sub-tasks.
	feed(t, s, append(toVerdict(AttemptRef{"b2", 1}), completed(AttemptRef{"b2", 1}))...)
	feed(t, s, append(toVerdict(AttemptRef{"c", 1}), completed(AttemptRef{"c", 1}))...)
	if s.Open("d2") == nil {
		t.Error("d2 is not ready although all it depends on is done")
	}
}

// TestRefusedReplans: a replacement that could never run is refused, and the replan stays open.
func TestRefusedReplans(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*Replanned)
		why    string
	}{
		"of another attempt":  {func(r *Replanned) { r.Attempt = 2 }, "no replan for attempt 2"},
		"of another sub-task": {func(r *Replanned) { r.SubTaskID = "c" }, `of "c"`},
		"the same revision":   {func(r *Replanned) { r.Plan.Number = 1 }, "does not follow 1"},
		"nothing":             {func(r *Replanned) { r.SubTasks = nil }, "no sub-tasks"},
		"a known id":          {func(r *Replanned) { r.SubTasks[0].ID = "e" }, "given twice"},
		"a replaced id":       {func(r *Replanned) { r.SubTasks[0].ID = "b" }, "given twice"},
		"on what is replaced": {func(r *Replanned) { r.SubTasks[0].DependsOn = []string{"b"} }, `"b", which is replaced`},
		"on nobody":           {func(r *Replanned) { r.SubTasks[0].DependsOn = []string{"x"} }, "not in the plan"},
		"on what failed":      {func(r *Replanned) { r.SubTasks[0].DependsOn = []string{"e"} }, "which is failed"},
		"on what is parked":   {func(r *Replanned) { r.SubTasks[0].DependsOn = []string{"c"} }, "which is blocked"},
		"a cycle": {func(r *Replanned) {
			r.SubTasks = []Spec{{ID: "x", DependsOn: []string{"y"}}, {ID: "y", DependsOn: []string{"x"}}}
		}, "cycle"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ref := replanning(t, diamond())
			feed(t, s, SubTaskDone{AttemptRef: AttemptRef{"e", 1}, Status: SubTaskFailed, AttemptStatus: AttemptFailed},
				Parked{AttemptRef: AttemptRef{"c", 1}, Reason: "a question"})
			r := Replanned{AttemptRef: ref, Plan: revision(2), SubTasks: []Spec{{ID: "new"}}}
			test.change(&r)
			refused(t, s, r, test.why)
			if s.Boulder.Replan == nil || s.Open("b") == nil {
				t.Error("a refused plan ended the replan")
			}
		})
	}
}

// TestReplanStandsStill: what a replan replaces cannot move until the replan is adopted or refused.
func TestReplanStandsStill(t *testing.T) {
	t.Parallel()
	s, ref := replanning(t, Plan{SubTasks: []Spec{{ID: "a"}, {ID: "d", DependsOn: []string{"b"}}, {ID: "b"}}})
	ways := []Body{
		Retry{AttemptRef: ref, Status: AttemptFailed, Next: 2}, Parked{AttemptRef: ref}, completed(ref),
		SubTaskDone{AttemptRef: AttemptRef{SubTaskID: "d"}, Status: SubTaskSkipped},
		ReplanStarted{AttemptRef: ref, Number: 2, Replaces: []string{"d", "b"}},
	}
	for _, b := range ways {
		refused(t, s, b)
	}
	feed(t, s, ReplanRefused{AttemptRef: ref}, ways[0])
	refused(t, s, ReplanRefused{AttemptRef: ref})
	refused(t, s, PlanTrouble{})
}

// TestRefusedStarts: a replan starts for an attempt at work or a completed sub-task, and names all that it replaces.
func TestRefusedStarts(t *testing.T) {
	t.Parallel()
	s := started(t, diamond())
	a, b := AttemptRef{"a", 1}, AttemptRef{"b", 1}
	feed(t, s, append(toVerdict(a), completed(a))...)
	feed(t, s, toVerdict(b)...)
	for _, r := range []ReplanStarted{
		{AttemptRef: b, Number: 2, Replaces: []string{"d", "b"}}, // the wrong number
		{AttemptRef: b, Number: 1, Replaces: []string{"b"}},      // not all
		{AttemptRef: b, Number: 1, Replaces: []string{"d", "b", "c"}},
		{AttemptRef: AttemptRef{"c", 1}, Number: 1, Replaces: []string{"d", "c"}},              // in line
		{AttemptRef: AttemptRef{SubTaskID: "b"}, Number: 1, Replaces: []string{"d", "b"}},      // not completed
		{AttemptRef: AttemptRef{SubTaskID: "x"}, Number: 1},                                    // no such sub-task
		{AttemptRef: AttemptRef{"b", 2}, Number: 1, Replaces: []string{"d", "b"}},              // no such attempt
		{AttemptRef: AttemptRef{SubTaskID: "a"}, Number: 1, Replaces: []string{"d", "b", "c"}}, // b is at work
	} {
		refused(t, s, r)
	}
	// A turn that ended during a pause may start one.
	feed(t, s, StatusChanged{Status: Paused}, ReplanStarted{AttemptRef: b, Number: 1, Replaces: []string{"d", "b"}})
}

// TestWanted: the judge of a completed sub-task can ask for a replan of its dependents, if there are any.
func TestWanted(t *testing.T) {
	t.Parallel()
	s := started(t, Plan{SubTasks: []Spec{{ID: "e"}, {ID: "a"}, {ID: "b", DependsOn: []string{"a"}}}})
	for id, want := range map[string]bool{"e": false, "a": true} {
		ref := AttemptRef{id, 1}
		feed(t, s, Starting{AttemptRef: ref}, SubTaskStart{AttemptRef: ref, SessionID: "s"})
		feed(t, s, judgedTurn(ref, 1, Evidence{}, Verdict{Completed: true, NeedReplan: true, ReplanReason: "odd"})...)
		before := len(s.Boulder.ReplansWanted)
		feed(t, s, completed(ref))
		if got := len(s.Boulder.ReplansWanted) > before; got != want {
			t.Errorf("%s completed, and a replan is wanted: %v", id, got)
		}
	}
	if w := s.Boulder.ReplansWanted[0]; w.AttemptRef != (AttemptRef{SubTaskID: "a"}) || w.Reason != "odd" {
		t.Errorf("wanted %+v", w)
	}
	feed(t, s, ReplanStarted{AttemptRef: s.Boulder.ReplansWanted[0].AttemptRef, Number: 1, Replaces: []string{"b"}})
	if len(s.Boulder.ReplansWanted) > 0 {
		t.Error("a replan that was begun is still wanted")
	}
	fresh := []Spec{{ID: "b2", DependsOn: []string{"a"}}}
	feed(t, s, Replanned{AttemptRef: AttemptRef{SubTaskID: "a"}, Plan: revision(2), SubTasks: fresh})
	if s.SubTask("a").Status != SubTaskCompleted || s.SubTask("b").Status != SubTaskSuperseded || s.Open("b2") == nil {
		t.Errorf("a is %s, b %s", s.SubTask("a").Status, s.SubTask("b").Status)
	}
}

// TestReplannedGates: new sub-tasks keep gates that the user approved for what they replace, and those of the
// configuration. Other gates run only if approved now.
func TestReplannedGates(t *testing.T) {
	t.Parallel()
	for _, approved := range []bool{true, false} {
		s, config := NewState(), Settings{Gates: []string{"make lint", "make"}, NoWorse: []string{"make slow"}}
		spec := Spec{ID: "a", Gates: []string{"make"}, NoWorse: []string{"make unit"}}
		rev := PlanRevision{Number: 1, Plan: Plan{SubTasks: []Spec{spec}}}
		feed(t, s, Created{Boulder: Boulder{ID: "b1", Settings: config}},
			Planned{Plan: rev}, Decomposed{Plan: rev, GatesApproved: true})
		ref := AttemptRef{"a", 1}
		feed(t, s, toVerdict(ref)...)
		feed(t, s, ReplanStarted{AttemptRef: ref, Number: 1, Replaces: []string{"a"}}, Replanned{
			AttemptRef: ref, Plan: revision(2), GatesApproved: approved,
			SubTasks: []Spec{{ID: "b", Gates: []string{"make", "curl evil"}, NoWorse: []string{"make unit", "rm -r"}}},
		})
		want := SubTask{
			Gates: []string{"make", "make lint"}, NoWorse: []string{"make unit", "make slow"},
			GateHints: []string{"curl evil", "rm -r"},
		}
		if approved {
			want = SubTask{
				Gates: []string{"make", "curl evil", "make lint"}, NoWorse: []string{"make unit", "rm -r", "make slow"},
			}
		}
		b := s.SubTask("b")
		if d := cmp.Diff(want, SubTask{Gates: b.Gates, NoWorse: b.NoWorse, GateHints: b.GateHints}); d != "" {
			t.Errorf("approved now: %v (-want +got):\n%s", approved, d)
		}
	}
}

// TestSpecsHash: ids, gates, case and spacing do not matter; order and words do.
func TestSpecsHash(t *testing.T) {
	t.Parallel()
	there := []string{"It is there"}
	base := []Spec{{ID: "a", Subject: "Add it", Description: "All of it", SuccessCriteria: there}, {ID: "b"}}
	same := [][]Spec{
		{{ID: "x", Subject: "add  IT", Description: "All\nof it", SuccessCriteria: there, Gates: there}, {}},
	}
	other := [][]Spec{
		{base[1], base[0]}, base[:1], nil, {{Subject: "Add", Description: "it All of it", SuccessCriteria: there}, {}},
	}
	for i, s := range same {
		if SpecsHash(s) != SpecsHash(base) {
			t.Errorf("%d: the same plan has another hash", i)
		}
	}
	for i, s := range other {
		if SpecsHash(s) == SpecsHash(base) {
			t.Errorf("%d: another plan has the same hash", i)
		}
	}
}
