// Package worker does the work of boulders that run on Temporal: its activities are the parts of package project.
package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	sdk "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/temporal/fault"
	"github.com/bouldermgr/manager/temporal/flow"
	"github.com/bouldermgr/manager/temporal/guard"
	"github.com/bouldermgr/manager/temporal/limiter"
)

// Parts do the work. A Runner that is an [orchestrator.Verifier], [orchestrator.Integrator], [orchestrator.Trier] or
// [orchestrator.SessionStopper] is used as that, and all workers of a queue have to be alike in it.
type Parts struct {
	Planner      orchestrator.Planner
	Judge        orchestrator.Judge
	Runner       orchestrator.Runner
	RaiseBlocker func(ctx context.Context, b boulder.Blocker, turn int) (boulder.Blocker, error)

	Project string // directory in which the planner looks at files
	// Host is a name of the machine and directory, if sessions that were started there cannot continue elsewhere.
	Host string
	// Settle stores the user's answer to a blocker of the machine. Nil: it is there.
	Settle func(ctx context.Context, b boulder.RaisedBlocker) error
	// Check is asked when work has failed. Its error says that this machine cannot work: then others get what it had.
	// Nil: it can.
	Check func(context.Context) error
	// Publish makes the commit of an integration known to all workers, before the boulder's log names it. Nil: it is.
	Publish func(ctx context.Context, boulderID, commit string) error
}

// Reconnect has a client find a server within 3 s that was away: the SDK's own waits grow to 10 s.
var Reconnect = grpc.WithConnectParams(grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
	MinConnectTimeout: 5 * time.Second,
})

// Worker takes work when it is started.
type Worker []sdk.Worker

// Start returns when it works.
func (w Worker) Start() error {
	for i, one := range w {
		if err := one.Start(); err != nil {
			w[:i].Stop()
			return err
		}
	}
	return nil
}

// Stop ends what is at work: the boulder gives it to another worker.
func (w Worker) Stop() {
	var stopping sync.WaitGroup
	for _, one := range w {
		stopping.Go(one.Stop)
	}
	stopping.Wait()
}

// New makes a worker of a queue, which does at most slots pieces of work at the same time, besides as many that
// continue sessions of its host. It takes part in the work of [limiter.Queue] as well.
func New(c client.Client, queue string, slots int, p Parts) Worker {
	limits := sdk.New(c, limiter.Queue, sdk.Options{DisableRegistrationAliasing: true})
	limiter.Register(limits)
	options := sdk.Options{
		MaxConcurrentActivityExecutionSize: slots, WorkerStopTimeout: stopTime, DisableRegistrationAliasing: true,
	}
	anywhere := sdk.New(c, queue, options)
	anywhere.RegisterWorkflowWithOptions(flow.Boulder, workflow.RegisterOptions{Name: flow.Workflow})
	registerAll(anywhere, c, p)
	if p.Host == "" {
		return Worker{limits, anywhere}
	}
	options.DisableWorkflowWorker = true
	here := sdk.New(c, flow.HostQueue(queue, p.Host), options)
	registerAll(here, c, p)
	return Worker{limits, anywhere, here}
}

