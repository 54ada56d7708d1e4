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

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// TestSharedCooldown: a model that turned one boulder away is asked by no other before it has cooled down, be it for a turn,
// a verdict or a plan, also when the boulder that met the limit is over. Other models are asked.
func TestSharedCooldown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		began := time.Now()
		var mu sync.Mutex
		asked := map[string]time.Duration{} // after which time: first turn, verdict or plan, by boulder
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
		with := func(id, model, ledger string) (stop context.CancelFunc) {
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
