// Package limiter enforces a model's cap over all workers and boulders. Temporal has no such cap: its task queues
// limit a rate, or what one worker runs.
//
// Each model has a workflow, limiter/<model>, that grants permits. A boulder's workflow requests one with
// [Permits.Acquire], a signal-with-start, and the limiter answers with a signal. Boulders take turns; within a boulder
// the order is first come, first served. A workflow that ends without a release loses its permits within [SweepEvery].
//
// If the limiter is terminated, the next request starts a new one, which first asks the running boulders for their
// permits and requests. Only workflows hold permits, so a killed worker loses none.
//
// The cap can be exceeded: while a frozen worker's session outlives its permit (see package guard); if the limiter is
// terminated moments after a grant that is in flight, or after the start of a boulder that the server does not list
// yet; if a boulder does not answer, which [Status] shows. Use of the model outside Temporal is not counted.
package limiter

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const (
	// BoulderType is the type of workflows that hold permits.
	BoulderType = "boulder"
	// SweepEvery is how often the limiter looks for workflows that ended without a release.
	SweepEvery = time.Minute

	workflowType = "limiter"
	memoCap      = "cap" // last argument of SetCap; outlives a terminated limiter

	requestSignal = "request"
	releaseSignal = "release"
	statusQuery   = "status"
	setCapUpdate  = "setCap"
)

// WorkflowID returns the workflow id of a model's limiter.
func WorkflowID(model string) string { return "limiter/" + model }

// Queue is the task queue of all limiters. The workers of all projects poll it.
const Queue = "manager:limits"

// taskTimeout is how long a worker has for a decision before another one gets it. A frozen worker may be given two.
const taskTimeout = 3 * time.Second

// Register registers the workflow and the activity that workers of [Queue] run.
func Register(r worker.Registry) {
	r.RegisterWorkflowWithOptions(run, workflow.RegisterOptions{Name: workflowType})
	r.RegisterActivity(rebuild)
}

type request struct {
	Permit Permit `json:"permit"`
	Cap    int    `json:"cap"`
}

// limiter is one run of the workflow. Its main coroutine shares the state with the handlers: one runs at a time.
type limiter struct {
	State
	events   workflow.Selector
	wake     workflow.Channel
	pending  int // signals and look-ups in flight
	sweeping bool
}

func run(ctx workflow.Context, s State) error {
	l := &limiter{State: s, events: workflow.NewSelector(ctx), wake: workflow.NewBufferedChannel(ctx, 1)}
	if err := l.handle(ctx); err != nil {
		return err
	}
	if !l.Rebuilt {
		if err := l.rebuild(ctx); err != nil {
			return err
		}
	}
	l.events.AddReceive(workflow.GetSignalChannel(ctx, requestSignal), func(c workflow.ReceiveChannel, _ bool) {
		var r request
		c.Receive(ctx, &r)
		l.ask(r.Cap)
		if l.request(r.Permit) {
			l.signal(ctx, r.Permit)
		}
	})
	l.events.AddReceive(workflow.GetSignalChannel(ctx, releaseSignal), func(c workflow.ReceiveChannel, _ bool) {
		var p Permit
		c.Receive(ctx, &p)
		l.drop(p)
	})
	l.events.AddReceive(l.wake, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil) })
	l.events.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {})
	for ctx.Err() == nil {
		long := workflow.GetInfo(ctx).GetContinueAsNewSuggested()
		if long && l.pending == 0 && !l.events.HasPending() {
			return workflow.NewContinueAsNewError(ctx, workflowType, l.State)
		}
		for !long { // if the history is long, first wait for what is in flight: the run's end would lose it
			p, ok := l.grant()
			if !ok {
				break
			}
			l.signal(ctx, p)
		}
		l.watch(ctx)
		l.events.Select(ctx)
	}
	return ctx.Err()
}

