package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator/internal/schedule"
)

// startPlan asks for a plan. A stop, a pause or a cancel aborts the call: nothing is lost, and a resume asks again.
func (r *run) startPlan() {
	b := r.state.Boulder
	req := boulder.PlanRequest{
		Model: b.Ledger(), Task: b.Task, Constraints: b.Constraints, Project: b.Project, Mode: b.PlanMode, Look: b.LookMode, Known: found(b.Look),
		Describe: b.Describe,
	}
	if b.Comment != "" {
		req.Was, req.Comment = new(r.state.Revision.Plan.Clone()), b.Comment
	}
	var plan *boulder.Plan
	var first boulder.Body // has to be stored before the plan
	var usage boulder.Usage
	looks, model := r.o.limits.LookTime > 0, lookModel(r.state, r.now)
	r.launchUntilStop(planWork, func(ctx context.Context) (err error) {
		var known boulder.Prepared
		switch {
		case b.Prepared == nil || req.Known != nil:
			known, usage, err = prepared(ctx, r.o.cfg.Planner, r.req.Ask != nil, looks, &req)
		case asksUser(r.req.Ask, *b.Prepared):
			known, err = asked(ctx, r.req.Ask, *b.Prepared)
			first = known
			return err
		default:
			known, req.Known = *b.Prepared, b.Prepared.Known
		}
		switch {
		case err != nil:
			return err
		case asksUser(r.req.Ask, known):
			first = known
			return nil
		case looks && len(known.Find) > 0:
			first = lookStarted(b.ID, model, known.Find, known.Known)
			return nil
		}
		var used boulder.Usage
		plan, used, err = r.o.Plan(ctx, req, b.Base)
		usage = usage.Add(used)
		return err
	}, func(err error) error {
		if applyErr := r.apply(ledgerUsage(boulder.AttemptRef{}, boulder.UsagePlan, req.Model, usage)...); applyErr != nil {
			return applyErr
		}
		switch planning := r.state.Boulder.Status == boulder.Planning; {
		case planning && errors.Is(err, boulder.ErrTrouble):
			return r.apply(schedule.PlanTrouble(r.state, r.o.limits, r.now, err)...)
		case planning && req.Was != nil && errors.Is(err, boulder.ErrNoNewPlan):
			return r.apply(boulder.RevisionRefused{Reason: "the plan stays as it was: " + err.Error()})
		case planning && r.ledgerOut(err):
			return nil
		case err != nil, !planning:
			return r.unplanned(err)
		case first != nil:
			return r.apply(first)
		}
		if err := r.propose(plan, req.Was); err != nil {
			return err
		}
		return r.commit() // before it is adopted: keep what was paid for
	})
}

// ledgerOut notes if an error means that the ledgers' model cannot be used. It reports whether others of its list may.
func (r *run) ledgerOut(err error) bool {
	out := schedule.LedgerOutage(r.state, r.o.limits, r.now, err)
	noted := out
	if out == nil {
		noted = schedule.Refused(r.state, r.o.limits, r.now, r.state.Boulder.Ledger(), err)
	}
	if err := r.apply(noted...); err != nil {
		r.end(err)
	}
	return out != nil
}

// Looks are who looks at the project, and with which model (provider/model). Without Looker there are none.
type Looks struct {
	Looker Looker
	Model  string
}

// PlanPatiently asks the Task Ledger for a plan without a boulder, by one of these models, and waits out faults like a run with
// these limits. A crash forgets what a look found and the user answered. ask, which may be nil, asks the user. told gets each
// [boulder.PlanTrouble] that is waited out, each [boulder.Switched], and a look's [boulder.LookStarted], [boulder.Looked] and
// [boulder.UsageReport]. The error says why no plan came: [ErrWaiting] if no model can be used, or not before long.
func PlanPatiently(
	ctx context.Context, p Planner, models boulder.Models, looks Looks, ask Ask, req boulder.PlanRequest, l Limits, told func(boulder.Body),
) (plan *boulder.Plan, usage boulder.Usage, err error) {
	s := boulder.NewState()
	head := boulder.Boulder{ID: "plan", Settings: boulder.Settings{LedgerModel: models}}
	_, err = s.Apply(boulder.Event{Time: time.Now().UTC(), BoulderID: head.ID, Body: boulder.Created{Boulder: head}})
	for err == nil {
		req.Model = s.Boulder.Ledger()
		known, used, unknown := prepared(ctx, p, ask != nil, looks.Looker != nil && l.LookTime > 0, &req)
		usage = usage.Add(used)
		if err = unknown; err == nil && asksUser(ask, known) {
			known, err = asked(ctx, ask, known)
			req.Known = known.Known
		}
		if err == nil && len(known.Find) > 0 {
			look := boulder.Look{LookStarted: lookStarted(strings.ToLower(ulid.Make().String()), looks.Model, known.Find, req.Known)}
			req.Known, used, err = lookOnce(ctx, looks.Looker, look, req.Task, l, told)
			usage = usage.Add(used)
		}
		if err == nil {
			plan, used, err = p.Plan(ctx, req)
			usage = usage.Add(used)
		}
		now := time.Now().UTC()
		faults := schedule.LedgerOutage(s, l, now, err)
		switch {
		case ctx.Err() != nil, faults == nil && !errors.Is(err, boulder.ErrTrouble):
			return plan, usage, err
		case faults == nil:
			faults = schedule.PlanTrouble(s, l, now, err)
		}
		err = applyTo(s, now, faults...)
		for decided := true; decided && err == nil; {
			decided = false
			for _, action := range schedule.Compute(s, l, now) {
				switch a := action.(type) {
				case schedule.Apply:
					if switched, is := a.Body.(boulder.Switched); is {
						told(switched)
						decided, err = true, applyTo(s, now, switched)
					}
				case schedule.Stop:
					return nil, usage, stopError(a)
				case schedule.Wake:
					for _, b := range faults {
						if fault, ok := b.(boulder.PlanTrouble); ok {
							told(fault)
						}
					}
					select {
					case <-time.After(time.Until(a.At)):
					case <-ctx.Done():
						return nil, usage, context.Cause(ctx)
					}
				}
			}
		}
	}
	return nil, usage, err
}

