package project

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/internal/yamlfile"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/taskledger"
)

// PlanEdit is what a plan file says otherwise than the plan of its boulder, which has begun.
type PlanEdit struct {
	Path     string
	Was, Now *boulder.Plan
	Edit     *boulder.PlanEdited // what it adds, changes and removes
	Refused  []boulder.Refusal   // why it cannot be adopted; none: it can
	Warnings []yamlfile.Problem

	hash string // of the revision that it was compared with
}

// Order returns the order that adopts the edit.
func (e *PlanEdit) Order() boulder.Order {
	return boulder.Order{Do: boulder.OrderEdit, Plan: e.Now, Hash: e.hash}
}

// AsksOpenCode reports whether the edit names models, agents or criteria that OpenCode may not have.
func (e *PlanEdit) AsksOpenCode() bool {
	c := boulder.ComparePlans(e.Was, e.Now)
	fields := c.Fields
	for _, p := range c.SubTasks {
		fields = append(fields, p.Fields...)
	}
	return slices.ContainsFunc(fields, func(f boulder.FieldChange) bool {
		return len(f.Now) > 0 && (f.Field == "model" || f.Field == "effort" || f.Field == "agent" || f.Field == "done_when")
	})
}

// EditedPlan compares the plan of a boulder that has begun with its plan file: path, or if that is "" the project's and the
// one that it was run from. It returns nil if they say the same, or if the file is of another plan; with a path that is an
// error. A file that was made from an earlier revision, and edited, is a [UsageError].
func (p *Project) EditedPlan(ctx context.Context, r Reader, d *boulder.Snapshot, path string) (*PlanEdit, error) {
	if len(d.SubTasks) == 0 || d.Boulder.Loop != nil || d.Boulder.Status.Terminal() {
		return nil, nil
	}
	own, err := filepath.Abs(p.PlanPath())
	if path != "" && err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, err
	}
	paths := slices.Compact([]string{own, cmp.Or(d.Boulder.PlanFile, own)})
	if path != "" {
		paths = []string{path}
	}
	for _, at := range paths {
		file, warnings, err := p.readEdited(at)
		if errors.Is(err, fs.ErrNotExist) && path == "" {
			continue
		}
		if err != nil {
			return nil, err
		}
		now, err := p.planOf(ctx, r, d, at, file)
		switch {
		case err != nil:
			return nil, err
		case now == nil && path != "":
			return nil, usagef("%s is not the plan of boulder %s: `manager plan --of %[2]s` writes that", path, boulder.ShortID(d.Boulder.ID))
		case now == nil:
			if at == d.Boulder.PlanFile && file.Seal == nil && file.Task != d.Revision.Plan.Task {
				p.note("%s is not taken over: its task is another one than that of boulder %s. Put that back if it is an edit.", at, boulder.ShortID(d.Boulder.ID))
			}
			continue
		}
		e := &PlanEdit{Path: at, Now: now, Was: new(secret.Each(d.Revision.Plan, p.secrets)), Warnings: warnings, hash: d.Revision.Hash}
		s, err := boulder.Restore(secret.Each(*d, p.secrets))
		if err != nil {
			return nil, err
		}
		if e.Edit, e.Refused = s.Edit(e.Now); e.Edit != nil || len(e.Refused) > 0 {
			return e, nil
		}
	}
	return nil, nil
}

func (p *Project) readEdited(path string) (*boulder.Plan, []yamlfile.Problem, error) {
	data, err := yamlfile.Read(path)
	if err != nil {
		return nil, nil, err
	}
	return p.CheckPlan(path, data)
}

// planOf returns the plan of a file, or nil if it is not of this boulder or says only what an earlier revision said.
func (p *Project) planOf(ctx context.Context, r Reader, d *boulder.Snapshot, path string, file *boulder.Plan) (*boulder.Plan, error) {
	b := &d.Boulder
	if file.Seal == nil && taskledger.Untitled(file) && taskledger.Untitled(&d.Revision.Plan) {
		file.Task = d.Revision.Plan.Task // no other task: its sub-tasks are named otherwise now
	}
	if madeFrom(file, path, b, d.Revision) {
		return taskledger.Unfilled(file, &d.Revision.Plan).KeepAnswers(&d.Revision.Plan), nil
	}
	events, err := r.Events(ctx, b.ID, 0, 0)
	if err != nil {
		return nil, err
	}
	from := 0
	for _, rev := range revisions(events) {
		if madeFrom(file, path, b, &rev) {
			from = max(from, rev.Number)
		}
		if from > 0 && rev.Hash == file.Hash() {
			return nil, nil
		}
	}
	if from == 0 {
		return nil, nil
	}
	return nil, usagef("the edited %s was made from revision %d of the plan of boulder %s, which is at revision %d since: write the present one"+
		" with `manager plan --of %[3]s`, and edit that", path, from, boulder.ShortID(b.ID), b.Revision)
}

