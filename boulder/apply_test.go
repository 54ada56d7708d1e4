package boulder

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// started returns a running boulder with this plan.
func started(t *testing.T, plan Plan) *State {
	t.Helper()
	s := NewState()
	rev := PlanRevision{Number: 1, Plan: plan, Hash: plan.Hash()}
	feed(t, s,
		Created{Boulder: Boulder{ID: "b1", Task: "task", Project: "/p"}},
		Planned{Revision: 1, Plan: rev},
		Decomposed{Revision: 1, Plan: rev},
	)
	return s
}

func feed(t *testing.T, s *State, bodies ...Body) {
	t.Helper()
	feedAt(t, s, epoch, bodies...)
}

// toVerdict takes an attempt from the queue to a verdict.
func toVerdict(ref AttemptRef) []Body {
	return []Body{
		Starting{AttemptRef: ref}, SubTaskStart{AttemptRef: ref, SessionID: "s"},
		TurnSent{AttemptRef: ref, Turn: 1, MessageID: "m"}, TurnEnded{AttemptRef: ref, Turn: 1},
		Judged{AttemptRef: ref, Turn: 1, Verdict: Verdict{Completed: true}},
	}
}

func completed(ref AttemptRef) Body {
	return SubTaskDone{AttemptRef: ref, Completed: true, Status: SubTaskCompleted, AttemptStatus: AttemptCompleted}
}

func diamond() Plan {
	return Plan{SubTasks: []Spec{
		{ID: "d", DependsOn: []string{"b", "c"}}, {ID: "a"}, {ID: "b", DependsOn: []string{"a"}},
		{ID: "c", DependsOn: []string{"a"}}, {ID: "e"},
	}}
}

func TestBlock(t *testing.T) {
	t.Parallel()
	s := started(t, diamond())
	ref := AttemptRef{"a", 1}
	feed(t, s, toVerdict(ref)...)
	e, err := s.Apply(Event{BoulderID: "b1", Time: epoch, Body: SubTaskDone{
		AttemptRef: ref, Summary: "broken", Status: SubTaskFailed, AttemptStatus: AttemptFailed,
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := e.Body.(SubTaskDone).Blocked; !slices.Equal(got, []string{"d", "b", "c"}) {
		t.Errorf("blocked %v, want d b c: everything behind a, in plan order", got)
	}
	for _, id := range []string{"b", "c", "d"} {
		if st := s.SubTask(id); st.Status != SubTaskBlocked || !strings.Contains(st.Reason, `"a", which failed`) {
			t.Errorf("%s is %s: %q", id, st.Status, st.Reason)
		}
	}
	if st := s.SubTask("e"); st.Status != SubTaskPending {
		t.Errorf("e does not depend on a but is %s", st.Status)
	}
}

func TestTries(t *testing.T) {
	t.Parallel()
	one, two := AttemptRef{"a", 1}, AttemptRef{"a", 2}
	tests := map[string]struct {
		bodies []Body
		tries  int
	}{
		"completed": {append(toVerdict(one), completed(one)), 1},
		"retried":   {append(toVerdict(one), Retry{AttemptRef: one, Status: AttemptFailed, Next: 2}), 1},
		"retried by the user": {
			append(toVerdict(one), Retry{AttemptRef: one, Status: AttemptCancelled, Uncounted: true, Next: 2}), 0,
		},
		"lost": {append(toVerdict(one), Retry{AttemptRef: one, Status: AttemptLost, Uncounted: true, Next: 2}), 0},
		"lost for good": {append(toVerdict(one), SubTaskDone{
			AttemptRef: one, Status: SubTaskFailed, AttemptStatus: AttemptLost,
		}), 0},
		"skipped in the queue": {[]Body{SubTaskDone{
			AttemptRef: one, Status: SubTaskSkipped, AttemptStatus: AttemptCancelled,
		}}, 0},
		"failed, then completed": {slices.Concat(toVerdict(one),
			[]Body{Retry{AttemptRef: one, Status: AttemptFailed, Next: 2}}, toVerdict(two), []Body{completed(two)}), 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := started(t, Plan{SubTasks: []Spec{{ID: "a"}}})
			feed(t, s, test.bodies...)
			if got := s.SubTask("a").Tries; got != test.tries {
				t.Errorf("%d tries, want %d", got, test.tries)
			}
		})
	}
}

// TestTroubleIsForgotten: a turn that ends resets the count and the delay of earlier faults.
func TestTroubleIsForgotten(t *testing.T) {
	t.Parallel()
	s := started(t, Plan{SubTasks: []Spec{{ID: "a"}}})
	ref := AttemptRef{"a", 1}
	feed(t, s, Starting{AttemptRef: ref},
		Trouble{AttemptRef: ref, Reason: "gone", NotBefore: epoch.Add(time.Hour)},
		Trouble{AttemptRef: ref, Reason: "gone", NotBefore: epoch.Add(time.Hour)})
	if a := s.Open("a").Attempt; a.Troubles != 2 || a.Reason != "gone" {
		t.Fatalf("after two faults: %+v", a)
	}
	feed(t, s, TurnEnded{AttemptRef: ref, Turn: 1})
	if a := s.Open("a").Attempt; a.Troubles != 0 || a.Reason != "" || !a.NotBefore.IsZero() {
		t.Errorf("faults outlive the turn: %+v", a)
	}
}

// TestRefusedPlans: a plan with a sub-task that could never run would make a boulder that waits for ever.
func TestRefusedPlans(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		specs []Spec
		why   string
	}{
		"empty":              {nil, "no sub-tasks"},
		"no id":              {[]Spec{{}}, "empty or given twice"},
		"id twice":           {[]Spec{{ID: "a"}, {ID: "a"}}, "empty or given twice"},
		"unknown dependency": {[]Spec{{ID: "a", DependsOn: []string{"x"}}}, "not in the plan"},
		"itself":             {[]Spec{{ID: "a", DependsOn: []string{"a"}}}, "cycle"},
		"dependency twice":   {[]Spec{{ID: "b"}, {ID: "a", DependsOn: []string{"b", "b"}}}, "twice"},
		"cycle behind a good one": {[]Spec{
			{ID: "ok"}, {ID: "a", DependsOn: []string{"ok", "c"}}, {ID: "b", DependsOn: []string{"a"}},
			{ID: "c", DependsOn: []string{"b"}},
		}, `"a" can never run`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := NewState()
			rev := PlanRevision{Number: 1, Plan: Plan{SubTasks: test.specs}}
			feed(t, s, Created{Boulder: Boulder{ID: "b1"}}, Planned{Plan: rev})
			refused(t, s, Decomposed{Plan: rev}, test.why)
		})
	}
}