// startApproval asks the user about the plan. If the user cannot be asked, see adoptUnasked.
func (r *run) startApproval() {
	proposed := r.state.Revision.Plan.Clone()
	var approved Approval
	r.launchUntilStop(planWork, func(ctx context.Context) (err error) {
		approved, err = r.req.Approve(ctx, &proposed)
		if err == nil && approved.Plan == nil {
			err = errors.New("the approval returned neither a plan nor an error")
		}
		return err
	}, func(err error) error {
		wish, revise := errors.AsType[*ReviseError](err)
		if revise && r.state.Boulder.Status == boulder.AwaitingApproval {
			return r.apply(revisionAsked(r.state, wish, r.now))
		}
		if err != nil || r.state.Boulder.Status != boulder.AwaitingApproval {
			return r.unplanned(err)
		}
		return r.adopt(approved, nil)
	})
}

func (r *run) unplanned(err error) error {
	switch {
	case err == nil, r.cutShort(err):
	case errors.Is(err, ErrDeclined):
		r.end(err)
		return r.apply(boulder.StatusChanged{Status: boulder.Cancelled, Reason: err.Error()})
	default:
		r.end(err)
	}
	return nil
}

// adoptUnasked adopts a plan if the user cannot be asked, or ends the run if the plan needs approval.
func (r *run) adoptUnasked() error {
	if r.state.Boulder.Status != boulder.AwaitingApproval || r.req.Approve != nil || r.halting() {
		return nil
	}
	if err := Unasked(&r.state.Revision.Plan); err != nil {
		r.end(err)
		return nil
	}
	if r.state.Boulder.AskPlan || r.state.Boulder.Revised > 0 {
		r.end(fmt.Errorf("%w: the plan is not approved yet", ErrWaiting))
		return nil
	}
	return r.adopt(Approval{Plan: &r.state.Revision.Plan, Gates: r.req.GatesApproved}, nil)
}

// Unasked returns why a plan that was just made does not run before the user has seen it, as [ErrUnplanned] or [ErrUnowned],
// or nil.
func Unasked(plan *boulder.Plan) error {
	if plan.Origin() == boulder.OriginFallback {
		return ErrUnplanned
	}
	var rows []string
	for _, o := range plan.Unowned() {
		rows = append(rows, strconv.Quote(o.Text))
	}
	if len(rows) == 0 {
		return nil
	}
	return fmt.Errorf("%w: nobody does %s; `manager resume` on a terminal asks about it, or cancel it, edit a plan from"+
		" `manager plan` and run that", ErrUnowned, text.Short(strings.Join(rows, ", "), 600))
}

// revisionAsked returns the event of the user's wish for another plan, with the user's own edits of the present one.
func revisionAsked(s *boulder.State, wish *ReviseError, now time.Time) boulder.RevisionAsked {
	asked := boulder.RevisionAsked{Comment: wish.Comment}
	if wish.Plan != nil && wish.Plan.Hash() != s.Revision.Hash {
		asked.Plan = new(revision(wish.Plan, s.Revision.Number+1, now))
		asked.Plan.Edited = true
	}
	return asked
}

// propose stores a plan that awaits approval; was is the one that it revises, or nil.
func (r *run) propose(plan, was *boulder.Plan) error {
	rev := revision(plan, r.state.Boulder.Revision+1, r.now)
	rev.Was = was
	return r.apply(boulder.Planned{Revision: rev.Number, Origin: rev.Origin, Plan: rev})
}

