package simulate

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// Judge implements orchestrator.Judge.
func (p *process) Judge(ctx context.Context, req boulder.JudgeRequest) (v boulder.Verdict, u boulder.Usage, err error) {
	at := placeOf(req.SubTask, req.Turn)
	d := throw(p.w.sc.seed, "judge delays", at)
	p.w.mu.Lock()
	lane := p.w.lane(req.Attempt.AttemptRef, 1)
	if !p.dead {
		p.w.checkJudge(req)
	}
	p.w.mu.Unlock()
	if err := p.delay(ctx, lane, d.span(time.Second, time.Minute), time.Millisecond); err != nil {
		return v, u, err
	}
	err = p.alive(func() error {
		u = boulder.Usage{Input: int64(d.from(100, 900)), Output: 50, Calls: 1, Cost: 0.125}
		if err := p.w.out(req.Model); err != nil {
			return err
		}
		if f := p.w.next("judge", at, p.w.sc.judgeFaults(at)); f != nil {
			p.w.faultMet("judge", at)
			return f.err
		}
		v, err = p.w.sc.verdict(req)
		return err
	})
	return v, u, err
}

// out returns how a ledger's model refuses now, or nil. The caller holds mu.
func (w *world) out(model string) error {
	if model != w.disk.Boulder.Ledger() && !slices.Contains(w.disk.Boulder.LedgerModel.All(), model) {
		w.violate("intent before effect", "a ledger asks %s, and is to ask %s", model, w.disk.Boulder.Ledger())
	}
	err := w.sc.refusal(model, time.Since(w.epoch))
	if err != nil {
		w.seen["a ledger was out"]++
	}
	return err
}

// Check implements orchestrator.Checker.
func (p *process) Check(ctx context.Context, req boulder.CheckRequest) (c boulder.RequestCheck, u boulder.Usage, err error) {
	at := checkOf(req)
	d := throw(p.w.sc.seed, "check delays", at)
	if err := p.alive(func() error { p.w.checkAsked(); return nil }); err != nil {
		return c, u, err
	}
	if err := p.delay(ctx, laneCheck, d.span(time.Second, time.Minute), time.Millisecond); err != nil {
		return c, u, err
	}
	err = p.alive(func() error {
		u = boulder.Usage{Input: int64(d.from(100, 900)), Output: 50, Calls: 1, Cost: 0.125}
		if err := p.w.out(req.Model); err != nil {
			return err
		}
		if f := p.w.next("check", at, p.w.sc.judgeFaults(at)); f != nil {
			p.w.faultMet("check", at)
			return f.err
		}
		c = p.w.sc.requestCheck(req)
		return nil
	})
	return c, u, err
}

// delay naps for d, or if ctx ends first, for a further time: each caller must return at its own moment.
func (p *process) delay(ctx context.Context, lane int, d, stops time.Duration) error {
	err := p.w.nap(ctx, lane, d)
	if err != nil {
		_ = p.w.nap(p.gone, lane, stops)
	}
	return err
}

// Plan implements orchestrator.Planner.
func (p *process) Plan(ctx context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
	d := throw(p.w.sc.seed, "plan", p.number)
	u := boulder.Usage{Input: 500, Output: 100, Calls: 1, Cost: 0.25}
	if err := p.delay(ctx, lanePlanner, d.span(time.Second, 5*time.Minute), time.Second); err != nil {
		return nil, boulder.Usage{}, err
	}
	plan := p.w.sc.plan.Clone()
	plan.Task, plan.Constraints = req.Task, req.Constraints
	if req.Known != nil {
		plan.Facts.Questions = req.Known.Facts.Questions
	}
	err := p.alive(func() error {
		if err := p.w.out(req.Model); err != nil {
			return err
		}
		if known := p.w.disk.Boulder.Prepared; known != nil && !reflect.DeepEqual(known.Known.Facts.Questions, plan.Facts.Questions) {
			p.w.violate("each answer reaches the planner", "it plans with %+v after %+v", plan.Facts.Questions, known.Known.Facts.Questions)
		}
		if !p.w.sc.calm && p.number < maxDisturbed && d.is(p.w.sc.trouble) {
			return pick(d, boulder.ErrTrouble, boulder.ErrFatal)
		}
		if b := p.w.disk.Boulder; b.Comment != req.Comment || req.Was != nil && req.Was.Hash() != p.w.disk.Revision.Hash {
			p.w.violate("intent before effect", "a plan is revised as %q says, and the disk has %q", req.Comment, b.Comment)
		}
		if req.Was != nil && d.is(0.3) {
			return boulder.ErrNoNewPlan
		}
		return nil
	})
	if err != nil {
		return nil, u, err
	}
	if req.Was != nil {
		plan = req.Was.Clone()
		plan.Goal = "revised: " + req.Comment
	}
	plan.Seal = &boulder.Seal{Origin: boulder.OriginModel, Model: ledger}
	plan.Reseal()
	return &plan, u, nil
}

