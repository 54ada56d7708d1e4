package orchestrator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator/internal/schedule"
)

// editEvents returns the events of an edit of the plan, or of another model. at names the attempts whose turn or result is at
// work: their gates cannot change now, and another model has to wait for their next turn.
func editEvents(s *boulder.State, o boulder.Order, now time.Time, busy func(boulder.AttemptRef) bool) (bodies []boulder.Body, err error) {
	var atWork, later []string
	for _, open := range s.Live() {
		a := open.Attempt
		if busy != nil && busy(a.AttemptRef) {
			atWork = append(atWork, open.SubTask.ID)
		}
		// After a crash the turn may go on in its session, with the model that it was sent to.
		cut := busy == nil && s.Boulder.Status == boulder.Running && a.Status == boulder.AttemptExecuting && open.Turn.MessageID != "" && !now.Before(a.NotBefore)
		if cut || slices.Contains(atWork, open.SubTask.ID) {
			later = append(later, open.SubTask.ID)
		}
	}
	if o.Plan != nil {
		edit, err := edited(s, o, now, atWork)
		if err != nil {
			return nil, err
		}
		edit.Later = later
		bodies = append(bodies, *edit)
		for _, settled := range s.Settlements(o.Plan) {
			bodies = append(bodies, settled)
		}
	}
	if o.Model != "" || o.Effort != "" {
		bodies = append(bodies, boulder.ModelSet{Model: o.Model, Effort: o.Effort, Later: later})
	}
	return bodies, nil
}

func edited(s *boulder.State, o boulder.Order, now time.Time, atWork []string) (*boulder.PlanEdited, error) {
	b := &s.Boulder
	switch {
	case len(s.SubTasks) == 0:
		return nil, refusal("the plan of boulder %s waits for your approval: edit it there", boulder.ShortID(b.ID))
	case s.Revision.Hash != o.Hash:
		return nil, refusal("the plan of boulder %s is not the one that your edit was compared with: try again", boulder.ShortID(b.ID))
	}
	edit, refused := s.Edit(o.Plan)
	switch {
	case len(refused) > 0:
		return nil, refusal("%s", Refusals(refused))
	case edit == nil:
		return nil, refusal("the plan of boulder %s is that already", boulder.ShortID(b.ID))
	}
	for _, spec := range o.Plan.SubTasks {
		t := s.SubTask(spec.ID)
		regated := t != nil && slices.Contains(edit.Changed, t.ID) && !slices.Equal(gatesIn(&s.Revision.Plan, t.ID), gatesIn(o.Plan, t.ID))
		if regated && (slices.Contains(atWork, t.ID) || slices.Contains(s.Batch(), s.Open(t.ID))) {
			return nil, refusal("the turn of %q is at work, and its gates belong to it: `manager pause --now` first", t.ID)
		}
	}
	rev := revision(o.Plan.KeepAnswers(&s.Revision.Plan), b.Revision+1, now)
	rev.Edited = true
	edit.Revision, edit.Plan = rev.Number, rev
	return edit, nil
}

func gatesIn(p *boulder.Plan, id string) []string {
	for _, spec := range p.SubTasks {
		if spec.ID == id {
			return slices.Concat(spec.Gates, []string{""}, spec.NoWorse)
		}
	}
	return nil
}

// usable refuses an edit with a model that no attempt may ever have.
func (r *run) usable(o boulder.Order) error {
	needs := map[string][]string{}
	need := func(models boulder.Models, ids ...string) {
		needs[models.First()] = append(needs[models.First()], ids...)
		for _, m := range models.Or(r.state.Boulder.Fallback).All()[min(1, len(models)):] {
			needs[m] = append(needs[m], ids...)
		}
	}
	if ids := r.state.Unnamed(o.Model, ""); len(ids) > 0 {
		need(o.Model, ids...)
	}
	if o.Plan != nil {
		for _, spec := range o.Plan.SubTasks {
			if t := r.state.SubTask(spec.ID); t == nil || t.Unfinished() {
				need(cmp.Or(spec.Model, o.Plan.Model, o.Model, r.state.Boulder.Model), spec.ID)
			}
		}
	}
	if err := schedule.StartableModels(needs, r.o.limits); err != nil {
		return refusal("%w: %w", ErrUnstartable, err)
	}
	return nil
}

// Refusals says why an edited plan cannot be adopted.
func Refusals(all []boulder.Refusal) string {
	var lines []string
	for _, r := range all {
		lines = append(lines, r.String())
	}
	if len(lines) == 1 {
		return lines[0]
	}
	return fmt.Sprintf("%d parts of the edited plan cannot be adopted:\n- %s", len(lines), strings.Join(lines, "\n- "))
}
