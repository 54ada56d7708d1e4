package boulder

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

// complete takes a sub-task's attempt to its end, with an output and a change.
func complete(t *testing.T, s *State, id, output, change string) {
	t.Helper()
	ref := judged(t, s, id, output, change)
	if s.Boulder.Isolated() {
		integrate(t, s, id)
	}
	feed(t, s, SubTaskDone{
		AttemptRef: ref, Completed: true, Output: output, Status: SubTaskCompleted, AttemptStatus: AttemptCompleted,
	})
}

func judged(t *testing.T, s *State, id, output, change string) AttemptRef {
	t.Helper()
	ref := AttemptRef{id, s.SubTask(id).Attempts}
	feed(t, s, Starting{AttemptRef: ref}, SubTaskStart{AttemptRef: ref, SessionID: "s", Snapshot: "before " + id},
		TurnEnded{AttemptRef: ref, Turn: 1, Evidence: Evidence{Diff: Diff{Tree: "after " + id, Hash: change, Commit: s.Boulder.Trunk.Base + id}}},
		Judged{AttemptRef: ref, Turn: 1, Verdict: Verdict{Completed: true, OutputData: output}})
	return ref
}

func integrate(t *testing.T, s *State, id string) {
	t.Helper()
	o := s.Open(id)
	feed(t, s, Integrating{AttemptRef: o.Attempt.AttemptRef, Tip: s.Boulder.Trunk.Tip, Result: o.SubTask.Work},
		Integrated{AttemptRef: o.Attempt.AttemptRef, Commit: s.Boulder.Trunk.Tip + "<" + id, Tree: "tree with " + id})
}

func allDone(t *testing.T, base string) *State {
	t.Helper()
	s := NewState()
	rev := PlanRevision{Number: 1, Plan: Plan{SubTasks: []Spec{{ID: "a"}, {ID: "b", DependsOn: []string{"a"}}, {ID: "c", DependsOn: []string{"b"}}, {ID: "x"}}}}
	feed(t, s, Created{Boulder: Boulder{ID: "b1", Trunk: Trunk{Base: base, Tip: base}}}, Planned{Plan: rev}, Decomposed{Plan: rev})
	for _, id := range []string{"a", "b", "x", "c"} {
		complete(t, s, id, "out of "+id, "change of "+id)
	}
	feed(t, s, StatusChanged{Status: Synthesizing}, TaskComplete{Status: Completed, AllCompleted: true})
	return s
}

func standings(s *State) string {
	var all []string
	for _, t := range s.SubTasks {
		said := t.ID + " " + string(t.Status)
		if t.Reuse != "" {
			said += " " + string(t.Reuse)
		}
		all = append(all, said)
	}
	return strings.Join(all, ", ")
}

// TestRedo: dependents of a redone sub-task are redone only if its result differs.
func TestRedo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		output, change string
		b              Redone
		after          string // once the redone one has completed
		stale          string // sub-tasks with stale input by then
	}{
		"the same":            {"out of a", "change of a", Redone{}, "a completed, b completed, c completed, x completed", ""},
		"another result":      {"other", "change of a", Redone{}, "a completed, b pending, c pending perhaps, x completed", ""},
		"another change":      {"out of a", "other", Redone{}, "a completed, b pending, c pending perhaps, x completed", ""},
		"without dependents":  {"other", "other", Redone{NoDependents: true}, "a completed, b completed, c completed, x completed", "b"},
		"nothing had to be":   {"out of a", "", Redone{Files: FilesKeep}, "a completed, b completed, c completed, x completed", ""},
		"nothing is left":     {"out of a", "", Redone{}, "a completed, b pending, c pending perhaps, x completed", ""},
		"a new change on top": {"out of a", "change of a", Redone{Files: FilesKeep}, "a completed, b completed, c completed, x completed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := allDone(t, "")
			if test.b.SubTasks = []string{"a"}; test.b.Files == "" {
				test.b.Files = FilesRevert
			}
			feed(t, s, test.b)
			if s.Boulder.Status != Paused || !strings.HasPrefix(standings(s), "a pending, b pending ") {
				t.Fatalf("boulder is %s: %s", s.Boulder.Status, standings(s))
			}
			if r := s.SubTask("a").Revert; (r == nil) != (test.b.Files == FilesKeep) {
				t.Errorf("taken back is %+v", r)
			}
			feed(t, s, StatusChanged{Status: Running})
			complete(t, s, "a", test.output, test.change)
			if got := standings(s); got != test.after {
				t.Errorf("%s, want %s", got, test.after)
			}
			var stale []string
			for _, st := range s.Completed(4) {
				if s.StaleInput(st) {
					stale = append(stale, st.ID)
				}
			}
			if got := strings.Join(stale, " "); got != test.stale {
				t.Errorf("stale: %q, want %q", got, test.stale)
			}
			if err := s.Check(); err != nil || s.SubTask("a").Generation != 1 || s.SubTask("a").Attempts != 2 {
				t.Errorf("%+v, %v", s.SubTask("a"), err)
			}
		})
	}
}

