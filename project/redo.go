package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/secret"
)

// Redo says what the user wants to redo.
type Redo struct {
	SubTasks     map[string][]boulder.Reason // by id; nil: all that are out of date
	Gates        bool                        // without SubTasks: also those with a gate that is red now
	Note         string                      // for each of them
	NoDependents bool                        // keep their dependents, whatever the new results are
	Files        boulder.Files               // empty: revert their changes where possible
}

// Stale returns the completed sub-tasks that are out of date, with the reasons.
func (p *Project) Stale(ctx context.Context, b *boulder.Snapshot) (map[string][]boulder.Reason, error) {
	if err := p.lockFiles(ctx); err != nil {
		return nil, err
	}
	defer p.filesMu.Unlock()
	return p.stale(ctx, b, false)
}

// stale is [Project.Stale], and optionally runs the gates: on the tip of an isolated boulder that has not landed, else
// on the user's files.
func (p *Project) stale(ctx context.Context, b *boulder.Snapshot, gates bool) (map[string][]boulder.Reason, error) {
	s, err := boulder.Restore(*b)
	if err != nil {
		return nil, err
	}
	now, err := p.planNow(b)
	if err != nil {
		return nil, err
	}
	head, err := p.work().Head(ctx)
	if err != nil {
		return nil, err
	}
	tip := s.Boulder.Trunk.Tip
	if s.Boulder.Trunk.Landed != nil {
		tip = ""
	}
	stale, at := map[string][]boulder.Reason{}, p.gatesAt(&s.Boulder, tip)
	for _, t := range s.Completed(len(s.SubTasks)) {
		fresh := cmp.Or(t.Fresh, &boulder.Fresh{})
		var why []boulder.Reason
		if now != nil && boulder.SpecOf(now, t.ID) != fresh.Spec {
			why = boulder.Edited(&s.Revision.Plan, now, t.ID)
		}
		if t.Attempts > 0 && s.StaleInput(t) {
			why = append(why, boulder.ReasonInput)
		}
		if t.Attempts > 0 && s.StaleAnswer(t) {
			why = append(why, boulder.ReasonAnswer)
		}
		moved, err := p.moved(ctx, s, t, cmp.Or(fresh.Head, s.Boulder.Base), head)
		if err != nil {
			return nil, err
		}
		if moved {
			why = append(why, boulder.ReasonBase)
		}
		for _, line := range t.Gates {
			if !gates || slices.Contains(why, boulder.ReasonGate) {
				break
			}
			if g, err := at(ctx, line); err != nil {
				return nil, err
			} else if !g.Green() {
				why = append(why, boulder.ReasonGate)
			}
		}
		if len(why) > 0 {
			stale[t.ID] = why
		}
	}
	return stale, nil
}

// planNow reads the plan file of a boulder: the project's if it was written as this boulder's, else the one that it was run
// from. It returns nil if that is gone or has another task now.
func (p *Project) planNow(b *boulder.Snapshot) (*boulder.Plan, error) {
	if b.Revision == nil {
		return nil, nil
	}
	if plan, _, err := p.readEdited(p.PlanPath()); err == nil && plan.Seal != nil && plan.Seal.Boulder == b.Boulder.ID {
		return plan, nil
	}
	if b.Boulder.PlanFile == "" {
		return nil, nil
	}
	plan, err := p.ReadPlan(b.Boulder.PlanFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("the plan file that boulder %s was run from: %w", boulder.ShortID(b.Boulder.ID), err)
	case plan.Task != b.Revision.Plan.Task:
		return nil, nil
	}
	return plan, nil
}

// moved reports whether commits since base changed a file of the sub-task to a content that no sub-task left.
func (p *Project) moved(ctx context.Context, s *boulder.State, t *boulder.SubTask, base, head string) (bool, error) {
	if base == "" || head == "" || base == head || len(t.Files) == 0 {
		return false, nil
	}
	files, from := t.Files, base
	trees := []string{s.Boulder.Trunk.Tree}
	for _, x := range s.Completed(len(s.SubTasks)) {
		trees = append(trees, x.Tree)
	}
	for _, tree := range append([]string{from}, trees...) {
		if tree == "" {
			continue
		}
		out, err := p.work().Patch(ctx, tree, head, "--name-only", files)
		if err != nil { // git has pruned the snapshot, or it is of another repository: unknown counts as not moved
			return false, context.Cause(ctx)
		}
		if files = strings.FieldsFunc(out, func(r rune) bool { return r == '\n' }); len(files) == 0 {
			return false, nil
		}
	}
	return true, nil
}

