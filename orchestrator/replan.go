package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator/internal/schedule"
	"github.com/bouldermgr/manager/prompts"
)

// startReplan asks the Task Ledger for the replan that was begun, or the user to approve its proposal. The proposal is
// stored in between, so that an order can answer it too.
func (r *run) startReplan() {
	req, number, gates := r.replanRequest(), r.state.Boulder.ReplanNumber(), r.req.ReplanGates
	replan, proposal := r.state.Boulder.Replan, Proposal(r.state.Snapshot())
	var usage boulder.Usage
	work := func(ctx context.Context) (err error) {
		proposal.Replacement, usage, err = r.o.cfg.Planner.Replan(ctx, req)
		if err == nil && req.Look == boulder.LookNever && len(proposal.Questions) > 0 {
			err = errors.New("the planner wants a look where none is possible")
		}
		return err
	}
	asks := replan.Proposed != nil
	switch {
	case asks && r.req.ApproveReplan == nil:
		r.end(fmt.Errorf("%w: a new plan has to be approved (--approve-replans), and there is no terminal to ask on: approve it in"+
			" `manager ui`, or with `manager resume` on a terminal", ErrWaiting))
		return
	case asks:
		work = func(ctx context.Context) (err error) {
			gates, err = r.req.ApproveReplan(ctx, proposal)
			return err
		}
	}
	r.launchUntilStop(replanWork, work, func(err error) error {
		if applyErr := r.apply(ledgerUsage(replan.AttemptRef, boulder.UsageReplan, req.Model, usage)...); applyErr != nil {
			return applyErr
		}
		wish, revise := errors.AsType[*ReviseError](err)
		questions := proposal.Questions
		switch {
		case r.state.Boulder.Replan == nil || r.state.Boulder.ReplanNumber() != number || asks && replan.Proposed == nil: // an order has answered
			return nil
		case revise && asks:
			return r.apply(boulder.RevisionAsked{Comment: wish.Comment})
		case replan.Was != nil && !asks && errors.Is(err, boulder.ErrNoNewPlan):
			return r.apply(boulder.RevisionRefused{Reason: "the new plan stays as it was: " + err.Error()})
		case err == nil && len(questions) > 0 && r.lookBefore() == boulder.LookNever: // others are at work by now: it is asked again
			return nil
		case err == nil && len(questions) > 0:
			b := &r.state.Boulder
			return r.apply(boulder.LookStarted{
				For: boulder.LookReplan, Questions: questions, Tag: fmt.Sprintf("manager:%s/replan#%d", b.ID, number), Model: lookModel(r.state, r.now),
			})
		case err == nil && (r.state.Boulder.AskReplans || replan.Was != nil) && !asks:
			return r.apply(boulder.ReplanProposed{AttemptRef: replan.AttemptRef, Replacement: proposal.Replacement})
		case err == nil:
			return r.adoptReplan(proposal.Replacement, gates)
		case r.cutShort(err):
			return nil
		case errors.Is(err, ErrDeclined):
			return r.apply(schedule.RefuseReplan(r.state, declined)...)
		case !asks && r.ledgerOut(err):
			return nil
		case errors.Is(err, boulder.ErrFatal), asks:
			r.end(err)
			return nil
		case errors.Is(err, boulder.ErrTrouble):
			return r.apply(schedule.PlanTrouble(r.state, r.o.limits, r.now, err)...)
		}
		return r.apply(schedule.RefuseReplan(r.state, err.Error())...)
	})
}

// Proposal returns the replan in progress, as shown to the user.
func Proposal(s boulder.Snapshot) ReplanProposal {
	replan := s.Boulder.Replan
	p := ReplanProposal{Number: s.Boulder.ReplanNumber(), Reason: replan.Reason, Missing: replan.Missing, Was: replan.Was}
	if replan.Proposed != nil {
		p.Replacement = *replan.Proposed
	}
	for _, t := range s.SubTasks {
		if slices.Contains(replan.Replaces, t.ID) {
			p.Replaced = append(p.Replaced, *t)
		}
	}
	return p
}

func (r *run) replanRequest() boulder.ReplanRequest {
	b, plan := r.state.Boulder, r.state.Revision.Plan
	req := boulder.ReplanRequest{
		Model: b.Ledger(), Task: b.Task, Goal: b.Goal, Constraints: plan.Constraints, Facts: r.state.ReplanFacts(), NewFacts: b.NewFacts,
		Project: b.Project, Look: r.lookBefore(), Reason: b.Replan.Reason, Missing: b.Replan.Missing, Was: b.Replan.Was, Comment: b.Replan.Comment,
		Describe: b.Describe,
	}
	var notes []string
	if b.Replan.Extension() {
		notes = allNotesAndAnswers(r.state)
	} else {
		failed := r.state.SubTask(b.Replan.SubTaskID)
		req.Failed, notes = *failed, notesAndAnswers(r.state, failed)
	}
	for _, note := range notes {
		req.NewFacts = append(slices.Clip(req.NewFacts), "The person whose task this is noted: "+note)
	}
	if o := r.state.Open(b.Replan.SubTaskID); o != nil && o.Turn != nil && o.Turn.Verdict != nil {
		req.Failed.Failures = append(slices.Clone(req.Failed.Failures), prompts.Digest(*o.Turn))
	}
	var specs []boulder.Spec
	for _, id := range b.Replan.Replaces {
		t := r.state.SubTask(id)
		req.Replaced = append(req.Replaced, *t)
		specs = append(specs, t.Spec())
	}
	req.Earlier = append(slices.Clone(b.TriedParts), boulder.SpecsHash(specs))
	for _, t := range r.state.Completed(maxListed) {
		req.Done = append(req.Done, *t)
	}
	for _, t := range r.state.SubTasks {
		req.Taken = append(req.Taken, t.ID)
		if t.Unfinished() && len(req.Kept) < maxListed && !slices.Contains(b.Replan.Replaces, t.ID) {
			req.Kept = append(req.Kept, *t)
		}
	}
	return req
}

