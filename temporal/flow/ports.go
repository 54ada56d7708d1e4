package flow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/temporal/fault"
)

var (
	_ orchestrator.Planner        = (*flow)(nil)
	_ orchestrator.Judge          = (*flow)(nil)
	_ orchestrator.Runner         = (*flow)(nil)
	_ orchestrator.Verifier       = (*flow)(nil)
	_ orchestrator.Integrator     = (*flow)(nil)
	_ orchestrator.Trier          = (*flow)(nil)
	_ orchestrator.SessionStopper = (*flow)(nil)
	_ orchestrator.Store          = (*flow)(nil)
)

// Call is what an activity is asked to do.
type Call[T any] struct {
	Number    int // of this call: what another one reports is not taken
	BoulderID string
	Progress  time.Duration // how often it may be told
	What      T
}

// Result is what an activity comes to. An error of the activity itself is one of the machinery: the core knows of none.
type Result[T any] struct {
	Value T
	Usage boulder.Usage
	Fault *fault.Fault
}

// Raise is a blocker to record.
type Raise struct {
	Blocker boulder.Blocker
	Turn    int
}

// Report is what an activity tells before it has ended.
type Report struct {
	Call  int
	Event boulder.Event // its body counts
	Host  string        // where the worker is, if a session that was started there cannot continue elsewhere
}

// HostQueue is where the workers of a host take work that continues sessions there.
func HostQueue(queue, host string) string { return queue + "@" + host }

// call is one that has not ended.
type call struct {
	told  []*told
	alone func() bool
	host  string // where its session is; empty: anywhere, or there is none yet
}

// permit waits until a model may be used, which the limits of all boulders together allow then. release is called once.
func (f *flow) permit(ctx context.Context, model, what string) (release func(), err error) {
	var free func()
	f.block(func() {
		free, err = f.permits.Acquire(own(ctx), cmp.Or(model, "default"), f.in.Limits.Model(model), what)
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("%w: wait for a permit of model %s: %w", boulder.ErrTrouble, model, err)
	}
	return func() {
		if !f.gone {
			f.block(free)
		}
	}, nil
}

// ask has the ledgers' model do something.
func ask[Out, In any](ctx context.Context, f *flow, name string, what In) (r Result[Out], err error) {
	release, err := f.permit(ctx, f.state.Boulder.LedgerModel, name)
	if err != nil {
		return r, err
	}
	defer release()
	return do[Out](ctx, f, name, what, &call{}, nothingReported)
}

type told struct {
	body boulder.Body
	done bool
	err  error
}

// hostBeats is how many times the heartbeat work waits for the host on which its session is.
const hostBeats = 4

// progressEvery is how often sessions tell progress: rarer the longer the history, of which it would take most.
// Temporal ends a boulder at 51,200 events.
func (f *flow) progressEvery() time.Duration {
	length := float64(workflow.GetInfo(f.root).GetCurrentHistoryLength()) / 2000
	return time.Duration((1 + length*length) * float64(30*time.Second))
}

// longest is how long an activity may take: the core has bounds of its own, which come first.
const longest = 7 * 24 * time.Hour

// do has an activity done. It is tried once: what follows from a lost worker is decided by the core, which gives the same
// attempt to another one as it does after a crash.
func do[Out, In any](ctx context.Context, f *flow, name string, what In, c *call, report func(boulder.Body) error) (r Result[Out], err error) {
	if err := Fits("what an activity "+name+" needs to know", what); err != nil {
		return r, err
	}
	f.number++
	number := f.number
	f.calls[number] = c
	defer delete(f.calls, number)
	options := workflow.ActivityOptions{
		StartToCloseTimeout: longest, HeartbeatTimeout: f.in.Heartbeat, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	}
	if c.host != "" {
		options.TaskQueue, options.ScheduleToStartTimeout = HostQueue(workflow.GetInfo(f.root).TaskQueueName, c.host), hostBeats*f.in.Heartbeat
	}
	future := workflow.ExecuteActivity(workflow.WithActivityOptions(own(ctx), options), name, Call[In]{number, f.in.BoulderID, f.progressEvery(), what})
	patient := uncancelled(ctx) // a slot is free when the work has ended, not before
	for {
		f.wait(patient, orchestrator.Forever, func() bool { return len(c.told) > 0 || future.IsReady() })
		if len(c.told) == 0 {
			break
		}
		next := c.told[0]
		c.told = c.told[1:]
		next.err = report(next.body)
		next.done = true
	}
	err = future.Get(patient, &r)
	switch timeout, _ := errors.AsType[*temporal.TimeoutError](err); {
	case ctx.Err() != nil:
		return r, context.Cause(ctx)
	case c.host != "" && timeout != nil && timeout.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START:
		c.host = ""
		return do[Out](ctx, f, name, what, c, report)
	case err != nil:
		return r, lost(err)
	}
	return r, r.Fault.Err()
}

// again is do for what the core asks for once: what a worker was lost with, or stopped, is given to another one.
func again[Out, In any](ctx context.Context, f *flow, name string, what In, report func(boulder.Body) error) (r Result[Out], err error) {
	for losses := 0; ; {
		r, err = do[Out](ctx, f, name, what, &call{}, report)
		switch t, _ := errors.AsType[*boulder.TroubleError](err); {
		case t != nil && t.Kind == boulder.TroublePaused:
		case errors.Is(err, errLost) && losses < f.in.Limits.Troubles: // or it is what makes workers die
			losses++
		default:
			return r, err
		}
	}
}

var errLost = fmt.Errorf("%w: the worker was lost", boulder.ErrTrouble)

// GivenUp is the type of an activity's error that says why its worker ended the work, which another one may have.
const GivenUp = "given-up"

// lost is what the core is told when an activity has no result.
func lost(err error) error {
	if timeout, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		return fmt.Errorf("%w: %w", errLost, timeout)
	}
	if e, ok := errors.AsType[*temporal.ApplicationError](err); ok && e.Type() == GivenUp { // it was back before the timeout
		return fmt.Errorf("%w: %s", errLost, e.Message())
	}
	if _, cancelled := errors.AsType[*temporal.CanceledError](err); cancelled {
		return fmt.Errorf("%w: the worker stopped", boulder.ErrTrouble)
	}
	return err
}

