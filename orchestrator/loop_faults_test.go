package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// TestFaultsOfALoop: a loop has no limit of attempts. Occasional faults, such as git on a busy disk, neither add up nor
// end its session. Consecutive ones make it wait for the user.
func TestFaultsOfALoop(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		faulty func(call int) bool
		want   boulder.SubTaskStatus
	}{
		"now and then": {func(call int) bool { return call%5 == 0 }, boulder.SubTaskCompleted},
		"from then on": {func(call int) bool { return call >= 5 }, boulder.SubTaskBlocked},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				calls := 0
				r.server.turn = func(context.Context, boulder.Job) (boulder.Evidence, error) {
					if calls++; tc.faulty(calls) {
						return boulder.Evidence{}, errors.New("look at the project after the turn: git: index.lock exists")
					}
					return boulder.Evidence{ToolCount: 1, Diff: boulder.Diff{Hash: fmt.Sprint(calls)}}, nil
				}
				r.cfg.Judge = judgeFunc(func(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
					if req.Turn.Number < 20 {
						return boulder.Verdict{Summary: "not yet", IsProgress: true}, boulder.Usage{}, nil
					}
					return agrees(ctx, req)
				})
				_, _ = r.request(orchestrator.Request{
					Plan: planOf(spec("1")), Settings: boulder.Settings{Loop: &boulder.Loop{Iterations: 100, Failures: 5}},
				})
				_, subTasks := r.store.load(t)
				if got := subTasks["1"]; got.Status != tc.want || got.Attempts != 1 {
					t.Errorf("%s after %d sessions: %s", got.Status, got.Attempts, got.Reason)
				}
			})
		})
	}
}

// TestPauseOfALoopOutlivesTheProcess: a resume keeps the pause after turns without progress.
func TestPauseOfALoopOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.server.turn = func(_ context.Context, job boulder.Job) (boulder.Evidence, error) {
			return boulder.Evidence{FinalMessage: fmt.Sprint("thought ", job.Turn.Number)}, nil
		}
		r.cfg.Judge = judgeFunc(func(context.Context, boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
			return boulder.Verdict{Summary: "not yet"}, boulder.Usage{}, nil
		})
		ctx, stop := context.WithCancel(t.Context())
		var until time.Time
		for e, err := range r.orchestrator().Run(ctx, orchestrator.Request{
			Plan: planOf(spec("1")), Settings: boulder.Settings{Loop: &boulder.Loop{Iterations: 100, Failures: 5, Cooldown: time.Minute}},
		}) {
			if c, ok := e.Body.(boulder.Continuation); err == nil && ok && !c.NotBefore.IsZero() {
				until = c.NotBefore
				stop()
			}
		}
		stop()
		if until.IsZero() {
			t.Fatal("there was no pause")
		}
		var next time.Time
		for e, err := range r.orchestrator().Run(t.Context(), orchestrator.Request{Resume: "b1"}) {
			if _, ok := e.Body.(boulder.TurnSent); err == nil && ok && next.IsZero() {
				next = e.Time
			}
		}
		if next.Before(until) {
			t.Errorf("the prompt after the restart came %s before the end of the pause", until.Sub(next))
		}
	})
}
