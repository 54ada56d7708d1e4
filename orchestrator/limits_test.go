package orchestrator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

func thousand(context.Context, boulder.Job) (boulder.Evidence, error) {
	return boulder.Evidence{
		FinalMessage: "done", Usage: boulder.Usage{Input: 900, Output: 100, Calls: 2, Cost: 0.5}, Duration: time.Minute,
	}, nil
}

// Reported usage of a running turn counts at once. The budget interrupts the turn, and a larger one continues it.
func TestBudgetEndsRunningTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Runner = runnerFunc(func(
		ctx context.Context, job boulder.Job, report func(boulder.Body) error,
	) (boulder.Evidence, error) {
		progress := func(tokens int64) error {
			return report(boulder.SubTaskProgress{
				AttemptRef: job.Attempt.AttemptRef, Activity: "working", Usage: boulder.Usage{Input: tokens, Calls: 1},
			})
		}
		if job.Recovered {
			return boulder.Evidence{FinalMessage: "done", Usage: boulder.Usage{Input: 700, Calls: 2}}, nil
		}
		for _, err := range []error{
			report(boulder.SubTaskStart{AttemptRef: job.Attempt.AttemptRef, SessionID: "s"}),
			report(boulder.TurnSent{AttemptRef: job.Attempt.AttemptRef, Turn: 1, MessageID: "m"}),
			progress(100), progress(600),
		} {
			if err != nil {
				return boulder.Evidence{}, err
			}
		}
		<-ctx.Done()
		return boulder.Evidence{}, context.Cause(ctx)
	})
	plan := planOf(spec("a"))
	_, err := r.request(orchestrator.Request{
		Plan: plan, Settings: boulder.Settings{Budget: &boulder.Budget{Tokens: 500}},
	})
	if !errors.Is(err, orchestrator.ErrWaiting) {
		t.Fatalf("the run ended with %v", err)
	}
	if _, err := r.resume(); !errors.Is(err, orchestrator.ErrWaiting) {
		t.Fatalf("a resume forgot what the turn had used: %v", err)
	}
	r.completes(r.request(orchestrator.Request{Resume: "b1",
		Settings: boulder.Settings{Budget: &boulder.Budget{Tokens: 5000}},
	}))
	head, subTasks := r.store.load(t)
	if subTasks["a"].Tries != 1 || head.Usage.Input != 710 {
		t.Errorf("%d tries, %d tokens", subTasks["a"].Tries, head.Usage.Input)
	}
}

// TestSubTaskBudgetsOfTheRequest: they override those of the plan. A budget for an unknown sub-task ends the run.
func TestSubTaskBudgetsOfTheRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.turn = thousand
	plan := planOf(spec("a"), spec("b"))
	plan.SubTasks[0].Budget = &boulder.Budget{Tokens: 1}
	events, err := r.request(orchestrator.Request{
		Plan: plan, SubTaskBudgets: map[string]boulder.Budget{"a": {Tokens: 5000}},
	})
	r.completes(events, err)
	r = newRig(t)
	_, err = r.request(orchestrator.Request{
		Plan: plan, SubTaskBudgets: map[string]boulder.Budget{"x": {Tokens: 5000}},
	})
	if err == nil || !strings.Contains(err.Error(), `no sub-task "x"`) {
		t.Errorf("got %v", err)
	}
}