// TestRedoIsolated: the trunk restarts before the redone sub-task. Later results are put back without an agent, those of
// its dependents only if its result is the same.
func TestRedoIsolated(t *testing.T) {
	t.Parallel()
	s := allDone(t, "base") // base<a<b<x<c
	feed(t, s, Redone{SubTasks: []string{"b"}, Files: FilesRevert})
	l := s.Boulder.Trunk
	if l.Tip != "base<a" || l.Before != "base<a<b<x<c" || l.Tree != "tree with a" {
		t.Errorf("the line is %+v", l)
	}
	if got, want := standings(s), "a completed, b pending, c pending perhaps, x pending kept"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	feed(t, s, StatusChanged{Status: Running}, Starting{AttemptRef: AttemptRef{"x", 2}, Slot: 1})
	if o := s.Open("x"); o.Attempt.Status != AttemptMonitoring || !o.Turn.Verdict.Completed || s.Boulder.Attempts != 4 {
		t.Errorf("x is %+v after %d attempts", o.Attempt, s.Boulder.Attempts)
	}
	integrate(t, s, "x")
	feed(t, s, completed(AttemptRef{"x", 2}))
	complete(t, s, "b", "out of b", "change of b")
	if got, want := standings(s), "a completed, b completed, c pending kept, x completed"; got != want || s.Boulder.Trunk.Tip != "base<a<x<b" {
		t.Errorf("%s on %s, want %s", got, s.Boulder.Trunk.Tip, want)
	}
	feed(t, s, Starting{AttemptRef: AttemptRef{"c", 2}, Slot: 1})
	if c := s.SubTask("c"); c.Tries != 0 { // its result may not fit and need a session
		t.Errorf("c has used %d attempts", c.Tries)
	}
	integrate(t, s, "c")
	feed(t, s, completed(AttemptRef{"c", 2}))
	if !s.AllOver() || s.SubTask("c").Generation != 0 || s.SubTask("b").Since != 1 {
		t.Errorf("%s; c is of generation %d, b begins after attempt %d", standings(s), s.SubTask("c").Generation, s.SubTask("b").Since)
	}
}

func TestRedoRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before []Body
		ids    []string
		why    string
	}{
		"unknown":      {nil, []string{"zz"}, `no sub-task "zz"`},
		"twice":        {nil, []string{"a", "a"}, "named twice"},
		"not done yet": {[]Body{Redone{SubTasks: []string{"b"}, Files: FilesKeep}}, []string{"b"}, "manager retry b"},
		"at work behind it": {[]Body{
			Redone{SubTasks: []string{"b"}, Files: FilesKeep}, StatusChanged{Status: Running}, Starting{AttemptRef: AttemptRef{"b", 2}},
		}, []string{"a"}, `"b", which builds on it, is in_progress`},
		"parked behind it": {append(append([]Body{
			Redone{SubTasks: []string{"b"}, Files: FilesKeep}, StatusChanged{Status: Running},
		}, toVerdict(AttemptRef{"b", 2})...), Parked{AttemptRef: AttemptRef{"b", 2}}), []string{"a"}, `"b", which builds on it, is blocked`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := allDone(t, "")
			feed(t, s, test.before...)
			refused(t, s, Redone{SubTasks: test.ids, Files: FilesRevert}, test.why)
		})
	}
	s := allDone(t, "base")
	feed(t, s, Landed{How: LandedFiles})
	refused(t, s, Landed{How: LandedBranch}, "have landed already: files")
	refused(t, s, Landed{How: LandedUndone}, "were not written with conflicts")
}