func TestRefusedEvents(t *testing.T) {
	t.Parallel()
	ref := AttemptRef{"a", 1}
	executing := toVerdict(ref)[:2]
	sent := toVerdict(ref)[:3]
	tests := map[string]struct {
		before []Body
		body   Body
		why    string
	}{
		"no body": {nil, nil, "is no event"},
		"late result": {
			append(toVerdict(ref), completed(ref)), TurnEnded{AttemptRef: ref, Turn: 1}, "no open attempt",
		},
		"result of another try":  {executing, TurnEnded{AttemptRef: AttemptRef{"a", 2}, Turn: 1}, "not open"},
		"result twice":           {toVerdict(ref)[:4], TurnEnded{AttemptRef: ref, Turn: 1}, "is monitoring"},
		"result of another turn": {executing, TurnEnded{AttemptRef: ref, Turn: 2}, "turn 2 is not turn 1"},
		"verdict twice":          {toVerdict(ref), Judged{AttemptRef: ref, Turn: 1}, "not waiting for a verdict"},
		"prompt twice":           {sent, TurnSent{AttemptRef: ref, Turn: 1, MessageID: "m2"}, "was sent"},
		"prompt without an id":   {executing, TurnSent{AttemptRef: ref, Turn: 1}, "no message id"},
		"resume before the prompt": {executing, TurnSent{AttemptRef: ref, Turn: 1, MessageID: "m", Resume: true},
			"never sent"},
		"resume twice": {append(sent, TurnSent{AttemptRef: ref, Turn: 1, MessageID: "r", Resume: true}),
			TurnSent{AttemptRef: ref, Turn: 1, MessageID: "r2", Resume: true}, "one resume prompt"},
		"complete without a verdict": {executing, completed(ref), "not judged"},
		"start while paused":         {[]Body{StatusChanged{Status: Paused}}, Starting{AttemptRef: ref}, "is paused"},
		"synthesize while at work":   {executing, StatusChanged{Status: Synthesizing}, "1 open"},
		"cancel while at work":       {executing, StatusChanged{Status: Cancelled}, "1 open"},
		"plan again": {
			[]Body{StatusChanged{Status: Paused}}, StatusChanged{Status: Planning}, "cannot be planning",
		},
		"end while at work": {executing, TaskComplete{Status: Completed}, "is running"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := started(t, Plan{SubTasks: []Spec{{ID: "a"}}})
			feed(t, s, test.before...)
			refused(t, s, test.body, test.why)
		})
	}
}