// signal tells a boulder that it holds a permit. If that fails the boulder has ended, and loses the permit.
func (l *limiter) signal(ctx workflow.Context, p Permit) {
	l.pending++
	told := workflow.SignalExternalWorkflow(ctx, p.Boulder, "", grantSignal(p.ID), p)
	l.events.AddFuture(told, func(f workflow.Future) {
		l.pending--
		if f.Get(ctx, nil) != nil {
			l.drop(p)
		}
	})
}

// watch starts the timer after which ended workflows lose their permits, unless it runs or no permit is held.
func (l *limiter) watch(ctx workflow.Context) {
	if l.sweeping || len(l.Held) == 0 {
		return
	}
	l.sweeping = true
	l.events.AddFuture(workflow.NewTimer(ctx, SweepEvery), func(workflow.Future) {
		l.pending++
		ctx := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{ScheduleToCloseTimeout: 10 * time.Second})
		l.events.AddFuture(workflow.ExecuteLocalActivity(ctx, ended, slices.Clone(l.Held)), func(f workflow.Future) {
			l.pending--
			l.sweeping = false
			var gone []Permit
			_ = f.Get(ctx, &gone) // on failure the next sweep looks again
			for _, p := range gone {
				l.drop(p)
			}
		})
	})
}

// rebuild restores the state of a terminated limiter. Nothing is granted before it returns.
func (l *limiter) rebuild(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 2 * time.Minute, HeartbeatTimeout: askTime + 5*time.Second, RetryPolicy: &temporal.RetryPolicy{MaximumInterval: 30 * time.Second},
	})
	var found found
	if err := workflow.ExecuteActivity(ctx, rebuild, l.Model).Get(ctx, &found); err != nil {
		return err
	}
	if !l.Set && found.Cap != nil {
		l.setCap(ctx, *found.Cap)
	}
	l.Held, l.Unasked, l.Rebuilt = found.Held, found.Unasked, true
	for _, r := range found.Waiting {
		l.request(r.Permit)
		l.ask(r.Cap)
	}
	return nil
}

func (l *limiter) setCap(ctx workflow.Context, n int) {
	l.Set, l.Cap = n != Unset, n
	if !l.Set {
		l.Cap = l.Asked
	}
	_ = workflow.UpsertMemo(ctx, map[string]any{memoCap: n}) // fails only for values that cannot be encoded
	l.wake.SendAsync(nil)
}

func (l *limiter) handle(ctx workflow.Context) error {
	err := workflow.SetQueryHandler(ctx, statusQuery, func() (Status, error) { return l.status(), nil })
	return errors.Join(err, workflow.SetUpdateHandlerWithOptions(ctx, setCapUpdate,
		func(ctx workflow.Context, n int, _ time.Time) (Status, error) {
			l.setCap(ctx, n)
			return l.status(), nil
		},
		workflow.UpdateHandlerOptions{Validator: func(ctx workflow.Context, n int, until time.Time) error {
			return errors.Join(checkCap(n), InTime(ctx, until))
		}}))
}

// InTime refuses an update that starts after its deadline: the caller has given up, so it must not be applied.
func InTime(ctx workflow.Context, until time.Time) error {
	if late := workflow.Now(ctx).Sub(until); late > 0 && !until.IsZero() {
		return fmt.Errorf("it came %s too late: ask again, and if that is wrong, set the clocks of this machine and of the Temporal server",
			late.Round(time.Millisecond))
	}
	return nil
}

func (l *limiter) status() Status {
	s := Status{Model: l.Model, Cap: l.Cap, Set: l.Set, Asked: l.Asked, Held: l.Held, Rebuilding: !l.Rebuilt, Unasked: l.Unasked}
	for i, more := 0, true; more; i++ { // boulders in turn, as grant takes them
		more = false
		for _, line := range l.Waiting {
			if i < len(line) {
				s.Waiting, more = append(s.Waiting, line[i]), true
			}
		}
	}
	return s
}
