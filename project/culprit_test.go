package project

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/workspace"
)

// results puts results of agents onto a trunk, outside of a run.
type results struct {
	*slotted
	ws    *workspace.Workspace
	slots Slots
	what  boulder.Integration
}

// newResults has results on the trunk, each with a file of the name of its sub-task, which were not tested with the gates.
func newResults(t *testing.T, gates []string, on ...string) *results {
	w := newSlotted(t, "a.txt", "")
	ws, err := workspace.Open(t.Context(), w.dir)
	if err != nil {
		t.Fatal(err)
	}
	r := &results{w, ws, Slots{ws.Slots()}, boulder.Integration{BoulderID: "b1", Gates: gates}}
	if w.base, err = r.slots.Base(t.Context(), false, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	r.what.Trunk.Base, r.what.Trunk.Tip = w.base, w.base
	for n, id := range on {
		done := r.work(id, n+1)
		done.SubTask.Integrated, done.SubTask.Place = done.SubTask.Work, n+1
		r.what.Earlier = append(r.what.Earlier, done.SubTask)
		if err := r.slots.MoveTip(t.Context(), "b1", r.what.Trunk.Tip, done.SubTask.Work); err != nil {
			t.Fatal(err)
		}
		r.what.Trunk.Tip = done.SubTask.Work
	}
	return r
}

// work returns the result of a sub-task that began at the tip.
func (r *results) work(id string, slot int) boulder.Joined {
	r.Helper()
	tip := r.what.Trunk.Tip
	s, err := r.slots.Prepare(r.Context(), boulder.SlotClaim{BoulderID: "b1", Slot: slot, SubTaskID: id, Attempt: 1, Base: r.base, From: tip})
	if err != nil {
		r.Fatal(err)
	}
	r.write(s.Dir(), id, id)
	j := boulder.Joined{Turn: boulder.Turn{AttemptRef: boulder.AttemptRef{SubTaskID: id, Attempt: 1}, Evidence: &boulder.Evidence{}}}
	j.SubTask.ID, j.SubTask.From, j.SubTask.Slot = id, tip, slot
	if j.SubTask.Work, j.Turn.Evidence.Diff.Tree, err = s.Capture(r.Context(), ""); err != nil {
		r.Fatal(err)
	}
	return j
}

// integrate puts results that began at the tip onto it, and returns what came there and what went back.
func (r *results) integrate(ids ...string) (on []string, back *boulder.Conflict) {
	r.Helper()
	var all []boulder.Joined
	for n, id := range ids {
		all = append(all, r.work(id, 10+n))
	}
	r.what.SubTask, r.what.Turn, r.what.Then, r.what.Last = all[0].SubTask, all[0].Turn, all[1:], true
	for n, j := range all {
		being := boulder.Integrating{AttemptRef: j.Turn.AttemptRef, Tip: r.what.Trunk.Tip, Result: j.SubTask.Work, At: time.Unix(2, 0), Joins: n > 0}
		if n == 0 {
			r.what.Trunk.Integrating = &being
		} else {
			r.what.Trunk.Joined = append(r.what.Trunk.Joined, being)
		}
	}
	x, err := executor.New(executor.Config{Host: &opencode.Host{}, Project: r.dir, Workspace: r.ws, Slots: r.slots})
	if err != nil {
		r.Fatal(err)
	}
	err = x.Integrate(r.Context(), r.what, func(body boulder.Body) error {
		switch b := body.(type) {
		case boulder.Integrated:
			for _, under := range b.Under {
				on = append(on, under.SubTaskID)
			}
			on, back = append(on, b.SubTaskID), b.Back
		case boulder.Conflict:
			back = &b
		}
		return nil
	})
	if err != nil {
		r.Fatal(err)
	}
	return on, back
}

// The first of several results follows the tip. If it is the one that breaks a gate of combined trees, it goes back, and not the
// next one.
func TestFirstOfSeveralIsToBlame(t *testing.T) {
	t.Parallel()
	r := newResults(t, []string{"test ! -e bad"})
	on, back := r.integrate("bad", "good", "other")
	if len(on) > 0 || back == nil || back.SubTaskID != "bad" || len(back.Red) != 1 {
		t.Errorf("on the tip came %q, back went %+v", on, back)
	}
}

// A result that followed the tip alone was not tested with the gates of combined trees. If that turns out with a later one, the
// first is named.
func TestWhoseResultMadeAGateRed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		gates []string
		on    []string
		since string
		red   []string // in the trial
		of    string   // the sub-task on the trunk whose gate it is, too
	}{
		"on the tip":       {gates: []string{"test ! -e bad"}, on: []string{"good", "bad"}, since: "bad"},
		"below others":     {gates: []string{"test ! -e bad"}, on: []string{"one", "two", "bad", "three", "four"}, since: "bad"},
		"the first":        {gates: []string{"test ! -e bad"}, on: []string{"bad", "one", "two"}, since: "bad"},
		"two gates":        {gates: []string{"test ! -e bad", "test ! -e ill"}, on: []string{"ill", "one", "bad"}, since: "bad ill"},
		"its own":          {gates: []string{"test ! -e last"}, on: []string{"one", "two"}},
		"red at the base":  {gates: []string{"test -e none"}, on: []string{"one", "two"}},
		"red in the trial": {gates: []string{"test ! -e bad"}, on: []string{"one", "bad"}, red: []string{"test ! -e bad"}},
		"of another":       {on: []string{"one", "two", "bad", "three"}, of: "two", since: "bad"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newResults(t, test.gates, test.on...)
			r.what.Trunk.Red = test.red
			for n := range r.what.Earlier {
				if earlier := &r.what.Earlier[n]; earlier.ID == test.of { // red before it, too
					earlier.Gates = []string{"test -e " + test.of + " -a ! -e bad"}
				}
			}
			on, back := r.integrate("last")
			if len(on) > 0 || back == nil || back.SubTaskID != "last" {
				t.Fatalf("on the tip came %q, back went %+v", on, back)
			}
			since := strings.Fields(test.since)
			slices.Sort(back.Since)
			if !slices.Equal(back.Since, since) || len(since) > 0 && len(back.With) != len(since) {
				t.Errorf("red since %q, in conflict with %q; want %q", back.Since, back.With, since)
			}
		})
	}
}