func registerAll(w sdk.Worker, c client.Client, p Parts) {
	none := struct{}{}
	register(w, c, p.Check, flow.ActivityPlan, func(ctx context.Context, req boulder.PlanRequest, _ *teller) (*boulder.Plan, boulder.Usage, error) {
		req.Project = p.Project
		return p.Planner.Plan(ctx, req)
	})
	register(w, c, p.Check, flow.ActivityReplan, func(ctx context.Context, req boulder.ReplanRequest, _ *teller) (boulder.Replacement, boulder.Usage, error) {
		req.Project = p.Project
		return p.Planner.Replan(ctx, req)
	})
	register(w, c, p.Check, flow.ActivityJudge, func(ctx context.Context, req boulder.JudgeRequest, _ *teller) (boulder.Verdict, boulder.Usage, error) {
		return p.Judge.Judge(ctx, req)
	})
	register(w, c, p.Check, flow.ActivityRun, func(ctx context.Context, job boulder.Job, t *teller) (boulder.Evidence, boulder.Usage, error) {
		job.Alone, t.host = t.alone, p.Host
		for _, b := range job.SubTask.Blockers {
			if p.Settle != nil && b.Status.Settled() {
				if err := p.Settle(ctx, b); err != nil {
					return boulder.Evidence{}, boulder.Usage{}, fmt.Errorf("%w: %w", boulder.ErrTrouble, err)
				}
			}
		}
		e, err := p.Runner.Run(ctx, job, t.tell)
		return fit(e), boulder.Usage{}, err
	})
	register(w, c, p.Check, flow.ActivityRaise, func(ctx context.Context, r flow.Raise, _ *teller) (boulder.Blocker, boulder.Usage, error) {
		b, err := p.RaiseBlocker(ctx, r.Blocker, r.Turn)
		return b, boulder.Usage{}, err
	})
	if v, can := p.Runner.(orchestrator.Verifier); can {
		register(w, c, p.Check, flow.ActivityVerify, func(ctx context.Context, what boulder.Verification, t *teller) (struct{}, boulder.Usage, error) {
			return none, boulder.Usage{}, v.Verify(ctx, what, t.tell)
		})
	}
	if i, can := p.Runner.(orchestrator.Integrator); can {
		register(w, c, p.Check, flow.ActivityIntegrate, func(ctx context.Context, what boulder.Integration, t *teller) (struct{}, boulder.Usage, error) {
			return none, boulder.Usage{}, i.Integrate(ctx, what, func(b boulder.Body) error {
				if done, ok := b.(boulder.Integrated); ok && p.Publish != nil {
					if err := p.Publish(ctx, what.BoulderID, done.Commit); err != nil {
						return err
					}
				}
				return t.tell(b)
			})
		})
	}
	if trier, can := p.Runner.(orchestrator.Trier); can {
		register(w, c, p.Check, flow.ActivityTry, func(ctx context.Context, what boulder.Trial, t *teller) (struct{}, boulder.Usage, error) {
			return none, boulder.Usage{}, trier.Try(ctx, what, t.tell)
		})
	}
	if s, can := p.Runner.(orchestrator.SessionStopper); can {
		register(w, c, p.Check, flow.ActivityStop, func(ctx context.Context, left boulder.LeftSession, _ *teller) (struct{}, boulder.Usage, error) {
			return none, boulder.Usage{}, s.StopSession(ctx, left)
		})
	}
}

// register makes an activity of a part: under guard, with the errors of the core in its result.
func register[In, Out any](
	w sdk.Worker, c client.Client, check func(context.Context) error, name string, do func(context.Context, In, *teller) (Out, boulder.Usage, error),
) {
	w.RegisterActivityWithOptions(func(ctx context.Context, call flow.Call[In]) (r flow.Result[Out], err error) {
		info := activity.GetInfo(ctx)
		ctx, leave := context.WithCancelCause(ctx)
		defer leave(nil)
		go func() {
			select {
			case <-activity.GetWorkerStopChannel(ctx):
				leave(errStopped)
			case <-ctx.Done():
			}
		}()
		guarded, stop := guard.Watch(ctx, info.HeartbeatTimeout, func(ctx context.Context) error {
			return c.RecordActivityHeartbeat(ctx, info.TaskToken)
		})
		defer stop()
		t := &teller{ctx: guarded, client: c, workflow: info.WorkflowExecution, call: call.Number, boulderID: call.BoulderID, progress: call.Progress, begun: time.Now()}
		r.Value, r.Usage, err = do(guarded, call.What, t)
		switch cause := context.Cause(guarded); {
		case errors.Is(cause, guard.ErrFenced), errors.Is(cause, guard.ErrTaken):
			return flow.Result[Out]{}, temporal.NewApplicationError(cause.Error(), flow.GivenUp)
		case err != nil && (ctx.Err() != nil || check != nil && check(guarded) != nil):
			err = errStopped
		}
		t.flush()
		r.Fault = fault.Of(err)
		if err := flow.Fits("the result of "+name, r); err != nil {
			r = flow.Result[Out]{Usage: r.Usage, Fault: fault.Of(err)}
		}
		for guarded.Err() == nil { // the SDK gives up after 10 s
			err := c.CompleteActivity(guarded, info.TaskToken, r, nil)
			if err == nil {
				return r, activity.ErrResultPending
			}
			if !passes(err) {
				break
			}
			select {
			case <-time.After(askAgain):
			case <-guarded.Done():
			}
		}
		return r, nil
	}, activity.RegisterOptions{Name: name})
}

