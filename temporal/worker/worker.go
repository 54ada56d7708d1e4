// Package worker runs the activities of boulders on Temporal. They call planner, judge and runner as a local run does.
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

// Parts do the work. If Runner implements [orchestrator.Verifier], [orchestrator.Integrator], [orchestrator.Trier],
// [orchestrator.Looker] or [orchestrator.SessionStopper] as well, or Judge [orchestrator.Checker], so must that of all other workers of the queue.
type Parts struct {
	Planner orchestrator.Planner
	Judge   orchestrator.Judge
	Runner  orchestrator.Runner

	Project string // directory whose files the planner reads
	// Host names machine and directory, if sessions cannot continue elsewhere. Empty: they can.
	Host string
	// Check is called after work failed. An error means that this machine cannot work: another worker gets the work.
	Check func(context.Context) error
	// Publish makes an integration's commit available to all workers, before the log names it. Nil: it already is.
	Publish func(ctx context.Context, boulderID, commit string) error
}

// Reconnect makes a client reconnect within 3 s of the server's return. The SDK's own waits grow to 10 s.
var Reconnect = grpc.WithConnectParams(grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
	MinConnectTimeout: 5 * time.Second,
})

// Worker polls its task queues from Start to Stop.
type Worker []sdk.Worker

// Start returns when all polls have begun. On an error it stops the pollers that have started.
func (w Worker) Start() error {
	for i, one := range w {
		if err := one.Start(); err != nil {
			w[:i].Stop()
			return err
		}
	}
	return nil
}

// Stop ends the work in progress and waits for it. The boulder gives the work to another worker.
func (w Worker) Stop() {
	var stopping sync.WaitGroup
	for _, one := range w {
		stopping.Go(one.Stop)
	}
	stopping.Wait()
}

// New returns a worker that runs at most slots activities of a queue at once, and as many again that continue sessions
// of its host. It also polls [limiter.Queue].
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
	register(w, c, p.Check, flow.ActivityPlan, func(ctx context.Context, req boulder.PlanRequest, _ *reporter) (*boulder.Plan, boulder.Usage, error) {
		req.Project = p.Project
		return p.Planner.Plan(ctx, req)
	})
	register(w, c, p.Check, flow.ActivityPrepare, func(ctx context.Context, req boulder.PlanRequest, _ *reporter) (boulder.Prepared, boulder.Usage, error) {
		_, looks := p.Runner.(orchestrator.Looker)
		preparer, asks := p.Planner.(orchestrator.Preparer)
		if !looks || !asks {
			return boulder.Prepared{}, boulder.Usage{}, nil // the plan is made without a look
		}
		req.Project = p.Project
		return preparer.Prepare(ctx, req)
	})
	if looker, can := p.Runner.(orchestrator.Looker); can {
		register(w, c, p.Check, flow.ActivityLook, func(ctx context.Context, job boulder.LookJob, t *reporter) (boulder.Looked, boulder.Usage, error) {
			t.host = p.Host
			return looker.Look(ctx, job, t.tell)
		})
	}
	register(w, c, p.Check, flow.ActivityReplan, func(ctx context.Context, req boulder.ReplanRequest, _ *reporter) (boulder.Replacement, boulder.Usage, error) {
		req.Project = p.Project
		return p.Planner.Replan(ctx, req)
	})
	register(w, c, p.Check, flow.ActivityJudge, func(ctx context.Context, req boulder.JudgeRequest, _ *reporter) (boulder.Verdict, boulder.Usage, error) {
		return p.Judge.Judge(ctx, req)
	})
	if checker, can := p.Judge.(orchestrator.Checker); can {
		register(w, c, p.Check, flow.ActivityCheck, func(ctx context.Context, req boulder.CheckRequest, _ *reporter) (boulder.RequestCheck, boulder.Usage, error) {
			return checker.Check(ctx, req)
		})
	}
	register(w, c, p.Check, flow.ActivityRun, func(ctx context.Context, job boulder.Job, t *reporter) (boulder.Evidence, boulder.Usage, error) {
		job.Alone, job.Raised, t.host = t.alone, t.raised, p.Host
		e, err := p.Runner.Run(ctx, job, t.tell)
		return fit(e), boulder.Usage{}, err
	})
	if v, can := p.Runner.(orchestrator.Verifier); can {
		register(w, c, p.Check, flow.ActivityVerify, func(ctx context.Context, what boulder.Verification, t *reporter) (struct{}, boulder.Usage, error) {
			return none, boulder.Usage{}, v.Verify(ctx, what, t.tell)
		})
	}
	if i, can := p.Runner.(orchestrator.Integrator); can {
		register(w, c, p.Check, flow.ActivityIntegrate, func(ctx context.Context, what boulder.Integration, t *reporter) (struct{}, boulder.Usage, error) {
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
		register(w, c, p.Check, flow.ActivityTry, func(ctx context.Context, what boulder.Trial, t *reporter) (struct{}, boulder.Usage, error) {
			return none, boulder.Usage{}, trier.Try(ctx, what, t.tell)
		})
	}
	if s, can := p.Runner.(orchestrator.SessionStopper); can {
		register(w, c, p.Check, flow.ActivityStop, func(ctx context.Context, left boulder.LeftSession, _ *reporter) (struct{}, boulder.Usage, error) {
			return none, boulder.Usage{}, s.StopSession(ctx, left)
		})
	}
}

// register registers an activity that runs do under [guard.Watch]. Errors of the core go into the activity's result.
func register[In, Out any](
	w sdk.Worker, c client.Client, check func(context.Context) error, name string, do func(context.Context, In, *reporter) (Out, boulder.Usage, error),
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
		t := &reporter{ctx: guarded, client: c, workflow: info.WorkflowExecution, call: call.Number, boulderID: call.BoulderID, progress: call.Progress, begun: time.Now()}
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
		for guarded.Err() == nil { // complete it here: the SDK gives up after 10 s
			err := c.CompleteActivity(guarded, info.TaskToken, r, nil)
			if err == nil {
				return r, activity.ErrResultPending
			}
			if !temporary(err) {
				break
			}
			select {
			case <-time.After(retryEvery):
			case <-guarded.Done():
			}
		}
		return r, nil
	}, activity.RegisterOptions{Name: name})
}

