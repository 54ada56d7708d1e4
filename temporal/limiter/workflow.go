// Package limiter keeps to the cap of a model over all workers and boulders. Temporal has no such cap: its task queues bound
// what one worker runs, or a rate.
//
// For each model there is a workflow, limiter/<model>, which grants permits. A boulder's workflow asks with
// [Permits.Acquire], by signal-with-start; the limiter grants by a signal back, first come first served within a boulder, and
// the boulders take turns. A permit is held until it is released. Those of workflows that ended without a release, as
// terminated ones do, are taken back within [SweepEvery].
//
// The limiter itself may be terminated. The next request starts another one, which asks the running boulders what they hold
// and want before it grants anything. So only workflows hold permits: a killed worker takes no knowledge along.
//
// More than the cap can run: for as long as a frozen worker's session outlives its permit (see the worker's fence); if the
// limiter is terminated within moments of a grant that has not arrived, or of the start of a boulder that the server does not
// list yet; if a boulder cannot be asked, which [Status] then tells. What uses the model outside of Temporal is not counted.
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
	// BoulderType is the type of the workflows that hold permits.
	BoulderType = "boulder"
	// SweepEvery is how often the holders are looked up. A release is at once; this is for workflows that end without.
	SweepEvery = time.Minute

	workflowType = "limiter"
	memoCap      = "cap" // what SetCap said last: it outlives a terminated limiter

	requestSignal = "request"
	releaseSignal = "release"
	statusQuery   = "status"
	setCapUpdate  = "setCap"
)

// WorkflowID is that of a model's limiter.
func WorkflowID(model string) string { return "limiter/" + model }

// Queue is the task queue of all limiters: every worker takes work from it, whichever project it is of.
const Queue = "manager:limits"

// taskTimeout is how long a worker has for a decision, before another one gets it: one that is frozen may be given two.
const taskTimeout = 3 * time.Second

// Register registers what workers of [Queue] have to run.
func Register(r worker.Registry) {
	r.RegisterWorkflowWithOptions(run, workflow.RegisterOptions{Name: workflowType})
	r.RegisterActivity(rebuild)
}

// request is the argument of requestSignal.
type request struct {
	Permit Permit `json:"permit"`
	Cap    int    `json:"cap"`
}

// limiter is one run of the workflow. Its one coroutine owns the state; the handlers of queries and updates run in between.
type limiter struct {
	State
	events   workflow.Selector
	wake     workflow.Channel
	pending  int // signals and look-ups under way
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
		for !long { // else what is under way, and would be lost with the run, comes to an end first
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

// signal tells a boulder that it holds a permit. If it cannot be told, it is over.
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

// watch arms the timer after which permits of workflows that are over are taken back.
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
			_ = f.Get(ctx, &gone) // what cannot be looked up now is looked up after the next period
			for _, p := range gone {
				l.drop(p)
			}
		})
	})
}

// rebuild makes up for what a terminated limiter knew. Until it is done nothing is granted.
func (l *limiter) rebuild(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 2 * time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumInterval: 30 * time.Second},
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
	_ = workflow.UpsertMemo(ctx, map[string]any{memoCap: n}) // fails only for what cannot be encoded
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

// InTime is an error for an update that was given up, as no worker took it in time: it must not be carried out later.
func InTime(ctx workflow.Context, until time.Time) error {
	if late := workflow.Now(ctx).Sub(until); late > 0 && !until.IsZero() {
		return fmt.Errorf("it came %s too late: ask again, and if that is wrong, set the clocks of this machine and of the Temporal server",
			late.Round(time.Millisecond))
	}
	return nil
}

func (l *limiter) status() Status {
	s := Status{Model: l.Model, Cap: l.Cap, Set: l.Set, Asked: l.Asked, Held: l.Held, Rebuilding: !l.Rebuilt, Unasked: l.Unasked}
	for i, more := 0, true; more; i++ { // in turns, as they will be granted
		more = false
		for _, line := range l.Waiting {
			if i < len(line) {
				s.Waiting, more = append(s.Waiting, line[i]), true
			}
		}
	}
	return s
}