// stopTime is how long a worker that stops waits for its work to end.
const stopTime = 15 * time.Second

// errStopped ends the work of a worker that stops: another one gets it.
var errStopped = &boulder.TroubleError{Kind: boulder.TroublePaused, Err: errors.New("the worker was stopped")}

// teller hands reports of one piece of work to its boulder.
type teller struct {
	ctx       context.Context
	client    client.Client
	workflow  workflow.Execution
	call      int
	boulderID string
	host      string // see [flow.Report]
	progress  time.Duration
	begun     time.Time

	mu      sync.Mutex
	told    time.Time                // when progress was told last
	pending *boulder.SubTaskProgress // that was not, the newest
}

const (
	// askAgain is how soon a server is asked again that could not be reached.
	askAgain = 500 * time.Millisecond
)

// tell returns when the report is in the boulder's log. While the server is away it keeps trying, as long as the work
// may continue. What the server will never take ends the run.
func (t *teller) tell(b boulder.Body) error {
	if p, ok := b.(boulder.SubTaskProgress); ok && !p.Notice {
		t.mu.Lock()
		t.pending = &p
		due := time.Since(t.told) >= max(t.progress, time.Since(t.begun)/20) // the histories of long turns stay small
		t.mu.Unlock()
		if due {
			t.flush()
		}
		return context.Cause(t.ctx)
	}
	if err := flow.Fits("the report of "+boulder.TypeOf(b), b); err != nil {
		return err
	}
	for id := uuid.NewString(); ; { // the same update, however often it is sent
		err := t.update(id, t.report(b))
		_, refused := errors.AsType[*fault.Carried](err)
		_, over := errors.AsType[*serviceerror.NotFound](err)
		switch {
		case err == nil || refused:
			return err
		case over:
			return fmt.Errorf("%w: the boulder is over", boulder.ErrRefused)
		case !passes(err):
			return fmt.Errorf("%w: the Temporal server does not take the report of %s: %w", boulder.ErrFatal, boulder.TypeOf(b), err)
		}
		select {
		case <-time.After(askAgain):
		case <-t.ctx.Done():
			return context.Cause(t.ctx)
		}
	}
}

func (t *teller) report(b boulder.Body) flow.Report {
	return flow.Report{Call: t.call, Event: boulder.Event{BoulderID: t.boulderID, Body: b}, Host: t.host}
}

// alone is that of [boulder.Job]: the boulder knows. Without its answer others may have been at work.
func (t *teller) alone() bool {
	ctx, cancel := context.WithTimeout(t.ctx, answerTime)
	defer cancel()
	v, err := t.client.QueryWorkflow(ctx, t.workflow.ID, t.workflow.RunID, flow.QueryAlone, t.call)
	alone := false
	return err == nil && v.Get(&alone) == nil && alone
}

// answerTime bounds the wait for the answer to an update, which comes when a worker has taken the boulder up.
const answerTime = time.Minute

func (t *teller) update(id string, r flow.Report) error {
	ctx, cancel := context.WithTimeout(t.ctx, answerTime)
	defer cancel()
	handle, err := t.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		UpdateID: id, WorkflowID: t.workflow.ID, RunID: t.workflow.RunID, UpdateName: flow.UpdateReport, Args: []any{r},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	var refused *fault.Fault
	if err == nil {
		err = handle.Get(ctx, &refused)
	}
	return errors.Join(err, refused.Err())
}

// passes reports whether what the machinery failed with may be gone the next time. Its own retries are over by then.
func passes(err error) bool {
	_, late := errors.AsType[*client.WorkflowUpdateServiceTimeoutOrCanceledError](err)
	_, notReady := errors.AsType[*serviceerror.WorkflowNotReady](err)
	switch serviceerror.ToStatus(err).Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted, codes.Aborted, codes.Internal:
		return true
	}
	return late || notReady
}

// flush tells the newest progress that was not told, if there is one. One that does not arrive is no loss: there is a
// next one.
func (t *teller) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), askAgain)
	defer cancel()
	_ = t.client.SignalWorkflow(ctx, t.workflow.ID, t.workflow.RunID, flow.SignalProgress, t.report(*t.pending))
	t.told, t.pending = time.Now(), nil
}