// Prepare implements orchestrator.Preparer.
func (p *process) Prepare(ctx context.Context, req boulder.PlanRequest) (made boulder.Prepared, u boulder.Usage, err error) {
	d := throw(p.w.sc.seed, "prepare", p.number)
	if err := p.delay(ctx, lanePlanner, d.span(time.Second, time.Minute), time.Second); err != nil {
		return made, u, err
	}
	err = p.alive(func() error {
		if known := p.w.disk.Boulder.Prepared; known != nil {
			p.w.violate("nothing is asked twice", "the planner prepares again after %+v", known)
		}
		if p.w.disk.Boulder.Look != nil {
			p.w.violate("no look is paid twice", "the planner prepares again after %+v", p.w.disk.Boulder.Look)
		}
		if err := p.w.out(req.Model); err != nil {
			return err
		}
		made, u = p.w.sc.prepared(req), boulder.Usage{Input: 300, Output: 60, Calls: 1, Cost: 0.125}
		return nil
	})
	return made, u, err
}

var errLater = errors.New("not now")

// ask plays the user who is asked what the planner asks, and leaves some of it open.
func (p *process) ask(ctx context.Context, questions []boulder.Question) (answers []string, err error) {
	d := throw(p.w.sc.seed, "questions of the planner", p.number)
	if err := p.delay(ctx, laneApproval, d.span(time.Second, time.Hour), time.Second); err != nil {
		return nil, err
	}
	err = p.alive(func() error {
		if b := &p.w.disk.Boulder; !b.Asking() || !reflect.DeepEqual(b.Prepared.Known.Facts.Questions, questions) {
			p.w.violate("intent before effect", "the user is asked %+v, and the disk has %+v", questions, b.Prepared)
		}
		p.w.seen["the user was asked before the split"]++
		if d.is(0.2) && p.number < 3 {
			return errLater
		}
		return nil
	})
	for range questions[:d.from(0, len(questions))] {
		answers = append(answers, pick(d, "", "mine"))
	}
	return answers, err
}

// approve plays the user who is asked about the plan.
func (p *process) approve(ctx context.Context, plan *boulder.Plan) (orchestrator.Approval, error) {
	d := throw(p.w.sc.seed, "approval", p.number)
	if err := p.delay(ctx, laneApproval, d.span(time.Second, time.Hour), time.Second); err != nil {
		return orchestrator.Approval{}, err
	}
	revises := false
	if err := p.alive(func() error { revises = d.is(0.3) && p.w.revises(); return nil }); err != nil {
		return orchestrator.Approval{}, err
	}
	if revises {
		wish := &orchestrator.ReviseError{Comment: "in a run"}
		if wish.Plan = plan; d.is(0.5) {
			plan.Goal = "edited, too"
		}
		return orchestrator.Approval{}, wish
	}
	switch p.w.sc.approval {
	case "no":
		return orchestrator.Approval{}, orchestrator.ErrDeclined
	case "later":
		if p.number < 3 {
			return orchestrator.Approval{}, errLater
		}
	case "edit":
		plan.Goal = "another goal"
	}
	return orchestrator.Approval{Plan: plan, Gates: true}, nil
}

