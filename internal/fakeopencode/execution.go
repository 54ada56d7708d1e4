package fakeopencode

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
)

// execution is what runs a session from a wake-up until nothing is left to do: turns of the agent, one after the other.
type execution struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}
	err    error // why it did not succeed; set before done is closed
}

// errDeclined ends a turn: the user rejected a request, or a question, without a word.
var errDeclined = errors.New("declined")

// wake has an idle session do what is in its inbox, or, with again, answer once more what it has. Without either it is
// an execution in which nothing happens.
func (x *session) wake(again bool) *execution {
	if x.run != nil {
		return x.run // it looks into the inbox before it ends
	}
	run := &execution{done: make(chan struct{})}
	run.ctx, run.cancel = context.WithCancelCause(x.server.ctx)
	x.run = run
	x.emit("session.execution.started", fields{})
	x.server.work.Go(func() { x.execute(run, again) })
	return run
}

// stop ends the session's execution and those of its children, if there are any, and does not wait for that.
func (x *session) stop(cause error) (running bool) {
	for _, child := range x.server.children(x) {
		child.stop(cause)
	}
	if x.run != nil {
		x.run.cancel(cause)
	}
	return x.run != nil
}

func (x *session) execute(run *execution, again bool) {
	s := x.server
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(run.done)
	defer run.cancel(nil)
	x.settleOldTools()
	var worked bool
	worked, run.err = x.turns(run.ctx, again)
	x.end(run, worked)
}

// turns calls the model until it wants no more tools and the inbox is empty. It reports whether anything was to be done.
func (x *session) turns(ctx context.Context, more bool) (worked bool, err error) {
	for {
		if err := context.Cause(ctx); err != nil {
			return worked, err
		}
		a, err := x.agent()
		if err != nil {
			return worked, err // and what is in the inbox stays there
		}
		if x.deliver() {
			more = true
		}
		if !more {
			return worked, nil
		}
		worked = true
		m, ref, err := x.model(a)
		if err != nil {
			return worked, err
		}
		if more, err = x.step(ctx, a, m, ref); err != nil {
			return worked, err
		}
	}
}

func (x *session) end(run *execution, worked bool) {
	outcome := "succeeded"
	reason := ""
	failed, _ := errors.AsType[*turnError](run.err)
	switch {
	case failed != nil:
		outcome = "failed"
	case errors.Is(run.err, errInterrupted):
		outcome, reason = "interrupted", "user"
	case run.err != nil: // the server ends, or the user declined something
		outcome, reason = "interrupted", "shutdown"
	}
	x.run = nil
	x.Info.Time.Updated = now()
	if worked || run.err != nil {
		x.Info.Outcome, x.Info.Time.Idle = outcome, now()
		x.add(&message{Type: "idle", Outcome: outcome})
	}
	switch outcome {
	case "failed":
		x.emit("session.execution.failed", fields{"error": failed})
	case "interrupted":
		x.emit("session.execution.interrupted", fields{"reason": reason})
	default:
		x.emit("session.execution.succeeded", fields{})
	}
	if errors.Is(run.err, errDeclined) && len(x.Inbox) > 0 {
		x.wake(false) // after an interrupt by the user it stays parked
	}
}

// settleOldTools turns calls that an earlier server left behind into errors.
func (x *session) settleOldTools() {
	for _, m := range x.Messages {
		for _, c := range m.Content {
			if c.unfinished() {
				x.failTool(m, c, &turnError{Type: "aborted", Message: "Tool execution was interrupted"})
			}
		}
	}
}

func (x *session) agent() (*agent, error) {
	l, err := x.server.at(x.Info.Location.Directory)
	if err != nil {
		return nil, &turnError{Type: "unknown", Message: err.Error()}
	}
	name := cmp.Or(x.Info.Agent, l.config.DefaultAgent, "build")
	if a := l.config.Agents[name]; a != nil {
		return a, nil
	}
	return nil, &turnError{Type: "unknown", Message: "Agent not found: " + name}
}

// model is the one that the session uses: its own, its agent's or the default.
func (x *session) model(a *agent) (endpoint, modelRef, error) {
	l := x.server.locations[x.Info.Location.Directory]
	ref := parseModel(l.config.Model)
	for _, chosen := range []*modelRef{a.model, x.Info.Model} {
		if chosen != nil {
			ref = *chosen
		}
	}
	p, known := l.config.Providers[ref.ProviderID]
	m, has := p.Models[ref.ID]
	if !known || !has {
		return endpoint{}, ref, &turnError{
			Type: "provider.no-route", Message: "Model unavailable: " + ref.ProviderID + "/" + ref.ID,
		}
	}
	return endpoint{p, m, ref.ID, x.server.behaviour.Retry}, ref, nil
}

func (x *session) interrupt(*http.Request) (any, error) {
	return bare{fields{"interrupted": x.stop(errInterrupted)}}, nil
}

// wait answers when the session is idle, however that came about.
func (s *Server) wait(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	x, err := s.session(r)
	var run *execution
	if err == nil {
		run = x.run
	}
	s.mu.Unlock()
	if err != nil {
		writeError(w, err)
		return
	}
	if run != nil {
		select {
		case <-run.done:
		case <-r.Context().Done():
			return
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// running lists the tool calls of a message that have no end yet.
func (m *message) running() []*content {
	return slices.DeleteFunc(slices.Clone(m.Content), func(c *content) bool { return !c.unfinished() })
}