func TestRestoreNamesTheRecord(t *testing.T) {
	t.Parallel()
	good := func() Snapshot {
		a := Attempt{AttemptRef: AttemptRef{"a", 1}, Status: AttemptQueued}
		return Snapshot{
			Boulder:  Boulder{ID: "b1", Status: Running, Revision: 1, Tally: Tally{Planned: 2}},
			Revision: &PlanRevision{Number: 1},
			SubTasks: []*SubTask{
				{ID: "a", Position: 1, Status: SubTaskPending, Attempts: 1, Blocks: []string{"b"}},
				{ID: "b", Position: 2, Status: SubTaskPending, DependsOn: []string{"a"}},
			},
			Attempts: []*Attempt{&a},
		}
	}
	if _, err := Restore(good()); err != nil {
		t.Fatalf("sound records are refused: %v", err)
	}
	tests := map[string]struct {
		spoil func(*Snapshot)
		why   string
	}{
		"attempt of nobody":   {func(r *Snapshot) { r.Attempts[0].SubTaskID = "x" }, `"x", which is not stored`},
		"two open attempts":   {func(r *Snapshot) { r.Attempts = append(r.Attempts, r.Attempts[0]) }, "more than one open attempt"},
		"sub-task twice":      {func(r *Snapshot) { r.SubTasks[1].ID = "a" }, "stored twice"},
		"attempt missing":     {func(r *Snapshot) { r.Attempts = nil }, `"a" is pending, ready: true, and has an attempt in line: false`},
		"attempt of long ago": {func(r *Snapshot) { r.SubTasks[0].Attempts = 2 }, "2 is the newest"},
		"no turn":             {func(r *Snapshot) { r.Attempts[0].Status = AttemptStarting }, "without a turn"},
		"edge one way":        {func(r *Snapshot) { r.SubTasks[0].Blocks = nil }, `depends on "a", which does not know it`},
		"revision missing":    {func(r *Snapshot) { r.Revision = nil }, "plan revision 1"},
		"over but at work":    {func(r *Snapshot) { r.Boulder.Status = Completed }, "completed with 1 open"},
		"parked but pending":  {func(r *Snapshot) { r.SubTasks[1].Parked = true }, `"b" waits for the user but is pending`},
		"no hope": {func(r *Snapshot) {
			r.SubTasks[0].Status, r.Attempts = SubTaskFailed, nil
		}, `"b" is pending but depends on "a", which can never complete`},
		"cools down without a slot": {func(r *Snapshot) {
			r.Boulder.Cooldowns = map[string]Cooldown{"m": {Limit: 0, Full: 5}}
		}, `"m" cools down with a limit of 0 of 5`},
		"wanted for what is not done": {func(r *Snapshot) {
			r.Boulder.ReplansWanted = []Replanning{{AttemptRef: AttemptRef{SubTaskID: "a"}}}
		}, `wanted for attempt 0 of "a"`},
		"replan of an attempt that is over": {func(r *Snapshot) {
			r.Boulder.Replan = &Replanning{AttemptRef: AttemptRef{"a", 2}, Replaces: []string{"a", "b"}}
		}, `attempt 2 of "a", which is not open`},
		"replan of nothing": {func(r *Snapshot) {
			r.Boulder.Replan = &Replanning{AttemptRef: AttemptRef{"a", 1}}
		}, "replaces nothing"},
		"replan of somebody at work": {func(r *Snapshot) {
			r.SubTasks = append(r.SubTasks, &SubTask{ID: "c", Position: 3, Status: SubTaskInProgress, Attempts: 1})
			ref := AttemptRef{"c", 1}
			r.Attempts = append(r.Attempts, &Attempt{AttemptRef: ref, Status: AttemptStarting, Turns: 1})
			r.Turns = []*Turn{{AttemptRef: ref, Number: 1}}
			r.Boulder.Replan = &Replanning{AttemptRef: AttemptRef{"a", 1}, Replaces: []string{"a", "c"}}
		}, `attempt 1 of "c" is starting while a replan replaces it`},
		"out of order": {func(r *Snapshot) { r.SubTasks[1].Status = SubTaskCompleted }, "before its dependencies"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := good()
			test.spoil(&r)
			if _, err := Restore(r); err == nil || !strings.Contains(err.Error(), test.why) {
				t.Errorf("got %v, want an error that says %q", err, test.why)
			}
		})
	}
}
