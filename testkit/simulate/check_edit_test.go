package simulate

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

// edits is the memory of the checks of edited plans.
type edits struct {
	forms  map[string]*boulder.Spec  // of sub-tasks, as they were edited last; nil: removed
	models map[string]boulder.Models // of sub-tasks that an edit left without a result
	before map[string]boulder.SubTask
}

// checkEdit notes what an edit wants, before it is applied.
func (w *world) checkEdit(b boulder.PlanEdited) {
	w.before = map[string]boulder.SubTask{}
	for _, t := range w.disk.SubTasks {
		w.before[t.ID] = *t
	}
	for _, id := range b.Removed {
		w.forms[id] = nil
	}
	for i, spec := range b.Plan.Plan.SubTasks {
		w.forms[spec.ID] = &b.Plan.Plan.SubTasks[i]
	}
	w.seen["added by an edit"] += len(b.Added)
	w.seen["changed by an edit"] += len(b.Changed)
	w.seen["removed by an edit"] += len(b.Removed)
}

// checkEdited: an edit is adopted whole. What is done stays, what is at work keeps its text, and all else is as the plan
// says now.
func (w *world) checkEdited(b boulder.PlanEdited) {
	if w.disk.Revision.Hash != b.Plan.Plan.Hash() {
		w.violate("an edit is refused or adopted whole", "the plan is not the edited one")
	}
	for id, was := range w.before {
		is, o := *w.disk.SubTask(id), w.disk.Open(id)
		switch spec := w.forms[id]; {
		case was.Status == boulder.SubTaskCompleted, was.Status == boulder.SubTaskSkipped, was.Reuse != "":
			if was.Blocks = is.Blocks; recordOf(was) != recordOf(is) {
				w.violate("nothing done is lost", "%s was %s and is %s", id, recordOf(was), recordOf(is))
			}
		case o != nil && o.Attempt.Status.Live():
			if is.Description != was.Description || is.Status != was.Status {
				w.violate("what is at work keeps its text", "%s was %s and is %s", id, recordOf(was), recordOf(is))
			}
		case spec == nil && is.Status != boulder.SubTaskSuperseded:
			w.violate("an edit is refused or adopted whole", "%s is removed and %s", id, is.Status)
		case spec != nil && is.Description != spec.Description:
			w.violate("an edit is refused or adopted whole", "%s is %s, not %+v", id, recordOf(is), *spec)
		}
	}
	for _, n := range b.Added {
		if t := w.disk.SubTask(n.ID); t == nil || t.Description != w.forms[n.ID].Description {
			w.violate("an edit is refused or adopted whole", "%s is not added as the plan says", n.ID)
		}
	}
	w.expectModels()
}

// checkAdopted: an edited plan is the boulder's from the answer without error on; after an error nothing of it is.
func (w *world) checkAdopted(o boulder.Order, seq uint64, err error) {
	adopted := slices.ContainsFunc(w.events[seq:], func(e boulder.Event) bool {
		b, edit := e.Body.(boulder.PlanEdited)
		return edit && withoutAnswers(b.Plan.Plan).Hash() == withoutAnswers(*o.Plan).Hash()
	})
	if adopted != (err == nil) {
		w.violate("an edit is refused or adopted whole", "it was answered with %v; adopted: %v", err, adopted)
	}
	if err != nil {
		w.seen["an edit refused"]++
	}
}

// withoutAnswers returns a plan without its questions: those that an edit answers by default keep the user's answers.
func withoutAnswers(p boulder.Plan) boulder.Plan {
	p.Facts.Questions = nil
	return p
}

// expectModels notes which models sub-tasks without a result are to run with, after an edit.
func (w *world) expectModels() {
	rev := w.disk.Revision
	if len(w.disk.SubTasks) == 0 {
		return // the plan is not there yet
	}
	for _, spec := range rev.Plan.SubTasks {
		if t := w.disk.SubTask(spec.ID); !t.Status.Terminal() && t.Reuse == "" {
			w.models[spec.ID] = cmp.Or(spec.Model, rev.Plan.Model, w.disk.Boulder.Model)
		}
	}
}

// checkForm: what starts after an edit is in its edited form.
func (w *world) checkForm(b boulder.Starting) {
	switch spec, edited := w.forms[b.SubTaskID]; {
	case !edited:
	case spec == nil:
		w.violate("nothing runs in its old form", "%v starts, and was removed from the plan", b.AttemptRef)
	case !strings.Contains(b.Prompt, spec.Description) && !w.stands:
		w.violate("nothing runs in its old form", "%v starts, and is to %q:\n%s", b.AttemptRef, spec.Description, b.Prompt)
	}
}

// checkModel: from its next turn, a sub-task runs with the model that an edit gives it.
func (w *world) checkModel(ref boulder.AttemptRef) {
	if want, edited := w.models[ref.SubTaskID]; edited && !slices.Contains(append(want.All(), want.First()), w.disk.Open(ref.SubTaskID).Attempt.Model) {
		w.violate("nothing runs in its old form", "a turn of %v begins with %q, not %q", ref, w.disk.Open(ref.SubTaskID).Attempt.Model, want)
	}
}

func recordOf(t boulder.SubTask) string {
	data, err := json.Marshal(t)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
