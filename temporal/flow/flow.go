// Package flow is a boulder as a Temporal workflow. It drives the loop of package orchestrator, whose ports are
// activities there: every decision is made by the same code as on one machine. What the loop commits is kept in the
// workflow's memory, and made again from its history; the log is read by a query. Orders of the user, and what the
// activities report, are updates.
//
// All of it is deterministic: what a worker with another version would decide differently, Temporal refuses to continue.
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

// Names by which Temporal knows the parts of a boulder. They are in histories, and never change.
const (
	Workflow = limiter.BoulderType

	ActivityPlan      = "plan"
	ActivityReplan    = "replan"
	ActivityJudge     = "judge"
	ActivityRun       = "run"
	ActivityVerify    = "verify"
	ActivityIntegrate = "integrate"
	ActivityTry       = "try"
	ActivityStop      = "stop-session"
	ActivityRaise     = "raise-blocker"

	UpdateOrder  = "order"  // of a [boulder.Order], and until when it is wanted; gives a *[fault.Fault]
	UpdateResume = "resume" // of an [orchestrator.Request], and until when; gives a *[fault.Fault]
	UpdateReport = "report" // of a [Report]; gives a *[fault.Fault]

	SignalProgress = "progress" // a [Report] without an answer

	QueryLog   = "log"   // of the number of an event; gives the [Page] after it
	QueryAlone = "alone" // of the number of a call; see [boulder.Job.Alone]
)

// Input begins a boulder.
type Input struct {
	BoulderID string
	Project   string // absolute directory, on all workers
	Request   orchestrator.Request
	Limits    orchestrator.Limits
	Diversion boulder.Diversion // what agents are told while the boulder is diverted
	Diverted  bool              // it is by the configuration
	Heartbeat time.Duration     // how long a worker may be silent before its work is given to another one
}

// Page is a part of a boulder's log, and how it stands.
type Page struct {
	Events []boulder.Event
	More   bool         // there are later ones
	Ended  *fault.Fault // why nothing runs the boulder, which is not over; nil: it is at work, or over
}

// pageSize bounds a page of several events, in bytes.
const pageSize = Largest / 2

// Boulder runs a boulder to its end, and gives its status then. While it is paused it waits for an [UpdateResume].
func Boulder(ctx workflow.Context, in Input) (boulder.Status, error) {
	root, _ := workflow.NewDisconnectedContext(ctx) // what ends with ctx does so in no order
	permits, err := limiter.NewPermits(ctx)
	if err != nil {
		return "", err
	}
	f := &flow{in: in, coroutines: &coroutines{root: root}, permits: permits, calls: map[int]*call{}, hosts: map[boulder.AttemptRef]string{}}
	return f.boulder(ctx, f)
}

// ports are what a boulder is run with.
type ports interface {
	orchestrator.Planner
	orchestrator.Judge
	orchestrator.Runner
	RaiseBlocker(ctx context.Context, b boulder.Blocker, turn int) (boulder.Blocker, error)
}

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

// flow is one boulder.
type flow struct {
	*coroutines
	in      Input
	permits *limiter.Permits

	state  *boulder.State // the newest that was committed; it belongs to the current run
	log    []boulder.Event
	resume *orchestrator.Request // what is to be run next
	ended  error                 // of the newest run; nil while it continues

	number int // of calls
	calls  map[int]*call
	hosts  map[boulder.AttemptRef]string // where its session is; see [Report.Host]
}

func (f *flow) status() boulder.Status {
	if f.state == nil {
		return ""
	}
	return f.state.Boulder.Status
}

func (f *flow) orchestrator(p ports) (*orchestrator.Orchestrator, error) {
	return orchestrator.New(orchestrator.Config{
		Project: f.in.Project, Planner: p, Judge: p, Runner: p, Store: f, Limits: &f.in.Limits,
		Diversion: func(b boulder.Boulder) boulder.Diversion {
			if f.in.Diverted || b.Diverted {
				return f.in.Diversion
			}
			return boulder.Diversion{}
		},
		RaiseBlocker: p.RaiseBlocker, Coroutines: f.coroutines, Now: f.now, NewID: func() string { return f.in.BoulderID },
		// What a sub-task needs may have come to a worker since: it is tried.
		Lacks: func(context.Context, string, string) bool { return false },
	})
}

func (f *flow) run(o *orchestrator.Orchestrator) {
	req := *f.resume
	f.resume, f.ended = nil, nil
	for _, err := range o.Run(with(context.Background(), f.root), req) {
		f.ended = err
	}
}

// Commit implements orchestrator.Store: the history has it already.
func (f *flow) Commit(_ context.Context, s *boulder.State, events []boulder.Event) error {
	f.state, f.log = s, append(f.log, events...)
	return nil
}

// Load implements orchestrator.Store.
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

// serve answers what comes from outside.
func (f *flow) serve(ctx workflow.Context, o *orchestrator.Orchestrator) error {
	f.listen(ctx, o)
	return errors.Join(
		workflow.SetQueryHandler(ctx, QueryLog, f.page),
		workflow.SetQueryHandler(ctx, QueryAlone, func(number int) (bool, error) {
			c := f.calls[number]
			return c != nil && c.alone != nil && c.alone(), nil
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdateOrder, func(ctx workflow.Context, what boulder.Order, _ time.Time) (*fault.Fault, error) {
			return fault.Of(o.Order(with(context.Background(), ctx), f.in.BoulderID, what)), nil
		}, workflow.UpdateHandlerOptions{Validator: func(ctx workflow.Context, _ boulder.Order, until time.Time) error {
			return limiter.InTime(ctx, until)
		}}),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdateResume, func(ctx workflow.Context, req orchestrator.Request, _ time.Time) (*fault.Fault, error) {
			if f.ended == nil || f.resume != nil { // it continues with the settings that it was started with
				return fault.Of(o.Order(with(context.Background(), ctx), f.in.BoulderID, boulder.Order{Do: boulder.OrderResume})), nil
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
			told := &told{body: r.Event.Body}
			c.told = append(c.told, told)
			f.wait(uncancelled(with(context.Background(), ctx)), orchestrator.Forever, func() bool { return told.done })
			return fault.Of(told.err), nil
		}),
	)
}

// listen takes in progress, and a cancellation by Temporal's own tools, which is that of the boulder.
func (f *flow) listen(ctx workflow.Context, o *orchestrator.Orchestrator) {
	workflow.Go(f.root, func(own workflow.Context) {
		for progress := workflow.GetSignalChannel(own, SignalProgress); ; {
			var r Report
			progress.Receive(own, &r)
			if c := f.calls[r.Call]; c != nil {
				c.told = append(c.told, &told{body: r.Event.Body})
			}
		}
	})
	workflow.Go(f.root, func(own workflow.Context) {
		ctx.Done().Receive(own, nil)
		_ = o.Order(with(context.Background(), own), f.in.BoulderID, boulder.Order{Do: boulder.OrderCancel}) // or it is over
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
