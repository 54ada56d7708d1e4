// Package flow runs a boulder as a Temporal workflow, which drives the loop of package orchestrator with activities as
// its ports: the same code decides as on one machine. The log is kept in the workflow's memory, and replay rebuilds it
// from the workflow's history. A query reads the log; the user's orders and the activities' reports are updates.
//
// The code is deterministic. Temporal refuses to continue a workflow if another version decides differently on replay.
package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/temporal/fault"
	"github.com/bouldermgr/manager/temporal/limiter"
)

// Names of a boulder's parts in Temporal. Histories contain them, so they never change.
const (
	Workflow = limiter.BoulderType

	ActivityPlan      = "plan"
	ActivityPrepare   = "prepare"
	ActivityLook      = "look"
	ActivityReplan    = "replan"
	ActivityJudge     = "judge"
	ActivityCheck     = "check-request"
	ActivityRun       = "run"
	ActivityVerify    = "verify"
	ActivityIntegrate = "integrate"
	ActivityTry       = "try"
	ActivityStop      = "stop-session"

	UpdateOrder  = "order"  // takes a [boulder.Order] and a deadline to begin; returns a *[fault.Fault]
	UpdateResume = "resume" // takes an [orchestrator.Request] and a deadline to begin; returns a *[fault.Fault]
	UpdateReport = "report" // takes a [Report]; returns a *[fault.Fault]

	SignalProgress = "progress" // takes a [Report]

	QueryLog    = "log"    // takes an event number; returns the [Page] after it
	QueryAlone  = "alone"  // takes a call number; returns a bool, see [boulder.Job.Alone]
	QueryRaised = "raised" // takes a call number; returns [boulder.Blocker]s, see [boulder.Job.Raised]
)

// Input is the argument of a boulder's workflow.
type Input struct {
	BoulderID string
	Project   string // absolute directory on the gateway's machine; a worker with a clone uses its own
	Request   orchestrator.Request
	Limits    orchestrator.Limits
	Diversion boulder.Diversion // what diverted agents are told
	Diverted  bool              // diverted by the configuration
	Heartbeat time.Duration     // a worker silent for this long loses its work to another one
	// FirstBlocker is the number of the first blocker; the next ones follow. The gateway keeps [Blockers] of them.
	FirstBlocker int
	Checks       bool // the workers' judges are [orchestrator.Checker]s, and are asked
}

// Page is a part of a boulder's log and the state of its run.
type Page struct {
	Events []boulder.Event
	More   bool         // later events exist
	Ended  *fault.Fault // why an unfinished boulder is not running; nil if it runs or is finished
}

// pageSize limits a page with more than one event, in bytes.
const pageSize = Largest / 2

// Boulder runs a boulder to its end and returns the final status. A paused boulder waits for an [UpdateResume].
func Boulder(ctx workflow.Context, in Input) (boulder.Status, error) {
	root, _ := workflow.NewDisconnectedContext(ctx) // cancelling ctx would wake coroutines in no defined order
	permits, err := limiter.NewPermits(ctx)
	if err != nil {
		return "", err
	}
	f := &flow{in: in, coroutines: &coroutines{root: root}, permits: permits, calls: map[int]*call{}, hosts: map[boulder.AttemptRef]string{}}
	return f.boulder(ctx, f)
}

// ports are the orchestrator's dependencies that tests replace.
type ports interface {
	orchestrator.Planner
	orchestrator.Judge
	orchestrator.Checker
	orchestrator.Runner
}

// Blockers is how many numbers of blockers a boulder may use: more than any boulder needs.
const Blockers = 1000

func (f *flow) boulder(ctx workflow.Context, p ports) (boulder.Status, error) {
	o, err := f.orchestrator(p)
	if err != nil {
		return "", temporal.NewNonRetryableApplicationError(err.Error(), "input", err)
	}
	if err := f.serve(ctx, o); err != nil {
		return "", err
	}
	for f.resume = &f.in.Request; !f.status().Terminal(); {
		f.wait(f.root, orchestrator.Forever, func() bool { return f.resume != nil || f.status().Terminal() })
		if f.resume != nil {
			f.run(o)
		}
		if len(f.log) == 0 {
			return "", temporal.NewNonRetryableApplicationError(f.ended.Error(), "request", nil, fault.Of(f.ended))
		}
	}
	f.wait(f.root, orchestrator.Forever, func() bool { return workflow.AllHandlersFinished(f.root) })
	return f.status(), nil
}

// flow is the state of one boulder's workflow.
type flow struct {
	*coroutines
	in      Input
	permits *limiter.Permits

	state  *boulder.State // as last committed; owned by the current run
	log    []boulder.Event
	resume *orchestrator.Request // the next run; nil: none
	ended  error                 // error of the latest run; nil while it runs

	lastCall int
	calls    map[int]*call
	hosts    map[boulder.AttemptRef]string // host of the attempt's session; see [Report.Host]
}

func (f *flow) status() boulder.Status {
	if f.state == nil {
		return ""
	}
	return f.state.Boulder.Status
}

