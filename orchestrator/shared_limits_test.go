package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// TestSharedCooldown: after a model refused one boulder, no boulder calls it before the cool-down ends, be it for a
// turn, a verdict or a plan, even if the first boulder is over. Other models are called.
func TestSharedCooldown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		began := time.Now()
		var mu sync.Mutex
		asked := map[string]time.Duration{} // time to the first turn, verdict or plan, by boulder
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			if _, again := asked[what]; !again {
				asked[what] = time.Since(began)
			}
		}
		limited := errors.New("429")
		r.server.turn = func(_ context.Context, job boulder.Job) (boulder.Evidence, error) {
			note(job.BoulderID)
			if job.BoulderID == "first" {
				return boulder.Evidence{}, &boulder.TroubleError{
					Kind: boulder.TroubleRateLimit, RetryAfter: time.Hour, Err: limited,
				}
			}
			return boulder.Evidence{FinalMessage: "done"}, nil
		}
		r.cfg.Judge = judgeFunc(func(_ context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
			note("verdict on " + req.SubTask.ID)
			return boulder.Verdict{Completed: true, Summary: "done"}, boulder.Usage{}, nil
		})
		turnedAway := false
		r.cfg.Planner = plannerFunc(func(_ context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
			switch {
			case req.Task != "turned away":
				note("plan")
			case turnedAway:
				note("plan after it was turned away")
			default:
				turnedAway = true
				return nil, boulder.Usage{}, fmt.Errorf("plan: %w", &boulder.TroubleError{
					Kind: boulder.TroubleRateLimit, RetryAfter: time.Hour, Err: limited,
				})
			}
			return planOf(spec("a")), boulder.Usage{}, nil
		})
		ids := make(chan string, 1)
		r.cfg.NewID = func() string { return <-ids }
		o := r.orchestrator()
		var done sync.WaitGroup
		start := func(id string, req orchestrator.Request) (stop context.CancelFunc) {
			ctx, stop := context.WithCancel(t.Context())
			ids <- id
			done.Go(func() {
				for _, err := range o.Run(ctx, req) {
					if err != nil && !errors.Is(err, context.Canceled) {
						t.Errorf("%s: %v", id, err)
					}
				}
			})
			synctest.Wait()
			<-time.After(time.Minute)
			return stop
		}
		with := func(id string, model, ledger boulder.Models) (stop context.CancelFunc) {
			settings := boulder.Settings{Model: model, LedgerModel: ledger}
			if id == "planned" || id == "turned away" {
				return start(id, orchestrator.Request{Task: id, Settings: settings})
			}
			return start(id, orchestrator.Request{Plan: planOf(spec(id)), Settings: settings})
		}
		stop := with("first", "p/hot", "p/judge")
		defer with("same", "p/hot", "p/judge")()
		stop()
		synctest.Wait()
		defer with("late", "p/hot", "p/judge")()
		defer with("judged", "p/cold", "p/hot")()
		defer with("planned", "p/cold", "p/hot")()
		defer with("turned away", "p/cold", "p/plans")()
		defer with("after a plan", "p/plans", "p/judge")()
		done.Wait()
		for what, waits := range map[string]bool{
			"first": false, "same": true, "late": true, "judged": false, "verdict on judged": true, "plan": true,
			"plan after it was turned away": true, "after a plan": true,
		} {
			if at, came := asked[what]; !came || (at >= time.Hour) != waits {
				t.Errorf("%s: asked %v after %s, want after the cool-down: %v (%v)", what, came, at, waits, maps.Clone(asked))
			}
		}
	})
}

// TestLiftedLimit: a retry ends the wait for a limit in all boulders, even if the one that met it is over. The sub-task
// continues in its session, in the same attempt. Later refusals count again.
func TestLiftedLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		began := time.Now()
		var mu sync.Mutex
		asked := map[string][]time.Duration{} // times since the start, by boulder
		r.server.turn = func(_ context.Context, job boulder.Job) (boulder.Evidence, error) {
			id := job.BoulderID
			mu.Lock()
			asked[id] = append(asked[id], time.Since(began).Truncate(time.Minute))
			turnedAway := id == "first" && len(asked[id]) < 3
			mu.Unlock()
			<-time.After(time.Second) // so that the others learn of the lifted limit first
			if job.Attempt.Attempt != 1 {
				t.Errorf("%s: attempt %d", id, job.Attempt.Attempt)
			}
			if turnedAway {
				return boulder.Evidence{}, &boulder.TroubleError{
					Kind: boulder.TroubleRateLimit, RetryAfter: 20 * time.Hour, Err: errors.New("429"),
				}
			}
			return boulder.Evidence{FinalMessage: "done"}, nil
		}
		ids := make(chan string, 1)
		r.cfg.NewID = func() string { return <-ids }
		o := r.orchestrator()
		var done sync.WaitGroup
		start := func(id string) (stop context.CancelFunc) {
			ctx, stop := context.WithCancel(t.Context())
			ids <- id
			done.Go(func() {
				for _, err := range o.Run(ctx, orchestrator.Request{
					Plan: planOf(spec(id)), Settings: boulder.Settings{Model: "p/hot", LedgerModel: "p/judge"},
				}) {
					if err != nil && !errors.Is(err, context.Canceled) {
						t.Errorf("%s: %v", id, err)
					}
				}
			})
			<-time.After(2 * time.Second)
			return stop
		}
		later := func() { <-time.After(time.Hour - time.Since(began)%time.Hour) }
		retry := func(id string) {
			if err := o.Order(t.Context(), id, boulder.Order{Do: boulder.OrderRetry, SubTaskID: id}); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		defer start("first")()
		stop := start("gone") // it takes over the limit, then ends
		stop()
		synctest.Wait()
		defer start("same")()
		later()
		retry("first") // meets the limit again
		later()
		defer start("late")()
		retry("late")
		done.Wait()
		for id, want := range map[string][]time.Duration{
			"first": {0, time.Hour, 2 * time.Hour}, "same": {time.Hour}, "late": {2 * time.Hour}, "gone": nil,
		} {
			if d := cmp.Diff(want, asked[id]); d != "" {
				t.Errorf("%s was asked (-want +got):\n%s", id, d)
			}
		}
	})
}