// approveReplan plays the user who is asked about a replan.
func (p *process) approveReplan(ctx context.Context, r orchestrator.ReplanProposal) (bool, error) {
	d := throw(p.w.sc.seed, "replan approval", r.Number, p.number)
	if err := p.delay(ctx, laneReplan, d.span(time.Second, 2*time.Hour), time.Second); err != nil {
		return false, err
	}
	revises := false
	if err := p.alive(func() error { revises = d.is(0.3) && p.w.revises(); return nil }); err != nil {
		return false, err
	}
	switch {
	case revises:
		return false, &orchestrator.ReviseError{Comment: "in a run"}
	case d.is(0.2):
		return false, orchestrator.ErrDeclined
	case d.is(0.2) && p.number < maxDisturbed:
		return false, errLater
	}
	return d.is(0.5), nil
}

// Replan implements orchestrator.Planner. Its plan may be late, missing, or no longer fit.
func (p *process) Replan(ctx context.Context, req boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error) {
	at := place{subTask: req.Failed.ID, tries: req.Failed.Tries, turn: len(req.Earlier)}
	d := throw(p.w.sc.seed, "replan", at)
	u := boulder.Usage{Input: 700, Output: 200, Calls: 1, Cost: 0.5}
	if err := p.alive(func() error { p.w.checkReplan(req); return nil }); err != nil {
		return boulder.Replacement{}, boulder.Usage{}, err
	}
	if err := p.delay(ctx, laneReplan, d.span(time.Second, 5*time.Hour), time.Second); err != nil {
		return boulder.Replacement{}, boulder.Usage{}, err
	}
	var r boulder.Replacement
	err := p.alive(func() error {
		if err := p.w.out(req.Model); err != nil {
			return err
		}
		faults := p.w.sc.judgeFaults(at)
		if p.w.sc.class.same() && len(faults) >= p.w.sc.limits.Troubles {
			faults = faults[:p.w.sc.limits.Troubles-1] // else giving up would depend on crashes, which reset the count
		}
		if f := p.w.next("replan", at, faults); f != nil {
			p.w.faultMet("replan", at)
			return f.err
		}
		if p.w.sc.looksFirst(req) {
			r.Questions = []string{"why not?"}
			return nil
		}
		switch x := d.Float64(); {
		case x < 0.15:
			return fmt.Errorf("it is the same again: %w", boulder.ErrNoNewPlan)
		case x < 0.2:
			return errors.New("the planner failed for good")
		}
		r = p.w.replacement(d, req)
		return nil
	})
	return r, u, err
}

// replacement draws new sub-tasks. In parallel worlds, some depend on others that may end first. The caller holds mu.
func (w *world) replacement(d dice, req boulder.ReplanRequest) boulder.Replacement {
	r := boulder.Replacement{Replaces: map[string]string{}, Model: ledger}
	number := w.disk.Boulder.Replans + w.disk.Boulder.Extensions
	for i := range d.from(1, 3) {
		s := drawSpec(d, fmt.Sprintf("r%dx%d", number, i+1), w.sc.class)
		s.Model = w.sc.listed(throw(w.sc.seed, "listed", s.ID), s.Model)
		for j := range i {
			if d.is(0.4) {
				s.DependsOn = append(s.DependsOn, fmt.Sprintf("r%dx%d", number, j+1))
			}
		}
		if n := len(req.Failed.DependsOn); n > 0 && d.is(0.4) && w.settled(req.Failed.DependsOn[0]) {
			s.DependsOn = append(s.DependsOn, req.Failed.DependsOn[0])
		}
		if n := len(req.Kept); w.sc.class == anything && n > 0 && d.is(0.4) {
			s.DependsOn = append(s.DependsOn, req.Kept[d.IntN(n)].ID)
		}
		if w.sc.class == anything && d.is(0.05) {
			s.DependsOn = append(s.DependsOn, pick(d, req.Failed.ID, "nowhere"))
		}
		if n := len(req.Replaced); n > 0 && d.is(0.5) {
			r.Replaces[s.ID] = req.Replaced[d.IntN(n)].ID
		}
		w.lanes[s.ID] = 100 + number*10 + i
		r.SubTasks = append(r.SubTasks, s)
	}
	return r
}

func (w *world) settled(id string) bool {
	t := w.disk.SubTask(id)
	return t != nil && (t.Status == boulder.SubTaskCompleted || t.Status == boulder.SubTaskSkipped)
}
