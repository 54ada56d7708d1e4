package fakeopencode

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// subagent has another agent do a task in a session of its own, a child of the caller's. The child does not get the
// rules of its parent.
func (t *toolCall) subagent() (result, error) {
	parent := t.step.x
	s, name := parent.server, t.string("agent")
	s.mu.Lock()
	config := s.locations[parent.Info.Location.Directory].config
	chosen, depth := config.Agents[name], 1
	for above := parent; above != nil && above.Info.ParentID != ""; depth++ {
		above = s.sessions[above.Info.ParentID]
	}
	s.mu.Unlock()
	switch {
	case depth > config.Depth:
		return result{}, failed(`Subagent depth limit reached (%d). Increase "experimental.subagent_depth" to allow nested subagents.`,
			config.Depth)
	case chosen == nil:
		return result{}, failed("Unknown agent: %s", name)
	case chosen.mode == "primary":
		return result{}, failed("Agent %s cannot run as a subagent", name)
	}
	if err := t.ask("subagent", name); err != nil {
		return result{}, err
	}
	s.mu.Lock()
	child, err := parent.childFor(t, chosen)
	if err != nil {
		s.mu.Unlock()
		return result{}, err
	}
	prompt := "You are a subagent spawned by another session.\n" + t.string("prompt")
	child.enqueue(&inboxItem{
		ID: s.newID("msg_"), Created: now(), Type: "user", Payload: payload{Text: prompt},
	})
	run := child.wake(false)
	s.mu.Unlock()
	id := child.Info.ID
	t.progress(map[string]any{"sessionID": id, "status": "running"})
	if background, _ := t.input["background"].(bool); background {
		s.work.Go(func() { parent.tellOfChild(child, run, t.string("description")) })
		return result{
			text: fmt.Sprintf("The subagent is working in the background (sessionID: %s). "+
				"You will be notified automatically when it finishes.", id),
			metadata: map[string]any{"sessionID": id, "status": "running"},
		}, nil
	}
	select {
	case <-run.done:
	case <-t.ctx.Done():
		s.mu.Lock()
		child.stop(context.Cause(t.ctx))
		s.mu.Unlock()
		<-run.done
		return result{}, t.ctx.Err()
	}
	text, state := child.report(run)
	switch state {
	case "error":
		return result{}, failed("Subagent failed (sessionID: %s): %s", id, text)
	case "cancelled":
		return result{}, failed("Subagent cancelled (sessionID: %s)", id)
	}
	return result{
		text:     fmt.Sprintf("<subagent sessionID=%q state=\"completed\">\n%s\n</subagent>", id, text),
		metadata: map[string]any{"sessionID": id, "status": "completed"},
	}, nil
}

func (x *session) childFor(t *toolCall, a *agent) (*session, error) {
	model := a.model
	if model == nil {
		model = x.Info.Model
	}
	return x.server.newSession(newSession{
		ParentID: x.Info.ID, Title: t.string("description"), Agent: a.id, Model: model, Location: &x.Info.Location,
	})
}

// report is what the child said last, or why it did not succeed.
func (x *session) report(run *execution) (text, state string) {
	x.server.mu.Lock()
	defer x.server.mu.Unlock()
	if failure, failed := errors.AsType[*turnError](run.err); failed {
		return failure.Message, "error"
	} else if run.err != nil {
		return "Subagent cancelled", "cancelled"
	}
	for _, m := range slices.Backward(x.Messages) {
		if m.Type == "assistant" && m.said() != "" {
			return m.said(), "completed"
		}
	}
	return "Subagent completed without a text response.", "completed"
}

// tellOfChild has the session go on when a sub-agent in the background has ended.
func (x *session) tellOfChild(child *session, run *execution, description string) {
	<-run.done
	text, state := child.report(run)
	x.notify(payload{
		Text: fmt.Sprintf("<subagent sessionID=%q state=%q description=%q>\n%s\n</subagent>",
			child.Info.ID, state, description, text),
		Description: description,
		Metadata:    map[string]any{"source": "subagent", "childID": child.Info.ID, "agent": child.Info.Agent, "state": state},
	})
}

// notify gives the session a text that nobody typed, and wakes it. Between the end of the work and that, nothing is
// active.
func (x *session) notify(text payload) {
	s := x.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[x.Info.ID] != x || s.ctx.Err() != nil {
		return
	}
	x.enqueue(&inboxItem{ID: s.newID("msg_"), Created: now(), Type: "synthetic", Payload: text})
	x.wake(false)
}