// adopt creates the sub-tasks of a plan; results are those that a fork takes over. A plan that differs from the
// proposal becomes the next revision.
func (r *run) adopt(a Approval, results map[string]boulder.Inherited) error {
	err := r.apply(decomposed(r.state, a, results, r.now))
	if err == nil {
		err = startable(r.state, r.o.limits)
	}
	if err == nil {
		err = r.setBudgets()
	}
	return err // on an error nothing of this is stored
}

func decomposed(s *boulder.State, a Approval, results map[string]boulder.Inherited, now time.Time) boulder.Decomposed {
	plan, rev := a.Plan, *s.Revision
	if plan.Hash() != rev.Hash {
		rev = revision(plan, rev.Number+1, now)
		rev.Edited = true
	}
	d := boulder.Decomposed{
		Revision: rev.Number, Origin: rev.Origin, Edited: rev.Edited, Goal: plan.Goal, Plan: rev, GatesApproved: a.Gates,
		Model: cmp.Or(a.Model, s.Boulder.Model), Results: results,
		Inherited: slices.Sorted(maps.Keys(results)), SubTasks: make([]boulder.PlannedIn, 0, len(plan.SubTasks)),
	}
	for _, t := range plan.SubTasks {
		d.SubTasks = append(d.SubTasks, plannedIn(t, plan, d.Model, s.Boulder.Effort))
	}
	return d
}

func revision(plan *boulder.Plan, number int, now time.Time) boulder.PlanRevision {
	return boulder.PlanRevision{
		Number: number, Plan: plan.Clone(), Hash: plan.Hash(), Origin: plan.Origin(), Edited: plan.Edited(), AdoptedAt: now,
	}
}

// ErrNoFork is in the chain of errors about a [Request].Fork that is impossible.
var ErrNoFork = errors.New("it cannot be forked")

// fork returns the original's plan and the results that are taken over. head gets the original's settings.
func (r *run) fork(head *boulder.Boulder) (*boulder.Plan, map[string]boulder.Inherited, error) {
	f := *r.req.Fork
	from, err := r.o.cfg.Store.Load(r.ctx, f.BoulderID)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("fork: %w", err)
	case from.Boulder.Project != r.o.cfg.Project:
		return nil, nil, fmt.Errorf("%w: boulder %s works on %s, not on %s", ErrNoFork,
			boulder.ShortID(f.BoulderID), from.Boulder.Project, r.o.cfg.Project)
	case from.Revision == nil || len(from.SubTasks) == 0:
		return nil, nil, fmt.Errorf("%w: boulder %s has no plan that was run: run its task again", ErrNoFork, boulder.ShortID(f.BoulderID))
	}
	plan := runnable(from, cmp.Or(r.req.Plan, &from.Revision.Plan), f.SubTasks)
	var ids []string
	for _, s := range plan.SubTasks {
		ids = append(ids, s.ID)
	}
	for _, id := range f.SubTasks {
		if !slices.Contains(ids, id) {
			return nil, nil, fmt.Errorf("%w: the plan of boulder %s has no sub-task %q; it has %s", ErrNoFork,
				boulder.ShortID(f.BoulderID), id, strings.Join(ids, ", "))
		}
	}
	head.Task, head.PlanMode, head.ForkOf = from.Boulder.Task, from.Boulder.PlanMode, &f
	head.DoneWhen, head.Checks, head.Loop = from.Boulder.DoneWhen, from.Boulder.Checks, from.Boulder.Loop
	head.Model, head.Effort = cmp.Or(head.Model, from.Boulder.Model), cmp.Or(head.Effort, from.Boulder.Effort)
	return &plan, from.Inherited(f.SubTasks), nil
}

// runnable returns the plan of the original without gates that were not approved there, because the user is not asked
// again. What is redone after the user has edited it keeps its gates.
func runnable(from *boulder.State, edited *boulder.Plan, redone []string) boulder.Plan {
	plan := edited.Clone()
	sealed := plan.Seal != nil && !plan.Edited()
	for i := range plan.SubTasks {
		s := &plan.SubTasks[i]
		why := boulder.Edited(&from.Revision.Plan, edited, s.ID)
		if slices.Contains(redone, s.ID) && slices.Contains(why, boulder.ReasonEdited) {
			continue
		}
		hint := func(gate string) bool { return slices.Contains(from.SubTask(s.ID).GateHints, gate) }
		s.Gates, s.NoWorse = slices.DeleteFunc(s.Gates, hint), slices.DeleteFunc(s.NoWorse, hint)
		for j := range plan.Request {
			if row := &plan.Request[j]; row.Owner == s.ID && hint(row.ShownBy) {
				row.ShownBy = ""
			}
		}
	}
	if sealed {
		plan.Reseal() // dropping gates is not an edit by the user
	}
	return plan
}
