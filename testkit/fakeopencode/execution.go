package fakeopencode

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
)

// execution runs a session's turns, one after the other, from a wake-up until nothing is left to do.
type execution struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}
	err    error // why it did not succeed; set before done is closed
}

// errDeclined ends a turn: the user rejected a permission without a text, or cancelled a question.
var errDeclined = errors.New("declined")

// wake starts an execution of the inbox, or returns the running one. With an empty inbox nothing happens in it.
func (x *session) wake() *execution {
	if x.run != nil {
		return x.run // it reads the inbox before it ends
	}
	run := &execution{done: make(chan struct{})}
	run.ctx, run.cancel = context.WithCancelCause(x.server.ctx)
	x.run = run
	x.emit("session.execution.started", fields{})
	x.server.work.Go(func() { x.execute(run) })
	return run
}

// stop cancels the executions of the session and its children, without waiting. It reports whether the session's ran.
func (x *session) stop(cause error) (running bool) {
	for _, child := range x.children() {
		child.stop(cause)
	}
	if x.run != nil {
		x.run.cancel(cause)
	}
	return x.run != nil
}

func (x *session) execute(run *execution) {
	x.server.mu.Lock()
	defer x.server.mu.Unlock()
	defer close(run.done)
	defer run.cancel(nil)
	for _, m := range x.Messages { // left running by an earlier server
		for _, c := range m.running() {
			x.failTool(m, c, &turnError{Type: "aborted", Message: "Tool execution was interrupted"})
		}
	}
	run.err = x.turns(run.ctx)
	x.end(run)
}

// turns calls the model until it wants no more tools and the inbox is empty.
func (x *session) turns(ctx context.Context) error {
	more := false
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		a, err := x.agent()
		if err != nil {
			return err // the inbox keeps its prompts
		}
		if x.deliver() {
			more = true
		}
		if !more {
			return nil
		}
		e, err := x.endpoint()
		if err != nil {
			return err
		}
		if more, err = x.step(ctx, a, e); err != nil {
			return err
		}
	}
}

func (x *session) end(run *execution) {
	outcome, about := "succeeded", fields{}
	failure, failed := errors.AsType[*turnError](run.err)
	switch {
	case failed:
		outcome, about = "failed", fields{"error": failure}
	case errors.Is(run.err, errInterrupted):
		outcome, about = "interrupted", fields{"reason": "user"}
	case run.err != nil: // the server ends, or the user declined
		outcome, about = "interrupted", fields{"reason": "shutdown"}
	}
	x.run = nil
	x.Info.Outcome, x.Info.Time.Idle = outcome, now()
	x.add(&message{Type: "idle", Outcome: outcome}) // another one, after an execution that did nothing
	x.emit("session.execution."+outcome, about)
	if errors.Is(run.err, errDeclined) && len(x.Inbox) > 0 {
		x.wake() // after an interrupt the inbox stays parked
	}
}

func (x *session) agent() (*agent, error) {
	name := cmp.Or(x.Info.Agent, "build")
	if a := x.location().config.Agent[name]; a != nil {
		return a, nil
	}
	return nil, &turnError{Type: "unknown", Message: "Agent not found: " + name}
}

// endpoint returns the session's model, or the default.
func (x *session) endpoint() (e endpoint, err error) {
	config := x.location().config
	e.ref.ProviderID, e.ref.ID, _ = strings.Cut(config.Model, "/")
	if x.Info.Model != nil {
		e.ref = *x.Info.Model
	}
	var known bool
	e.provider = config.Provider[e.ref.ProviderID]
	if e.model, known = e.provider.Models[e.ref.ID]; !known {
		return e, &turnError{Type: "provider.no-route", Message: "Model unavailable: " + e.ref.ProviderID + "/" + e.ref.ID}
	}
	return e, nil
}

func (x *session) interrupt(*http.Request) (any, error) {
	return bare{fields{"interrupted": x.stop(errInterrupted)}}, nil
}

// wait answers once the session is idle, for whatever reason.
func (x *session) wait(r *http.Request) (any, error) {
	if x.run != nil {
		await(r.Context(), x.server, x.run.done)
	}
	return nil, nil
}