// revisions returns the plans of a log, in order.
func revisions(events []boulder.Event) (all []boulder.PlanRevision) {
	for _, e := range events {
		switch b := e.Body.(type) {
		case boulder.Decomposed:
			all = append(all, b.Plan)
		case boulder.Replanned:
			all = append(all, b.Plan)
		case boulder.PlanEdited:
			all = append(all, b.Plan)
		case boulder.Redone:
			if b.Plan != nil {
				all = append(all, *b.Plan)
			}
		}
	}
	return all
}

// madeFrom reports whether a plan file was made from a revision of a boulder's plan, or was run as it. Without a seal, only
// the place and the task can tell, and no replan is in it.
func madeFrom(file *boulder.Plan, path string, b *boulder.Boulder, rev *boulder.PlanRevision) bool {
	if file.Seal == nil {
		return path == b.PlanFile && file.Task == rev.Plan.Task && rev.Origin != boulder.OriginReplan
	}
	seal := sealOf(b, rev)
	return file.Seal.Base == seal.Base && file.Seal.CreatedAt.Equal(seal.CreatedAt) &&
		(file.Seal.Boulder == seal.Boulder || file.Seal.Boulder == b.ID)
}

// sealOf returns the seal of a revision, which may be that of the file that it comes from.
func sealOf(b *boulder.Boulder, rev *boulder.PlanRevision) boulder.Seal {
	if rev.Plan.Seal != nil {
		return *rev.Plan.Seal
	}
	return boulder.Seal{Base: b.Base, Origin: boulder.OriginHand, CreatedAt: rev.AdoptedAt}
}

// PresentPlan returns the current plan of a boulder, sealed as its, and the remark about each sub-task that its file shows.
func PresentPlan(d *boulder.Snapshot) (plan *boulder.Plan, remarks map[string]string, err error) {
	b := &d.Boulder
	switch {
	case b.Loop != nil:
		return nil, nil, usagef("boulder %s is a loop, which has no plan", boulder.ShortID(b.ID))
	case len(d.SubTasks) == 0:
		return nil, nil, usagef("boulder %s has no plan yet that was approved: `manager resume %[1]s` asks about it", boulder.ShortID(b.ID))
	}
	plan, remarks = new(d.Revision.Plan.Clone()), map[string]string{}
	plan.Seal = new(sealOf(b, d.Revision))
	plan.Reseal(plan.ByHand()...)
	plan.Seal.Boulder = b.ID
	for _, t := range d.SubTasks {
		switch {
		case t.Status == boulder.SubTaskCompleted, t.Status == boulder.SubTaskSkipped, t.Reuse != "":
			remarks[t.ID] = string(t.Status) + ": it stays as it is"
		case t.Status == boulder.SubTaskInProgress:
			remarks[t.ID] = "under way: gates, model, priority and budget may change"
		case t.Parked:
			remarks[t.ID] = "waits for you"
		case t.Status != boulder.SubTaskPending:
			remarks[t.ID] = string(t.Status)
		}
	}
	return plan, remarks, nil
}

// RetryOrder returns the order to retry a sub-task, with what the plan file says of it now.
func (p *Project) RetryOrder(ctx context.Context, r Reader, d *boulder.Snapshot, id string) (boulder.Order, error) {
	o := boulder.Order{Do: boulder.OrderRetry, SubTaskID: id}
	edit, err := p.EditedPlan(ctx, r, d, "")
	if edit == nil || err != nil {
		return o, err
	}
	plan := edit.Was.Clone()
	at := func(p *boulder.Plan) int {
		return slices.IndexFunc(p.SubTasks, func(s boulder.Spec) bool { return s.ID == id })
	}
	was, now := at(&plan), at(edit.Now)
	if was < 0 || now < 0 {
		return o, nil
	}
	plan.SubTasks[was] = edit.Now.SubTasks[now]
	if c := boulder.ComparePlans(edit.Was, &plan); len(c.SubTasks) == 0 {
		return o, nil
	}
	o.Plan, o.Hash = &plan, edit.hash
	return o, nil
}

// Err says why the edit cannot be adopted; nil: it can.
func (e *PlanEdit) Err() error {
	if len(e.Refused) == 0 {
		return nil
	}
	return usagef("the edited %s: %s", e.Path, orchestrator.Refusals(e.Refused))
}