func nothingReported(b boulder.Body) error {
	return fmt.Errorf("%w: there is no listener for %s", boulder.ErrRefused, boulder.TypeOf(b))
}

func (f *flow) Plan(ctx context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
	release, err := f.permit(ctx, f.state.Boulder.LedgerModel, ActivityPlan)
	if err != nil {
		return nil, boulder.Usage{}, err
	}
	defer release()
	r, err := again[*boulder.Plan](ctx, f, ActivityPlan, req, nothingReported)
	return r.Value, r.Usage, err
}

func (f *flow) Replan(ctx context.Context, req boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error) {
	r, err := ask[boulder.Replacement](ctx, f, ActivityReplan, req)
	return r.Value, r.Usage, err
}

func (f *flow) Judge(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	r, err := ask[boulder.Verdict](ctx, f, ActivityJudge, req)
	return r.Value, r.Usage, err
}

func (f *flow) Run(ctx context.Context, job boulder.Job, report func(boulder.Body) error) (boulder.Evidence, error) {
	a := job.Attempt
	if job.Turn.MessageID == "" { // else the clock of the turn would begin
		waits := boulder.SubTaskProgress{AttemptRef: a.AttemptRef, Activity: "waiting for a permit of model " + cmp.Or(a.Model, "default")}
		if err := report(waits); err != nil {
			return boulder.Evidence{}, err
		}
	}
	release, err := f.permit(ctx, a.Model, fmt.Sprintf("%s/%d", a.SubTaskID, a.AttemptRef.Attempt))
	if err != nil {
		return boulder.Evidence{}, err
	}
	defer release()
	c := &call{alone: job.Alone, host: f.hosts[a.AttemptRef]}
	r, err := do[boulder.Evidence](ctx, f, ActivityRun, job, c, report)
	f.hosts[a.AttemptRef] = c.host
	return r.Value, err
}

func (f *flow) Verify(ctx context.Context, what boulder.Verification, report func(boulder.Body) error) error {
	what.SubTasks = bare(what.SubTasks)
	_, err := again[struct{}](ctx, f, ActivityVerify, what, report)
	return err
}

func (f *flow) Integrate(ctx context.Context, what boulder.Integration, report func(boulder.Body) error) error {
	what.Earlier = bare(what.Earlier)
	_, err := again[struct{}](ctx, f, ActivityIntegrate, what, report)
	return err
}

func (f *flow) Try(ctx context.Context, what boulder.Trial, report func(boulder.Body) error) error {
	_, err := again[struct{}](ctx, f, ActivityTry, what, report)
	return err
}

func (f *flow) StopSession(ctx context.Context, left boulder.LeftSession) error {
	_, err := do[struct{}](ctx, f, ActivityStop, left, &call{host: f.hosts[left.AttemptRef]}, nothingReported)
	return err
}

// bare takes out what only agents and judges read of sub-tasks: there may be many, time and again.
func bare(all []boulder.SubTask) []boulder.SubTask {
	for i := range all { // they are copies
		all[i].Description, all[i].Output, all[i].Failures = "", "", nil
	}
	return all
}

// RaiseBlocker is that of [orchestrator.Config].
func (f *flow) RaiseBlocker(ctx context.Context, b boulder.Blocker, turn int) (boulder.Blocker, error) {
	r, err := again[boulder.Blocker](ctx, f, ActivityRaise, Raise{b, turn}, nothingReported)
	return r.Value, err
}
