package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/dag"
)

// maxID is the longest id of a boulder or a sub-task, in bytes. Ids become names of directories.
const maxID = 64

// Check reports everything because of which an export cannot be imported: ids that would be no safe names of files, records
// that are missing, are there twice or contradict each other. The error wraps [ErrBadExport].
func (x *Export) Check() error {
	if x.Version != ExportVersion {
		return badExport("it has version %d, and this manager reads version %d", x.Version, ExportVersion)
	}
	if err := x.checkIDs(); err != nil { // first: ids are part of every other message
		return badExport("%w", err)
	}
	var faults []error
	for _, check := range []func() error{
		x.checkWords, x.checkRevisions, x.checkGraph, x.checkAttempts, x.checkTurns, x.checkEvents, x.checkState,
	} {
		faults = append(faults, check())
	}
	if err := errors.Join(faults...); err != nil {
		return badExport("%w", err)
	}
	return nil
}

// checkID refuses an id that is not letters, digits, - and _.
func checkID(what, id string) error {
	if id == "" || len(id) > maxID {
		return fmt.Errorf("the id %.80q of %s has to have 1 to %d characters", id, what, maxID)
	}
	for _, c := range []byte(id) {
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return fmt.Errorf("the id %q of %s may only have letters, digits, - and _", id, what)
		}
	}
	return nil
}

func (x *Export) checkIDs() error {
	if err := checkID("the boulder", x.Boulder.ID); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i := range x.SubTasks {
		id := x.SubTasks[i].ID
		if err := checkID(fmt.Sprintf("sub-task %d", i+1), id); err != nil {
			return err
		}
		if seen[id] {
			return fmt.Errorf("sub-task %s is there twice", id)
		}
		seen[id] = true
	}
	return nil
}

// checkWords refuses states that this code does not know, and with which it could do nothing.
func (x *Export) checkWords() error {
	var faults []error
	known := func(ok bool, what string, status any) {
		if !ok {
			faults = append(faults, fmt.Errorf("%s has the unknown status %q", what, status))
		}
	}
	known(slices.Contains([]boulder.Status{
		boulder.Planning, boulder.AwaitingApproval, boulder.Running, boulder.Paused, boulder.Synthesizing, boulder.Completed,
		boulder.Partial, boulder.Failed, boulder.Cancelled,
	}, x.Boulder.Status), "the boulder", x.Boulder.Status)
	for i := range x.SubTasks {
		t := &x.SubTasks[i]
		known(t.Status.Terminal() || slices.Contains([]boulder.SubTaskStatus{
			boulder.SubTaskPending, boulder.SubTaskInProgress, boulder.SubTaskBlocked,
		}, t.Status), "sub-task "+t.ID, t.Status)
		if err := t.Budget.Validate(); err != nil {
			faults = append(faults, fmt.Errorf("sub-task %s: %w", t.ID, err))
		}
	}
	for i := range x.Attempts {
		a := &x.Attempts[i]
		known(a.Status.Terminal() || slices.Contains([]boulder.AttemptStatus{
			boulder.AttemptQueued, boulder.AttemptStarting, boulder.AttemptExecuting, boulder.AttemptMonitoring,
		}, a.Status), nameOf(a.AttemptRef), a.Status)
	}
	if err := errors.Join(x.Boulder.Budget.Validate(), x.Boulder.Loop.Validate()); err != nil {
		faults = append(faults, fmt.Errorf("the boulder: %w", err))
	}
	return errors.Join(faults...)
}

func nameOf(ref boulder.AttemptRef) string {
	return fmt.Sprintf("attempt %d of sub-task %q", ref.Attempt, ref.SubTaskID)
}

// checkRevisions wants ascending numbers, of which the last is the one that the boulder is at. Numbers may be missing: a
// plan that was replaced before it was ever stored has none.
func (x *Export) checkRevisions() error {
	last := 0
	for i := range x.Revisions {
		n := x.Revisions[i].Number
		if n <= last {
			return fmt.Errorf("plan revision %d comes after %d", n, last)
		}
		last = n
	}
	if last != x.Boulder.Revision {
		return fmt.Errorf("the boulder is at plan revision %d, and the last one here is %d", x.Boulder.Revision, last)
	}
	return nil
}

// checkGraph wants a graph without cycles. That its edges agree both ways is seen by [boulder.State.Check], as far as they
// are its own; BlockedBy is another name of DependsOn.
func (x *Export) checkGraph() error {
	var faults []error
	nodes := make([]dag.Node[string], len(x.SubTasks))
	for i := range x.SubTasks {
		t := &x.SubTasks[i]
		nodes[i] = dag.Node[string]{ID: t.ID, DependsOn: t.DependsOn}
		if !slices.Equal(t.BlockedBy, t.DependsOn) {
			faults = append(faults, fmt.Errorf("sub-task %s depends on %q and is blocked by %q", t.ID, t.DependsOn, t.BlockedBy))
		}
	}
	for _, f := range dag.Check(nodes) {
		id := nodes[f.Node].ID
		switch f.Kind {
		case dag.Cycle:
			faults = append(faults, fmt.Errorf("the dependencies of sub-task %s form a cycle: %s", id, f.PathString()))
		default:
			faults = append(faults, fmt.Errorf("sub-task %s depends on %q: that is itself, not there, or named twice",
				id, nodes[f.Node].DependsOn[max(f.Edge, 0)]))
		}
	}
	return errors.Join(faults...)
}

