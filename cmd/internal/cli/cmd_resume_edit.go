package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
)

// takeEdits has what the user changed adopted before a boulder continues: the plan file, after a yes, and the model and the
// effort of sub-tasks without (--model, --effort). taken: something was. d is then as it is afterwards.
func (a *app) takeEdits(ctx context.Context, there *project.Access, d *boulder.Snapshot) (taken bool, err error) {
	order, asks := boulder.Order{Do: boulder.OrderEdit}, false
	if !a.keepPlan {
		edit, err := a.project.EditedPlan(ctx, there, d, a.file(a.planFile))
		switch {
		case err != nil:
			err = fmt.Errorf("%w\n%s", err, keepHint)
		case edit != nil:
			err = a.agreeEdit(ctx, d, edit)
		}
		switch {
		case err != nil:
			return false, err
		case edit != nil && !a.keepPlan:
			order, asks = edit.Order(), edit.AsksOpenCode()
		}
	}
	if (a.opts.Model != "" || a.opts.Effort != "") && len(d.SubTasks) > 0 {
		if order.Model, order.Effort, err = a.modelFor(d, order.Plan); err != nil {
			return false, err
		}
	}
	set := order.Model != "" || order.Effort != ""
	if order.Plan == nil && !set {
		return false, nil
	}
	if asks || set {
		if err := a.checkEdit(ctx, there, d, order.Plan); err != nil {
			return false, err
		}
	}
	switch err := there.Orders.Order(ctx, d.Boulder.ID, order); {
	case errors.Is(err, boulder.ErrRefused): // by the process that has it at work
		return false, usagef("%w\n%s", err, keepHint)
	case err != nil:
		return false, err
	}
	if *d, err = there.Get(ctx, d.Boulder.ID); err != nil {
		return true, err
	}
	if order.Plan != nil {
		a.note("The edit is revision %d of the plan.", d.Boulder.Revision)
	}
	if set {
		a.tellModel(d)
	}
	return true, nil
}

const keepHint = "With --keep-plan it continues with the plan as it was."

// agreeEdit shows an edit and asks about it. With the answer "keep" it sets keepPlan.
func (a *app) agreeEdit(ctx context.Context, d *boulder.Snapshot, edit *project.PlanEdit) error {
	refused := edit.Err()
	if !a.quiet || refused != nil || !a.yes {
		o := a.on(a.Stderr)
		o.Say("The plan file ", o.Code(a.pretty(edit.Path)), " differs from the plan of boulder ", boulder.ShortID(d.Boulder.ID), ":")
		view.PlanChanges(o, edit.Was, edit.Now)
		view.Warnings(o, edit.Warnings)
	}
	switch {
	case refused != nil:
		return fmt.Errorf("%w\n%s", refused, keepHint)
	case a.yes:
		return nil
	case !a.interactive():
		return fmt.Errorf("%w: %s was edited: --yes takes that over, --keep-plan continues with the plan as it was",
			orchestrator.ErrWaiting, a.pretty(edit.Path))
	}
	answer, err := a.choose(ctx, "Take over this edit?", "yes", "keep the plan", "no")
	if errors.Is(err, orchestrator.ErrDeclined) {
		err = errors.New("nothing was taken over, and nothing continues")
	}
	a.keepPlan = answer == "keep the plan"
	return err
}

// modelFor returns the model of --model and the effort of --effort for an order, none of them if the boulder has it already. It
// refuses one that no sub-task would take.
func (a *app) modelFor(d *boulder.Snapshot, edited *boulder.Plan) (model boulder.Models, effort string, err error) {
	s, err := boulder.Restore(*d)
	if err == nil && a.opts.Model != "" {
		a.opts.Model, err = a.project.Model()
	}
	model, effort = a.opts.Model, a.opts.Effort
	own := func(flag, value string) error {
		return usagef("--%s %s is for sub-tasks that have no %[1]s of their own, and each one that is left has: "+
			"edit `%[1]s` in the file that `manager plan --of %[3]s` writes, then `manager resume %[3]s`", flag, value, boulder.ShortID(d.Boulder.ID))
	}
	switch {
	case err != nil:
		return "", "", err
	case edited == nil && model != "" && len(s.Unnamed(model, "")) == 0:
		return "", "", own("model", model.String())
	case edited == nil && effort != "" && len(s.Unnamed("", effort)) == 0:
		return "", "", own("effort", effort)
	}
	if model == d.Boulder.Model {
		model = ""
	}
	if effort == d.Boulder.Effort {
		effort = ""
	}
	if model == "" && effort == "" {
		a.tellModel(d)
	}
	return model, effort, nil
}

// tellModel says to which sub-tasks the model of --model and the effort of --effort apply.
func (a *app) tellModel(d *boulder.Snapshot) {
	s, err := boulder.Restore(*d)
	if err != nil {
		return
	}
	takes, own := s.Unnamed(a.opts.Model, a.opts.Effort), []string{}
	for _, t := range d.SubTasks {
		if !t.Status.Terminal() && !slices.Contains(takes, t.ID) {
			own = append(own, t.ID)
		}
	}
	with := text.JoinedBy(", ", a.opts.Model.String(), text.Prefixed("effort ", a.opts.Effort))
	a.note("%s, from their next turn: %s%s.", with, strings.Join(takes, ", "),
		text.Prefixed(cmp.Or(text.If(a.opts.Effort == "", "; with a model of their own: "), "; with their own: "), strings.Join(own, ", ")))
}

// checkEdit refuses models, agents and criteria that OpenCode does not have, of what is left to do.
func (a *app) checkEdit(ctx context.Context, there *project.Access, d *boulder.Snapshot, edited *boulder.Plan) error {
	if there.Holder != nil {
		if err := a.connect(ctx); err != nil {
			return err
		}
	}
	plan := d.Revision.Plan
	if edited != nil {
		plan = *edited
	}
	over := map[string]bool{}
	for _, t := range d.SubTasks {
		over[t.ID] = t.Status.Terminal()
	}
	plan.SubTasks = slices.DeleteFunc(slices.Clone(plan.SubTasks), func(s boulder.Spec) bool { return over[s.ID] })
	now := boulder.Settings{Model: cmp.Or(a.opts.Model, d.Boulder.Model), Effort: cmp.Or(a.opts.Effort, d.Boulder.Effort)}
	_, err := a.project.CheckNeeds(ctx, &plan, now, project.Criteria{Words: d.Boulder.DoneWhen, Checks: d.Boulder.Checks})
	return err
}