// TestLandingUndone: a landing with conflicts can be taken back, once, and then the results can land again.
func TestLandingUndone(t *testing.T) {
	t.Parallel()
	s := allDone(t, "base")
	refused(t, s, Landed{How: LandedUndone}, "were not written with conflicts")
	for range 2 {
		feed(t, s, Landed{How: LandedFiles, Conflicts: []string{"a.txt"}})
		feed(t, s, Landed{How: LandedUndone})
		if l := s.Boulder.Trunk; l.Landed != nil || !l.LandedAt.IsZero() {
			t.Errorf("after the undo: %+v", l)
		}
		refused(t, s, Landed{How: LandedUndone}, "were not written with conflicts")
	}
	feed(t, s, Landed{How: LandedBranch})
}

// TestRedoBelowAnIntegratedResult: the trunk is not cut below a result that is on it before its sub-task is complete, as when
// the boulder was paused meanwhile.
func TestRedoBelowAnIntegratedResult(t *testing.T) {
	t.Parallel()
	s := NewState()
	rev := PlanRevision{Number: 1, Plan: Plan{SubTasks: []Spec{{ID: "a"}, {ID: "x"}}}}
	feed(t, s, Created{Boulder: Boulder{ID: "b1", Trunk: Trunk{Base: "base", Tip: "base"}}}, Planned{Plan: rev}, Decomposed{Plan: rev})
	complete(t, s, "a", "out of a", "change of a")
	judged(t, s, "x", "out of x", "change of x")
	integrate(t, s, "x")
	feed(t, s, StatusChanged{Status: Paused})
	refused(t, s, Redone{SubTasks: []string{"a"}, Files: FilesRevert}, `the result of "x" is integrated, and not recorded as complete yet`)
}

// TestRedoWithTheModelThatWasSet: a redone sub-task without a model of its own has the one that the user set since.
func TestRedoWithTheModelThatWasSet(t *testing.T) {
	t.Parallel()
	s := allDone(t, "")
	feed(t, s, Redone{SubTasks: []string{"x"}, Files: FilesKeep}, ModelSet{Model: "p/new"}, Redone{SubTasks: []string{"a"}, Files: FilesKeep})
	for id, want := range map[string]string{"x": "p/new", "a": "p/new", "b": ""} {
		if got := s.SubTask(id).Model; got != want {
			t.Errorf("%s has %q, want %q", id, got, want)
		}
	}
}

// TestRedoAnewOfAnIsolatedBoulder: a new boulder takes over no result whose files are not among those that it begins with.
func TestRedoAnewOfAnIsolatedBoulder(t *testing.T) {
	t.Parallel()
	s := NewState()
	rev := PlanRevision{Number: 1, Plan: Plan{SubTasks: []Spec{{ID: "a"}, {ID: "b"}, {ID: "c"}}}}
	feed(t, s, Created{Boulder: Boulder{ID: "b1", Trunk: Trunk{Base: "base", Tip: "base"}}}, Planned{Plan: rev}, Decomposed{Plan: rev})
	for _, id := range []string{"a", "c"} { // c changes no file
		complete(t, s, id, "out of "+id, "change of "+id)
	}
	s.SubTask("a").Files, s.SubTask("c").Files = []string{"a.txt"}, nil
	s.Boulder.Status, s.SubTask("b").Status = Partial, SubTaskFailed
	if err := s.Redoable([]string{"b"}); err == nil || errors.Is(err, ErrAnew) || !strings.Contains(err.Error(), "do not have the results of a yet. `manager land b1`") {
		t.Error(err)
	}
	if err := s.Redoable([]string{"a", "b"}); !errors.Is(err, ErrAnew) { // nothing of it is kept
		t.Error(err)
	}
	for how, want := range map[string]int{LandedFiles: 2, LandedBranch: 2, LandedDropped: 1} {
		s.Boulder.Trunk.Landed = &Landed{How: how}
		if err := s.Redoable([]string{"b"}); !errors.Is(err, ErrAnew) {
			t.Errorf("%s: %v", how, err)
		}
		if kept := s.Inherited([]string{"b"}); len(kept) != want {
			t.Errorf("%s: it takes over %v", how, kept)
		}
	}
}