const stopTime = 15 * time.Second

// errStopped ends the work of a stopping worker. Another worker gets it.
var errStopped = &boulder.TroubleError{Kind: boulder.TroublePaused, Err: errors.New("the worker was stopped")}

// reporter sends the reports of one activity to its boulder.
type reporter struct {
	ctx       context.Context
	client    client.Client
	workflow  workflow.Execution
	call      int
	boulderID string
	host      string // see [flow.Report.Host]
	progress  time.Duration
	begun     time.Time

	mu      sync.Mutex
	told    time.Time                // when progress was last sent
	pending *boulder.SubTaskProgress // newest progress not yet sent
}

// retryEvery is the time between attempts to reach a server.
const retryEvery = 500 * time.Millisecond

// tell returns when the report is in the boulder's log; it only queues progress. It retries temporary errors until the
// work must end. A permanent error ends the run.
func (t *reporter) tell(b boulder.Body) error {
	if p, ok := b.(boulder.SubTaskProgress); ok && !p.Notice {
		t.mu.Lock()
		t.pending = &p
		due := time.Since(t.told) >= max(t.progress, time.Since(t.begun)/20) // keeps the histories of long turns small
		t.mu.Unlock()
		if due {
			t.flush()
		}
		return context.Cause(t.ctx)
	}
	if err := flow.Fits("the report of "+boulder.TypeOf(b), b); err != nil {
		return err
	}
	for id := uuid.NewString(); ; { // one update, however often it is sent
		err := t.update(id, t.report(b))
		_, refused := errors.AsType[*fault.Carried](err)
		_, over := errors.AsType[*serviceerror.NotFound](err)
		switch {
		case err == nil || refused:
			return err
		case over:
			return fmt.Errorf("%w: the boulder is over", boulder.ErrRefused)
		case !temporary(err):
			return fmt.Errorf("%w: the Temporal server does not take the report of %s: %w", boulder.ErrFatal, boulder.TypeOf(b), err)
		}
		select {
		case <-time.After(retryEvery):
		case <-t.ctx.Done():
			return context.Cause(t.ctx)
		}
	}
}

func (t *reporter) report(b boulder.Body) flow.Report {
	return flow.Report{Call: t.call, Event: boulder.Event{BoulderID: t.boulderID, Body: b}, Host: t.host}
}

// alone implements [boulder.Job.Alone]. Without an answer it returns false.
func (t *reporter) alone() (alone bool) {
	return t.query(t.ctx, flow.QueryAlone, &alone) == nil && alone
}

// raised implements [boulder.Job.Raised].
func (t *reporter) raised(ctx context.Context) (all []boulder.Blocker, err error) {
	err = t.query(ctx, flow.QueryRaised, &all)
	return all, err
}

// query asks the boulder's workflow about this call.
func (t *reporter) query(ctx context.Context, what string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	v, err := t.client.QueryWorkflow(ctx, t.workflow.ID, t.workflow.RunID, what, t.call)
	if err != nil {
		return err
	}
	return v.Get(answer)
}

// answerTime bounds the wait for the answer to an update, which needs a worker that runs the boulder's workflow.
const answerTime = time.Minute

func (t *reporter) update(id string, r flow.Report) error {
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

// temporary reports whether a retry may succeed. The SDK has already retried.
func temporary(err error) bool {
	_, late := errors.AsType[*client.WorkflowUpdateServiceTimeoutOrCanceledError](err)
	_, notReady := errors.AsType[*serviceerror.WorkflowNotReady](err)
	switch serviceerror.ToStatus(err).Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted, codes.Aborted, codes.Internal:
		return true
	}
	return late || notReady
}

// flush sends the pending progress, if any. A lost signal does no harm: the next one supersedes it.
func (t *reporter) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), retryEvery)
	defer cancel()
	_ = t.client.SignalWorkflow(ctx, t.workflow.ID, t.workflow.RunID, flow.SignalProgress, t.report(*t.pending))
	t.told, t.pending = time.Now(), nil
}