// adoptReplan makes a new plan the current one. If the state refuses it, because what it builds on has failed meanwhile
// or the planner broke its contract, the replan is asked for again, a few times; that costs the sub-task, not the run.
func (r *run) adoptReplan(plan boulder.Replacement, gates bool) error {
	err := r.apply(replanned(r.state, plan, gates, r.now))
	if errors.Is(err, boulder.ErrRefused) {
		if n := r.state.Boulder.Replan.Troubles + 1; n >= r.o.limits.Troubles {
			why := fmt.Sprintf("the Task Ledger failed %s in a row: %v", text.Plural(n, "time"), err)
			return r.apply(schedule.RefuseReplan(r.state, why)...)
		}
		return r.apply(boulder.PlanTrouble{Reason: err.Error(), NotBefore: r.now})
	}
	if err != nil {
		return err
	}
	if err := startable(r.state, r.o.limits); err != nil {
		r.end(err)
	}
	return nil
}

// replanned returns the event of a new plan: the kept sub-tasks, followed by the new ones.
func replanned(s *boulder.State, n boulder.Replacement, gates bool, now time.Time) boulder.Body {
	b, old := s.Boulder, s.Revision
	plan := old.Plan
	plan.Facts = s.ReplanFacts()
	replaced := func(id string) bool { return slices.Contains(b.Replan.Replaces, id) }
	kept := slices.DeleteFunc(slices.Clone(plan.SubTasks), func(s boulder.Spec) bool { return replaced(s.ID) })
	plan.SubTasks, plan.Request = slices.Concat(kept, n.SubTasks), reowned(plan.Request, n, replaced)
	plan.Seal = &boulder.Seal{Base: b.Base, Origin: boulder.OriginReplan, Model: cmp.Or(n.Model, b.Ledger()), CreatedAt: now}
	plan.Reseal()
	rev := boulder.PlanRevision{
		Number: old.Number + 1, Plan: plan, Hash: plan.Seal.Hash, Origin: boulder.OriginReplan, AdoptedAt: now,
	}
	e := boulder.Replanned{
		AttemptRef: b.Replan.AttemptRef, Number: b.ReplanNumber(), Reason: b.Replan.Reason, Revision: rev.Number, Plan: rev,
		Missing: b.Replan.Missing, SubTasks: n.SubTasks, GatesApproved: gates,
		Added: []boulder.PlannedIn{}, Changed: []boulder.Change{}, Removed: []string{},
	}
	changed := map[string]bool{}
	for _, spec := range n.SubTasks {
		for _, gate := range slices.Concat(spec.Gates, spec.NoWorse) {
			if !gates && !s.Approved(gate) && !slices.Contains(e.GatesNotRun, gate) {
				e.GatesNotRun = append(e.GatesNotRun, gate)
			}
		}
	}
	for _, s := range n.SubTasks {
		in := plannedIn(s, &plan, b.Model, b.Effort)
		if from := n.Replaces[s.ID]; replaced(from) && !changed[from] {
			changed[from] = true
			e.Changed = append(e.Changed, boulder.Change{From: from, To: in})
		} else {
			e.Added = append(e.Added, in)
		}
	}
	for _, id := range b.Replan.Replaces {
		if !changed[id] {
			e.Removed = append(e.Removed, id)
		}
	}
	return e
}

// reowned returns the rows of a request with owners that exist: what a replaced sub-task did is done by the new one that has
// the criterion or gate that shows it, else by the last that replaces it, else by the last of all.
func reowned(rows []boulder.Obligation, n boulder.Replacement, replaced func(id string) bool) []boulder.Obligation {
	rows = slices.Clone(rows)
	for i := range rows {
		row := &rows[i]
		if !replaced(row.Owner) {
			continue
		}
		heir, best := n.SubTasks[len(n.SubTasks)-1], 0
		for _, s := range n.SubTasks {
			fits := 0
			if n.Replaces[s.ID] == row.Owner {
				fits = 1
			}
			if row.ShownBy != "" && s.Shows(row.ShownBy) {
				fits += 2
			}
			if fits > 0 && fits >= best {
				heir, best = s, fits
			}
		}
		row.Owner = heir.ID
		if !heir.Shows(row.ShownBy) {
			row.ShownBy = ""
		}
	}
	return rows
}

func plannedIn(s boulder.Spec, p *boulder.Plan, model boulder.Models, effort string) boulder.PlannedIn {
	return boulder.PlannedIn{
		ID: s.ID, Subject: s.Subject, DependsOn: append([]string{}, s.DependsOn...), Model: s.ModelsIn(p, model, effort),
	}
}