// TestRedoAnew: what a boulder cannot redo although nothing is wrong with it, a new boulder can.
func TestRedoAnew(t *testing.T) {
	t.Parallel()
	for why, change := range map[string]func(*State){
		"boulder b1 is a loop":                            func(s *State) { s.Boulder.Loop = &Loop{} },
		"boulder b1 was cancelled":                        func(s *State) { s.Boulder.Status = Cancelled },
		"the results of boulder b1 have left it (files)":  func(s *State) { s.Boulder.Trunk.Landed = &Landed{How: LandedFiles} },
		`boulder b1 is over, and sub-task "b" is failed`:  func(s *State) { s.SubTask("b").Status = SubTaskFailed },
		`boulder b1 is over, and sub-task "b" is skipped`: func(s *State) { s.SubTask("b").Status = SubTaskSkipped },
		`sub-task "b" was taken over from boulder b0`: func(s *State) {
			s.SubTask("b").Attempts, s.Boulder.ForkOf = 0, &Fork{BoulderID: "b0"}
		},
	} {
		s := allDone(t, "")
		if change(s); s.Redoable([]string{"zz"}) == nil || errors.Is(s.Redoable([]string{"zz"}), ErrAnew) {
			t.Errorf("%s: a new boulder redoes what is not there", why)
		}
		if err := s.Redoable([]string{"b"}); !errors.Is(err, ErrAnew) || !strings.HasPrefix(err.Error(), why+": ") {
			t.Errorf("%s: %v", why, err)
		}
		refused(t, s, Redone{SubTasks: []string{"b"}, Files: FilesKeep}, why)
		if got := slices.Sorted(maps.Keys(s.Inherited([]string{"b"}))); !slices.Equal(got, []string{"a", "x"}) {
			t.Errorf("%s: a fork takes over %v", why, got)
		}
	}
	s := allDone(t, "")
	s.Boulder.Engine, s.Boulder.Status = "temporal", Cancelled
	if err := s.Redoable([]string{"b"}); err == nil || errors.Is(err, ErrAnew) {
		t.Errorf("of another engine: %v", err)
	}
}

// TestRedoEdited: a redo follows the plan as edited, but cannot change dependencies.
func TestRedoEdited(t *testing.T) {
	t.Parallel()
	s := allDone(t, "")
	was, now := s.Revision.Plan, s.Revision.Plan.Clone()
	now.SubTasks[0].Description, now.SubTasks[0].Gates, now.SubTasks[1].Model = "otherwise", []string{"make"}, "p/other"
	for id, want := range map[string][]Reason{"a": {ReasonEdited}, "b": {ReasonModel}, "c": nil, "zz": nil} {
		if got := Edited(&was, &now, id); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
	moved := now.Clone()
	moved.SubTasks[1].DependsOn = nil
	refused(t, s, Redone{SubTasks: []string{"b"}, Files: FilesKeep, Plan: &PlanRevision{Number: 2, Plan: moved}}, "depends on others")
	feed(t, s, Redone{SubTasks: []string{"a"}, Files: FilesKeep, Plan: &PlanRevision{Number: 2, Plan: now}})
	a, b := s.SubTask("a"), s.SubTask("b")
	if a.Description != "otherwise" || !slices.Equal(a.Gates, []string{"make"}) || b.Model != "" || s.Boulder.Revision != 2 {
		t.Errorf("a is %+v, b has model %q at revision %d", a, b.Model, s.Boulder.Revision)
	}
}
