package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// reviser plans one sub-task, and adds one for each comment. It refuses the comment "no", and notes what it is asked.
func reviser(asked *[]string) plannerFunc {
	return func(_ context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
		plan, used := planOf(spec("first")), boulder.Usage{Calls: 1, Input: 100}
		*asked = append(*asked, req.Comment)
		switch {
		case req.Comment == "no":
			return nil, used, fmt.Errorf("%w: it repeats itself", boulder.ErrNoNewPlan)
		case req.Was != nil:
			plan = new(req.Was.Clone())
			plan.SubTasks = append(plan.SubTasks, spec(req.Comment))
		}
		plan.Seal = &boulder.Seal{Origin: boulder.OriginModel}
		plan.Reseal()
		return plan, used, nil
	}
}

// TestRevise: the user has a plan revised until it fits. Each comment is on disk before it is asked about, each call is paid
// for once, and a comment that leads to nothing leaves the plan as it was. The user's own edits go along.
func TestRevise(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var asked, shown []string
	r.cfg.Planner = reviser(&asked)
	answers := []string{"second", "no", "mine", ""}
	approve := func(_ context.Context, p *boulder.Plan) (orchestrator.Approval, error) {
		shown = append(shown, fmt.Sprint(len(p.SubTasks), p.SubTasks[0].Description))
		comment := answers[0]
		answers = answers[1:]
		switch comment {
		case "":
			return orchestrator.Approval{Plan: p}, nil
		case "mine":
			p.SubTasks[0].Description = "edited"
		}
		return orchestrator.Approval{}, &orchestrator.ReviseError{Comment: comment, Plan: p}
	}
	events, err := r.request(orchestrator.Request{Task: "t", Approve: approve})
	r.completes(events, err)
	if got, want := strings.Join(asked, ","), ",second,no,mine"; got != want {
		t.Errorf("the ledger was asked %q, want %q", got, want)
	}
	if got, want := strings.Join(shown, ", "), "1Do all of first, 2Do all of first, 2Do all of first, 3edited"; got != want {
		t.Errorf("the user was shown %q, want %q", got, want)
	}
	head, subTasks := r.store.load(t)
	if head.Usage.Input < 400 || len(subTasks) != 3 || head.Revised != 3 || head.Comment != "" || head.Revision != 4 {
		t.Errorf("%+v, %d sub-tasks", head, len(subTasks))
	}
	for i, e := range events { // the comment is stored before the ledger can have answered
		if b, ok := e.Body.(boulder.RevisionAsked); ok && (b.Plan != nil) != (b.Comment == "mine") {
			t.Errorf("event %d: %+v", i, b)
		}
	}
}

// TestReviseAfterACrash: wherever a run with a revision is cut off, it goes on there: no comment is lost, and no plan that the
// user did not see is adopted.
func TestReviseAfterACrash(t *testing.T) {
	t.Parallel()
	for crash := range crashes(t) {
		r := newRig(t)
		var asked []string
		r.cfg.Planner = reviser(&asked)
		revised := false
		approve := func(_ context.Context, p *boulder.Plan) (orchestrator.Approval, error) {
			if len(p.SubTasks) == 1 {
				return orchestrator.Approval{}, &orchestrator.ReviseError{Comment: "second"}
			}
			revised = true
			return orchestrator.Approval{Plan: p}, nil
		}
		if !r.survives(crash, orchestrator.Request{Task: "t", Approve: approve}) {
			continue
		}
		if head, subTasks := r.store.load(t); head.Status != boulder.Completed || len(subTasks) != 2 || head.Revised != 1 || !revised {
			t.Errorf("%v: %s, %d sub-tasks, revised %d times, shown %v", crash, head.Status, len(subTasks), head.Revised, revised)
		}
	}
}