func (f *flow) orchestrator(p ports) (*orchestrator.Orchestrator, error) {
	type judge = orchestrator.Judge
	judges := judge(p)
	if !f.in.Checks {
		judges = struct{ judge }{p} // without Check
	}
	return orchestrator.New(orchestrator.Config{
		Project: f.in.Project, Planner: p, Judge: judges, Runner: p, Store: f, Limits: &f.in.Limits,
		Diversion: func(b boulder.Boulder) boulder.Diversion {
			if f.in.Diverted || b.Diverted {
				return f.in.Diversion
			}
			return boulder.Diversion{}
		},
		BlockerID:  func(nth int) string { return fmt.Sprint("B", f.in.FirstBlocker+nth-1) },
		Coroutines: f.coroutines, Now: f.now, NewID: func() string { return f.in.BoulderID },
		// A program may have been installed on a worker since, so resume always tries.
		Lacks: func(context.Context, string, string) bool { return false },
	})
}

func (f *flow) run(o *orchestrator.Orchestrator) {
	req := *f.resume
	f.resume, f.ended = nil, nil
	for _, err := range o.Run(withWorkflow(context.Background(), f.root), req) {
		f.ended = err
	}
}

// Commit implements orchestrator.Store. The workflow's history is the durable copy.
func (f *flow) Commit(_ context.Context, s *boulder.State, events []boulder.Event) error {
	f.state, f.log = s, append(f.log, events...)
	return nil
}

func (f *flow) Load(_ context.Context, id string) (*boulder.State, error) {
	if id != f.in.BoulderID || len(f.log) == 0 {
		return nil, fmt.Errorf("%w: %s", boulder.ErrNotFound, id)
	}
	s := boulder.NewState()
	for _, e := range f.log {
		if err := s.Replay(e); err != nil {
			return nil, fmt.Errorf("event %d: %w", e.Seq, err)
		}
	}
	return s, nil
}

// serve registers the handlers of queries, updates and signals.
func (f *flow) serve(ctx workflow.Context, o *orchestrator.Orchestrator) error {
	f.listen(ctx, o)
	return errors.Join(
		workflow.SetQueryHandler(ctx, QueryLog, f.page),
		workflow.SetQueryHandler(ctx, QueryAlone, func(number int) (bool, error) {
			c := f.calls[number]
			return c != nil && c.alone != nil && c.alone(), nil
		}),
		workflow.SetQueryHandler(ctx, QueryRaised, func(number int) ([]boulder.Blocker, error) {
			if c := f.calls[number]; c != nil && c.raised != nil {
				all, err := c.raised(context.Background())
				return briefly(all), err
			}
			return nil, errors.New("that work was given to another worker")
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdateOrder, func(ctx workflow.Context, what boulder.Order, _ time.Time) (*fault.Fault, error) {
			return fault.Of(o.Order(withWorkflow(context.Background(), ctx), f.in.BoulderID, what)), nil
		}, workflow.UpdateHandlerOptions{Validator: func(ctx workflow.Context, _ boulder.Order, until time.Time) error {
			return limiter.InTime(ctx, until)
		}}),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdateResume, func(ctx workflow.Context, req orchestrator.Request, _ time.Time) (*fault.Fault, error) {
			if f.ended == nil || f.resume != nil { // running, so it keeps its settings
				return fault.Of(o.Order(withWorkflow(context.Background(), ctx), f.in.BoulderID, boulder.Order{Do: boulder.OrderResume})), nil
			}
			req.Resume = f.in.BoulderID
			f.resume = &req
			return nil, nil
		}, workflow.UpdateHandlerOptions{Validator: func(ctx workflow.Context, _ orchestrator.Request, until time.Time) error {
			return limiter.InTime(ctx, until)
		}}),
		workflow.SetUpdateHandler(ctx, UpdateReport, func(ctx workflow.Context, r Report) (*fault.Fault, error) {
			c := f.calls[r.Call]
			if c == nil {
				return fault.Of(fmt.Errorf("%w: that work was given to another worker", boulder.ErrRefused)), nil
			}
			c.host = r.Host
			queued := &pendingReport{body: r.Event.Body}
			c.reports = append(c.reports, queued)
			f.wait(uncancelled(withWorkflow(context.Background(), ctx)), orchestrator.Forever, func() bool { return queued.done })
			return fault.Of(queued.err), nil
		}),
	)
}

// listen receives progress. It turns a cancellation by Temporal's own tools into an order to cancel the boulder.
func (f *flow) listen(ctx workflow.Context, o *orchestrator.Orchestrator) {
	workflow.Go(f.root, func(own workflow.Context) {
		for progress := workflow.GetSignalChannel(own, SignalProgress); ; {
			var r Report
			progress.Receive(own, &r)
			if c := f.calls[r.Call]; c != nil {
				c.reports = append(c.reports, &pendingReport{body: r.Event.Body})
			}
		}
	})
	workflow.Go(f.root, func(own workflow.Context) {
		ctx.Done().Receive(own, nil)
		// Fails only if the boulder is finished.
		_ = o.Order(withWorkflow(context.Background(), own), f.in.BoulderID, boulder.Order{Do: boulder.OrderCancel})
	})
}

func (f *flow) page(after uint64) (Page, error) {
	p := Page{}
	if f.resume == nil && !f.status().Terminal() {
		p.Ended = fault.Of(f.ended)
	}
	for size := 0; after < uint64(len(f.log)); after++ {
		data, err := json.Marshal(f.log[after])
		if size += len(data); err != nil || size > pageSize && len(p.Events) > 0 {
			p.More = true
			return p, err
		}
		p.Events = append(p.Events, f.log[after])
	}
	return p, nil
}
