package fakeopencode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// subagent runs another agent in a child session, which inherits its parent's rules and metadata.
func (t *toolCall) subagent() (result, error) {
	parent, s, name, description := t.step.x, t.server(), t.string("agent"), t.string("description")
	if err := t.ask("subagent", name); err != nil {
		return result{}, err
	}
	info := sessionInfo{
		ParentID: parent.Info.ID, Title: description, Agent: name, Model: parent.Info.Model, Location: parent.Info.Location,
	}
	if !s.behaviour.BareChildren {
		info.Permissions, info.Metadata = slices.Clone(parent.Info.Permissions), maps.Clone(parent.Info.Metadata)
	}
	child := s.newSession(info)
	child.enqueue(&message{Type: "user", payload: payload{
		Text: "You are a subagent spawned by another session.\n" + t.string("prompt"),
	}})
	run, id := child.wake(), child.Info.ID
	t.progress(map[string]any{"sessionID": id, "status": "running"})
	if background, _ := t.input["background"].(bool); background {
		s.work.Go(func() {
			<-run.done
			s.mu.Lock()
			defer s.mu.Unlock()
			parent.tellOfChild(child, run, description)
		})
		return result{
			text: fmt.Sprintf("The subagent is working in the background (sessionID: %s). "+
				"You will be notified automatically when it finishes.", id),
			metadata: map[string]any{"sessionID": id, "status": "running"},
		}, nil
	}
	await(t.ctx, s, run.done)
	if t.ctx.Err() != nil {
		child.stop(context.Cause(t.ctx))
		s.unlocked(func() { <-run.done })
		return result{}, t.ctx.Err()
	}
	text, state := child.report(run)
	if state != "completed" {
		return result{}, failed("Subagent failed (sessionID: %s): %s", id, text)
	}
	return result{
		text:     fmt.Sprintf("<subagent sessionID=%q state=\"completed\">\n%s\n</subagent>", id, text),
		metadata: map[string]any{"sessionID": id, "status": "completed"},
	}, nil
}

// report returns the child's last text, or why it did not succeed.
func (x *session) report(run *execution) (text, state string) {
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

// tellOfChild wakes the session after a background sub-agent, with a synthetic message. In between, neither is active.
func (x *session) tellOfChild(child *session, run *execution, description string) {
	if x.server.sessions[x.Info.ID] != x || x.server.ctx.Err() != nil {
		return
	}
	text, state := child.report(run)
	x.enqueue(&message{Type: "synthetic", payload: payload{
		Text: fmt.Sprintf("<subagent sessionID=%q state=%q description=%q>\n%s\n</subagent>",
			child.Info.ID, state, description, text),
		Description: description,
		Metadata:    map[string]any{"source": "subagent", "childID": child.Info.ID, "agent": child.Info.Agent, "state": state},
	}})
	x.wake()
}
