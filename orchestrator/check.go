package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator/internal/schedule"
	"github.com/bouldermgr/manager/prompts"
)

// startCheck asks whether the whole request is met. A stop, a pause or a cancel aborts the call, and a resume asks again.
func (r *run) startCheck() {
	req, begun := checkRequest(r.state), r.state.Boulder.Attempts
	var check boulder.RequestCheck
	var usage boulder.Usage
	r.launchUntilStop(checkWork, func(ctx context.Context) (err error) {
		check, usage, err = r.o.cfg.Judge.(Checker).Check(ctx, req)
		return err
	}, func(err error) error {
		if applyErr := r.apply(ledgerUsage(boulder.AttemptRef{}, boulder.UsageCheck, req.Model, usage)...); applyErr != nil {
			return applyErr
		}
		switch {
		case !r.state.AllOver() || r.state.Boulder.Attempts != begun: // an order has begun something again
		case !slices.Equal(req.Notes, saidOf(r.state)): // the user has said more: it is asked again
		case err == nil:
			return r.apply(schedule.RequestChecked(r.state, check, r.now))
		case r.cutShort(err):
		case errors.Is(err, boulder.ErrTrouble):
			return r.apply(schedule.PlanTrouble(r.state, r.o.limits, r.now, err)...)
		case r.ledgerOut(err):
		default:
			r.end(fmt.Errorf("%w: %w", ErrWaiting, err))
		}
		return nil
	})
}

// checkRequest returns what the ledger is told about the request and what became of it, from stored records only.
func checkRequest(s *boulder.State) boulder.CheckRequest {
	req := boulder.CheckRequest{
		Model: s.Boulder.Ledger(), Task: s.Boulder.Task, Goal: s.Boulder.Goal, Constraints: s.Revision.Plan.Constraints, Extended: s.Boulder.Extensions > 0,
	}
	for _, row := range s.Revision.Plan.Request {
		if row.Deferred == "" {
			req.Rows = append(req.Rows, row)
		}
	}
	req.Questions = s.Revision.Plan.Facts.Questions
	req.Notes = saidOf(s)
	if review := s.Boulder.Reviewed(); review != nil {
		for _, f := range review.Findings {
			if f.File != "" { // an opinion decides nothing
				req.Review = append(req.Review, f)
			}
		}
	}
	for _, t := range s.SubTasks {
		switch {
		case t.Status == boulder.SubTaskSuperseded:
		case s.Boulder.Tally.Planned > maxDetailed: // one prompt cannot hold them
			req.SubTasks = append(req.SubTasks, boulder.SubTask{ID: t.ID, Subject: text.Short(t.Subject, 100), Status: t.Status})
		default:
			shown := *t
			shown.Description, shown.Failures, shown.Track = "", nil, nil // of no use for this
			shown.Output = text.Excerpt(shown.Output, maxDetail, text.Ends)
			req.SubTasks = append(req.SubTasks, shown)
		}
	}
	return req
}

// Bounds of a check's input.
const (
	maxDetailed = 100    // sub-tasks, if more than their subjects is told
	maxDetail   = 10_000 // characters of an output
)

// saidOf returns what the user said about the plan and any sub-task.
func saidOf(s *boulder.State) []string {
	return append(prompts.PlanAnswers(s.Revision.Plan.Facts.Questions), allNotesAndAnswers(s)...)
}

// allNotesAndAnswers returns what the user said about any sub-task.
func allNotesAndAnswers(s *boulder.State) (all []string) {
	for _, n := range s.Boulder.Notes {
		all = append(all, n.Text)
	}
	for _, t := range s.SubTasks {
		all = append(all, prompts.Answers(t.SettledSince(0))...)
	}
	return all
}