// checkAttempts wants all attempts of each sub-task, each once, and none besides.
func (x *Export) checkAttempts() error {
	var faults []error
	refs := make(map[boulder.AttemptRef]bool, len(x.Attempts))
	for i := range x.Attempts {
		ref := x.Attempts[i].AttemptRef
		if refs[ref] {
			faults = append(faults, fmt.Errorf("%s is there twice", nameOf(ref)))
		}
		refs[ref] = true
	}
	for i := range x.SubTasks {
		t := &x.SubTasks[i]
		for n := 1; n <= t.Attempts; n++ {
			ref := boulder.AttemptRef{SubTaskID: t.ID, Attempt: n}
			if !refs[ref] {
				faults = append(faults, fmt.Errorf("%s is missing", nameOf(ref)))
				break // the number may be any
			}
			delete(refs, ref)
		}
	}
	for ref := range refs {
		faults = append(faults, fmt.Errorf("%s belongs to no sub-task here, or is more than it has", nameOf(ref)))
	}
	return errors.Join(faults...)
}

// checkTurns does the same for the turns of each attempt.
func (x *Export) checkTurns() error {
	type turn struct {
		boulder.AttemptRef
		number int
	}
	var faults []error
	turns := make(map[turn]bool, len(x.Turns))
	name := func(t turn) string { return fmt.Sprintf("turn %d of %s", t.number, nameOf(t.AttemptRef)) }
	for i := range x.Turns {
		t := turn{x.Turns[i].AttemptRef, x.Turns[i].Number}
		if turns[t] {
			faults = append(faults, fmt.Errorf("%s is there twice", name(t)))
		}
		turns[t] = true
	}
	for i := range x.Attempts {
		a := &x.Attempts[i]
		for n := 1; n <= a.Turns; n++ {
			t := turn{a.AttemptRef, n}
			if !turns[t] {
				faults = append(faults, fmt.Errorf("%s is missing", name(t)))
				break
			}
			delete(turns, t)
		}
	}
	for t := range turns {
		faults = append(faults, fmt.Errorf("%s belongs to no attempt here, or is more than it has", name(t)))
	}
	return errors.Join(faults...)
}

// checkEvents wants the whole log, from the beginning to what the boulder says is the last event.
func (x *Export) checkEvents() error {
	for i := range x.Events {
		e := &x.Events[i]
		switch begin, created := e.Body.(boulder.Created); {
		case e.Body == nil:
			return fmt.Errorf("event %d says nothing", i+1)
		case e.Seq != uint64(i+1):
			return fmt.Errorf("event %d has the number %d: one is missing, or they are not in order", i+1, e.Seq)
		case e.BoulderID != x.Boulder.ID:
			return fmt.Errorf("event %d belongs to boulder %q", e.Seq, e.BoulderID)
		case created != (i == 0):
			return fmt.Errorf("event %d is of type %q: the first one, and no other, is %q",
				e.Seq, e.Body.EventType(), boulder.Created{}.EventType())
		case created && begin.Boulder.ID != x.Boulder.ID:
			return fmt.Errorf("event 1 creates boulder %q", begin.Boulder.ID)
		}
	}
	if n := uint64(len(x.Events)); n == 0 || n != x.Boulder.Seq {
		return fmt.Errorf("there are %d events, and the boulder says %d", n, x.Boulder.Seq)
	}
	return nil
}

// checkState builds what a resume would build.
func (x *Export) checkState() error {
	_, err := x.restore()
	return err
}

// restore is the state of the boulder. It does not share records with the export.
func (x *Export) restore() (*boulder.State, error) {
	r := boulder.Records{Boulder: x.Boulder, SubTasks: slices.Clone(x.SubTasks)}
	for i := range x.Revisions {
		if x.Revisions[i].Number == x.Boulder.Revision {
			revision := x.Revisions[i]
			r.Revision = &revision
		}
	}
	newest := map[boulder.AttemptRef]*boulder.Turn{}
	for i := range x.Turns {
		t := x.Turns[i]
		if old := newest[t.AttemptRef]; old == nil || cmp.Less(old.Number, t.Number) {
			newest[t.AttemptRef] = &t
		}
	}
	for i := range x.Attempts {
		if a := x.Attempts[i]; !a.Status.Terminal() {
			r.Open = append(r.Open, boulder.OpenRecord{Attempt: a, Turn: newest[a.AttemptRef]})
		}
	}
	return boulder.Restore(r)
}