// TestReviseByOrder: a page revises a plan that waits, also while a terminal asks; with nobody to ask, what comes of it waits.
func TestReviseByOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var asked []string
	r.cfg.Planner = reviser(&asked)
	o := r.orchestrator()
	approve := func(ctx context.Context, p *boulder.Plan) (orchestrator.Approval, error) {
		if len(p.SubTasks) == 2 {
			return orchestrator.Approval{Plan: p}, nil
		}
		go func() {
			order := boulder.Order{Do: boulder.OrderRevise, Hash: "another", Text: "second"}
			if err := o.Order(t.Context(), "b1", order); !errors.Is(err, boulder.ErrRefused) {
				t.Errorf("of another plan: %v", err)
			}
			order.Hash = p.Hash()
			if err := o.Order(t.Context(), "b1", order); err != nil {
				t.Error(err)
			}
		}()
		<-ctx.Done()
		return orchestrator.Approval{}, context.Cause(ctx)
	}
	r.completes(r.collect(o.Run(t.Context(), orchestrator.Request{Task: "t", Approve: approve})))
	if head, subTasks := r.store.load(t); len(subTasks) != 2 || head.Revised != 1 {
		t.Errorf("%+v", head)
	}

	r = newRig(t)
	r.cfg.Planner = reviser(&asked)
	_, err := r.request(orchestrator.Request{Task: "t", Approve: func(context.Context, *boulder.Plan) (orchestrator.Approval, error) {
		return orchestrator.Approval{}, errSignal
	}})
	if !errors.Is(err, errSignal) {
		t.Fatal(err)
	}
	head, _ := r.store.load(t)
	hash := reviserHash(t, r)
	if err := r.orchestrator().Order(t.Context(), head.ID, boulder.Order{Do: boulder.OrderRevise, Hash: hash, Text: "second"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.resume(); !errors.Is(err, orchestrator.ErrWaiting) {
		t.Errorf("with nobody to ask: %v", err)
	}
	if head, subTasks := r.store.load(t); len(subTasks) != 0 || head.Revision != 2 || !head.Asks() {
		t.Errorf("%+v", head)
	}
}

func reviserHash(t *testing.T, r *rig) string {
	t.Helper()
	s, err := r.store.Load(t.Context(), "b1")
	if err != nil {
		t.Fatal(err)
	}
	snapshot := s.Snapshot()
	return snapshot.Asked()
}

// TestReviseReplan: so is a replan: with the comment and the proposal before; without an answer that one is asked about again.
func TestReviseReplan(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var asked []boulder.ReplanRequest
	made := replaces(&asked)
	r.cfg.Judge = stalling("hard")
	r.cfg.Planner = replanner(func(ctx context.Context, req boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error) {
		n, used, err := made(ctx, req)
		switch req.Comment {
		case "shorter":
			n.SubTasks = n.SubTasks[:1]
		case "no":
			err = boulder.ErrNoNewPlan
		}
		return n, used, err
	})
	comments := []string{"no", "shorter", ""}
	var shown []int
	events, err := r.request(orchestrator.Request{
		Plan: hardPlan(), Settings: boulder.Settings{AskReplans: true},
		ApproveReplan: func(_ context.Context, p orchestrator.ReplanProposal) (bool, error) {
			shown = append(shown, len(p.SubTasks))
			comment := comments[0]
			comments = comments[1:]
			if (p.Was != nil) != (comment == "") {
				t.Errorf("before %q: the proposal before is %+v", comment, p.Was)
			}
			if comment != "" {
				return false, &orchestrator.ReviseError{Comment: comment}
			}
			return true, nil
		},
	})
	r.completes(events, err)
	head, subTasks := r.store.load(t)
	if fmt.Sprint(shown) != "[2 2 1]" || len(asked) != 3 || asked[2].Was == nil || asked[2].Comment != "shorter" || head.Replans != 1 || subTasks["rest"].ID != "" {
		t.Errorf("shown %v, asked %d times, %d replans", shown, len(asked), head.Replans)
	}
}