// gatesAt returns a function that runs gates, each only once: in a slot at commit, or on the user's files if it is "".
func (p *Project) gatesAt(b *boulder.Boulder, commit string) func(ctx context.Context, line string) (boulder.Gate, error) {
	dir, slotEnv, ran := p.dir, []string(nil), map[string]boulder.Gate{}
	return func(ctx context.Context, line string) (g boulder.Gate, err error) {
		if g, known := ran[line]; known {
			return g, nil
		}
		if commit != "" && slotEnv == nil {
			slot, err := p.slots().Prepare(ctx, boulder.SlotClaim{BoulderID: b.ID, Base: b.Trunk.Base, From: commit})
			if err != nil {
				return g, err
			}
			dir, slotEnv = slot.Dir(), slot.Env()
		}
		ran[line] = p.runCommand(ctx, dir, slotEnv, line)
		return ran[line], context.Cause(ctx)
	}
}

// PrepareRedo works out a redo without changing anything, or returns nil if nothing is out of date. If the boulder cannot
// do it but a new one can, see [ForkRequest]. An impossible redo is an error that wraps [boulder.ErrRefused]. of needs all events.
func (p *Project) PrepareRedo(ctx context.Context, of *Reading, what Redo) (r *boulder.Redoing, err error) {
	if err := p.lockFiles(ctx); err != nil {
		return nil, err
	}
	defer p.filesMu.Unlock()
	b := &of.Snapshot
	if what.Gates && of.Running() && b.Boulder.Isolated() {
		return nil, usagef("boulder %s is at work, and its own gates run where these would: pause it, or leave --check-gates out", boulder.ShortID(b.Boulder.ID))
	}
	if what.SubTasks == nil {
		if what.SubTasks, err = p.stale(ctx, b, what.Gates); err != nil || len(what.SubTasks) == 0 {
			return nil, err
		}
	}
	r = &boulder.Redoing{}
	if r.After, err = boulder.Restore(secret.Each(*b, p.secrets)); err != nil { // from a copy: b stays as it was
		return r, err
	}
	redone := &boulder.Redone{Reasons: what.SubTasks, NoDependents: what.NoDependents, Patches: map[string]string{}}
	for _, t := range r.After.SubTasks {
		if _, asked := what.SubTasks[t.ID]; asked {
			redone.SubTasks = append(redone.SubTasks, t.ID)
		}
	}
	err = r.After.Redoable(redone.SubTasks)
	anew := errors.Is(err, boulder.ErrAnew)
	switch {
	case err != nil && !anew:
		return r, fmt.Errorf("%w: %w", boulder.ErrRefused, err)
	case anew && (what.NoDependents || what.Files == boulder.FilesRevert):
		return r, fmt.Errorf("%w: %w, which begins with your files as they are, and redoes what depends on what is redone",
			boulder.ErrRefused, err)
	case anew:
		r.Anew = err.Error()
	}
	if anew || !b.Boulder.Isolated() {
		if err := p.checkMarkers(ctx); err != nil {
			return r, err
		}
	}
	if redone.Plan, err = p.editedPlan(b, redone); err != nil {
		return r, err
	}
	if anew {
		redone.Files = boulder.FilesKeep
		r.Order = boulder.Order{Redone: redone, Text: p.Clean("The note", what.Note)[0]}
		return r, nil
	}
	redone.Files = cmp.Or(what.Files, boulder.FilesRevert)
	if !b.Boulder.Isolated() && redone.Files == boulder.FilesRevert {
		if r.Paths, r.Why, err = p.takeBack(ctx, r.After, redone.SubTasks); err != nil {
			return r, err
		}
		if r.Why != "" && what.Files == boulder.FilesRevert {
			return r, fmt.Errorf("%w: %s", boulder.ErrRefused, r.Why)
		}
		if r.Why != "" {
			redone.Files, r.Paths = boulder.FilesKeep, nil
		}
	}
	applied, err := r.After.Apply(boulder.Event{Time: time.Now(), BoulderID: b.Boulder.ID, Body: *redone})
	if err != nil {
		return r, err
	}
	as := applied.Body.(boulder.Redone)
	r.Moved = as.Moved
	again := slices.Concat(redone.SubTasks, as.Perhaps)
	for _, e := range of.Events { // keeps the patch of each one's newest turn
		if b, ended := e.Body.(boulder.TurnEnded); ended && slices.Contains(again, b.SubTaskID) {
			redone.Patches[b.SubTaskID] = b.Evidence.Diff.Patch
		}
	}
	maps.DeleteFunc(redone.Patches, func(_, patch string) bool { return patch == "" })
	r.Order = boulder.Order{Do: boulder.OrderRedo, Redone: redone, Text: p.Clean("The note", what.Note)[0]}
	return r, r.Order.Validate()
}

