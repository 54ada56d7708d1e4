package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// checker agrees with everything, and answers checks of the request in order; the last answer is repeated.
type checker struct {
	judgeFunc
	answers []any // boulder.RequestCheck or error
	asked   []boulder.CheckRequest

	meanwhile func() // is called in each check; nil: nothing is
}

func (c *checker) Check(_ context.Context, req boulder.CheckRequest) (boulder.RequestCheck, boulder.Usage, error) {
	c.asked = append(c.asked, req)
	if c.meanwhile != nil {
		c.meanwhile()
	}
	answer := c.answers[min(len(c.asked), len(c.answers))-1]
	err, _ := answer.(error)
	check, _ := answer.(boulder.RequestCheck)
	return check, boulder.Usage{Calls: 1, Input: 5}, err
}

var (
	met     = boulder.RequestCheck{Rows: []boulder.RequestRow{{Request: "both", Evidence: "files", Met: true}}, Answer: "Both are there."}
	missing = boulder.RequestCheck{
		Rows: []boulder.RequestRow{{Request: "both", Evidence: "one file"}}, Missing: []string{"the mail"}, Answer: "One is there.",
	}
)

func checks(r *rig, answers ...any) *checker {
	c := &checker{judgeFunc: agrees, answers: answers}
	r.cfg.Judge = c
	r.cfg.Planner = replanner(func(_ context.Context, req boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error) {
		if len(req.Replaced) > 0 || !slices.Equal(req.Missing, []string{"the mail"}) || len(req.Done) != 2 {
			return boulder.Replacement{}, boulder.Usage{}, fmt.Errorf("asked for %+v", req)
		}
		return boulder.Replacement{SubTasks: planOf(spec("mail", "b")).SubTasks}, boulder.Usage{Calls: 1}, nil
	})
	return c
}

func last(t *testing.T, events []boulder.Event, err error) boulder.TaskComplete {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return events[len(events)-1].Body.(boulder.TaskComplete)
}

// What is missing is added once: all sub-tasks are kept, and the request is checked again.
func TestExtension(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := checks(r, missing, met)
	events, err := r.run(planOf(spec("a"), spec("b", "a")))
	end := last(t, events, err)
	if !end.AllCompleted || end.Answer != "Both are there." || len(end.Request) != 1 || len(end.Missing) > 0 {
		t.Errorf("%+v", end)
	}
	if len(c.asked) != 2 || c.asked[0].Task != "the task" || len(c.asked[0].SubTasks) != 2 || c.asked[0].Extended ||
		len(c.asked[1].SubTasks) != 3 || !c.asked[1].Extended || c.asked[1].SubTasks[0].Output != "output of a" {
		t.Errorf("asked %+v", c.asked)
	}
	head, _ := r.store.load(t)
	if head.Extensions != 1 || head.Replans != 0 || head.Revision != 2 || head.Usage.Input != 3*10+2*5 {
		t.Errorf("%+v", head)
	}
	if check, err := orchestrator.CheckDecisions(events); err != nil || check.Difference != nil {
		t.Errorf("replayed: %v, %+v", err, check)
	}
}

func TestStillMissing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := checks(r, missing)
	events, err := r.run(planOf(spec("a"), spec("b", "a")))
	end := last(t, events, err)
	if end.Status != boulder.Partial || end.AllCompleted || !slices.Equal(end.Missing, []string{"the mail"}) || len(c.asked) != 2 {
		t.Errorf("after %d checks: %+v", len(c.asked), end)
	}
	says(t, events, "3 of 3 sub-tasks completed.\n\nMissing of the request:\n- the mail\n")
}

// A crash after the check does not pay for it again; after a fault of the model it is asked again.
func TestCheckIsPaidOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := checks(r, fmt.Errorf("%w: gone", boulder.ErrTrouble), missing, met)
	plan := planOf(spec("a"), spec("b", "a"))
	r.store.fault = func(_ int, written bool) error {
		if written && slices.ContainsFunc(r.store.events, func(e boulder.Event) bool { return boulder.TypeOf(e.Body) == "request-checked" }) {
			return errDisk
		}
		return nil
	}
	if _, err := r.run(plan); !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	r.store.fault = nil
	events, err := r.resume()
	if end := last(t, events, err); !end.AllCompleted || len(c.asked) != 3 {
		t.Errorf("after %d checks: %+v", len(c.asked), end)
	}
}

func TestUnchecked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	checks(r, boulder.RequestCheck{Unchecked: "no answer"})
	events, err := r.run(planOf(spec("a"), spec("b", "a")))
	if end := last(t, events, err); !end.AllCompleted || !end.RequestUnchecked || end.Answer != end.Summary {
		t.Errorf("%+v", end)
	}
	says(t, events, "\n  output: output of a")

	r = newRig(t)
	checks(r, &boulder.TroubleError{Kind: boulder.TroubleJudge, Err: errors.New("no answer")})
	if _, err := r.run(planOf(spec("a"), spec("b", "a"))); !errors.Is(err, orchestrator.ErrWaiting) {
		t.Errorf("without a gate: %v", err)
	}
	head, _ := r.store.load(t)
	if head.Status != boulder.Paused {
		t.Errorf("%s", head.Status)
	}
}

// The verdict on the only sub-task answers for the request, and rules need no model.
func TestNoCheck(t *testing.T) {
	t.Parallel()
	ruled := planOf(spec("a"), spec("b", "a"))
	for i := range ruled.SubTasks {
		ruled.SubTasks[i].DoneWhen = boulder.DoneWhen{boulder.DoneTodos}
	}
	for name, plan := range map[string]*boulder.Plan{"one": planOf(spec("a")), "rules": ruled} {
		r := newRig(t)
		c := checks(r, missing)
		whole := ""
		c.judgeFunc = func(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
			v, u, err := agrees(ctx, req)
			whole, v.Answer = req.Whole, "It is there."
			return v, u, err
		}
		events, err := r.run(plan)
		end := last(t, events, err)
		if !end.AllCompleted || len(c.asked) > 0 || (name == "one") != (whole == "the task" && end.Answer == "It is there.") {
			t.Errorf("%s: %d checks, the judge has %q, %+v", name, len(c.asked), whole, end)
		}
	}
}

// TestSaidDuringTheCheck: what the user says while the request is checked counts: it is checked again with that.
func TestSaidDuringTheCheck(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]boulder.Order{
		"a note":                   {Do: boulder.OrderNote, Text: "Only the mail counts."},
		"an answer to the planner": settleOrder("", "B1", "there"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			c := checks(r, met)
			o := r.orchestrator()
			c.meanwhile = func() {
				if len(c.asked) == 1 {
					if err := o.Order(t.Context(), "b1", say); err != nil {
						t.Error(err)
					}
				}
			}
			_, err := r.collect(o.Run(t.Context(), orchestrator.Request{Plan: undecided()}))
			if err != nil || len(c.asked) != 2 || slices.Equal(c.asked[0].Notes, c.asked[1].Notes) {
				t.Errorf("%v: asked %d times, with %q", err, len(c.asked), c.asked[len(c.asked)-1].Notes)
			}
		})
	}
}