// editedPlan returns the plan with the file's version of the redone sub-tasks, or nil if they are unchanged.
func (p *Project) editedPlan(b *boulder.Snapshot, redone *boulder.Redone) (*boulder.PlanRevision, error) {
	now, err := p.planNow(b)
	if now == nil || err != nil {
		return nil, err
	}
	plan, differs := b.Revision.Plan.Clone(), false
	for i, s := range plan.SubTasks {
		why := boulder.Edited(&b.Revision.Plan, now, s.ID)
		if !slices.Contains(redone.SubTasks, s.ID) || len(why) == 0 {
			continue
		}
		differs = true
		for _, x := range now.SubTasks {
			if x.ID == s.ID {
				plan.SubTasks[i] = x
			}
		}
		for _, reason := range why {
			if !slices.Contains(redone.Reasons[s.ID], reason) {
				redone.Reasons[s.ID] = append(redone.Reasons[s.ID], reason)
			}
		}
	}
	if !differs {
		return nil, nil
	}
	plan.Constraints, plan.DoneWhen, plan.Model = now.Constraints, now.DoneWhen, now.Model
	return &boulder.PlanRevision{
		Number: b.Revision.Number + 1, Plan: plan, Hash: plan.Hash(), Origin: b.Revision.Origin, Edited: true, AdoptedAt: time.Now(),
	}, nil
}

// takeBack returns the files that reverting the changes of sub-tasks would change, or why that is not possible.
func (p *Project) takeBack(ctx context.Context, s *boulder.State, ids []string) (paths []string, why string, err error) {
	if reason := p.work().Reason(); reason != "" {
		return nil, reason, nil
	}
	for _, id := range ids {
		switch t := s.SubTask(id); {
		case t.Snapshot == "" || t.Tree == "":
			return nil, fmt.Sprintf("there is no snapshot of what %q changed", id), nil
		case t.Snapshot == t.Tree:
		case t.Shared:
			return nil, fmt.Sprintf("other sub-tasks were at work at the same time as %q, so what it changed is not known for sure", id), nil
		default:
			changes, err := p.slots().TakeBack(ctx, t.Snapshot, t.Tree, true)
			if err != nil {
				if ctx.Err() != nil {
					return nil, "", err
				}
				return nil, fmt.Sprintf("what %q changed cannot be taken back: %v", id, err), nil
			}
			for _, c := range changes {
				if !slices.Contains(paths, c.Path) {
					paths = append(paths, c.Path)
				}
			}
		}
	}
	return paths, "", nil
}

// ForkRequest is the request for the new boulder of a redo, if [boulder.Redoing] asks for one. It has the settings of the
// original, and its budgets anew.
func ForkRequest(of *boulder.Snapshot, r *boulder.Redoing) Request {
	b, redone := &of.Boulder, r.Order.Redone
	return Request{
		Fork: &boulder.Fork{BoulderID: b.ID, SubTasks: redone.SubTasks}, Note: r.Order.Text,
		Plan: &cmp.Or(redone.Plan, of.Revision).Plan,
		Settings: boulder.Settings{
			PlanFile: b.PlanFile, AskReplans: b.AskReplans, Isolation: b.Isolation, CleanBase: b.CleanBase,
			Diverted: b.Diverted, Agent: b.Agent, Budget: b.Budget,
		},
	}
}

// OrderRedo gives the order, and says which process carries it out; "" if none runs the boulder. Before that it
// repeats the move of the tip ref, which a crash may have prevented.
func (p *Project) OrderRedo(ctx context.Context, b *boulder.Snapshot, o boulder.Order) (by string, err error) {
	if err := p.lockFiles(ctx); err != nil {
		return "", err
	}
	defer p.filesMu.Unlock()
	err = p.Steer(ctx, func(there *Access) error {
		if by = ""; there.Holder.Runs(b.Boulder) {
			by = fmt.Sprintf("Process %d, which runs boulder %s, redoes it.", there.Holder.PID, boulder.ShortID(b.Boulder.ID))
		}
		if l := b.Boulder.Trunk; l.Before != "" {
			if err := p.slots().MoveTip(ctx, b.Boulder.ID, l.Before, l.Tip); err != nil {
				return err
			}
		}
		return there.Orders.Order(ctx, b.Boulder.ID, o)
	})
	return by, err
}

// KeepOrder returns the order that marks a result as up to date with the current plan file and commit.
func (p *Project) KeepOrder(ctx context.Context, b *boulder.Snapshot, id string) (boulder.Order, error) {
	if err := p.lockFiles(ctx); err != nil {
		return boulder.Order{}, err
	}
	defer p.filesMu.Unlock()
	kept := &boulder.Kept{SubTaskID: id}
	now, err := p.planNow(b)
	if err != nil {
		return boulder.Order{}, err
	}
	if now != nil {
		kept.Spec = boulder.SpecOf(now, id)
	}
	kept.Head, err = p.work().Head(ctx)
	return boulder.Order{Do: boulder.OrderKeep, Kept: kept}, err
}
