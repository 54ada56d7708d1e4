package opencode

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

func (r *v2reader) answerEvents(s *v2sessionState, kind string, e v2event, d v2data) []Payload {
	if s.answer.ID != d.AssistantMessageID {
		r.begin(s, d.AssistantMessageID, e.Created.time())
	}
	part := Part{SessionID: s.sessionID, MessageID: s.answer.ID}
	m := &s.answer
	switch kind {
	case "step.started":
		r.wait(d.SessionID, nil)
		m.Agent, m.Model, m.Variant = d.Agent, d.Model.ref(), d.Model.Variant
		return []Payload{s.busy(), MessageUpdated{*m}}
	case "step.ended":
		m.Finish, m.Cost, m.Tokens, m.Completed = d.Finish, d.Cost, d.Tokens, e.Created.time()
		part.ID, part.Type, part.Snapshot = m.ID+"/finish", PartStepFinish, d.Snapshot
		return []Payload{PartUpdated{part}, MessageUpdated{*m}}
	case "step.failed":
		m.Completed = e.Created.time()
		if d.Error != nil {
			m.Error = d.Error.toV1()
		}
		return []Payload{MessageUpdated{*m}}
	case "text.ended", "reasoning.ended":
		name, _, _ := strings.Cut(kind, ".")
		part.ID, part.Type, part.Text = m.ID+textPart(name, d.Ordinal), PartType(name), d.Text
		part.cut()
		return []Payload{PartUpdated{part}}
	}
	return nil
}

// begin starts a new answer. If no event named the prompt that it follows, the server is asked.
func (r *v2reader) begin(s *v2sessionState, messageID string, at time.Time) {
	if s.parent == "" {
		before := ask(r, func(ctx context.Context) ([]Message, error) { return r.Messages(ctx, s.sessionID, 1) })
		for _, m := range before {
			s.parent = m.Info.ParentID
			if m.Info.Role == RoleUser {
				s.parent = m.Info.ID
			}
		}
	}
	clear(s.tools)
	s.answer = MessageInfo{ID: messageID, SessionID: s.sessionID, Role: RoleAssistant, ParentID: s.parent, Created: at}
}

// toolEvents handles events about a tool call, and returns the whole state of the call after each.
func (r *v2reader) toolEvents(s *v2sessionState, kind string, d v2data) []Payload {
	key := d.AssistantMessageID + "/" + d.ID
	c := s.tools[key]
	if c == nil {
		c = &v2content{Type: "tool", ID: d.ID, Name: d.Name, State: v2state{Status: "streaming"}}
		if d.Name == "" { // announced before the connection, or long ago
			for _, known := range r.get(s, d.AssistantMessageID).Content {
				if known.ID == d.ID && known.Type == "tool" {
					*c = known
				}
			}
		}
		s.tools[key] = c
	}
	if d.Metadata != nil {
		c.State.Metadata = d.Metadata
	}
	switch kind {
	case "tool.called":
		c.State.Status, c.State.Input = "running", d.Input
	case "tool.success":
		c.State.Status, c.State.Content = string(ToolCompleted), d.Content
	case "tool.failed":
		c.State.Status, c.State.Content, c.State.Error = string(ToolError), d.Content, d.Error
	}
	p := Part{ID: key, SessionID: s.sessionID, MessageID: d.AssistantMessageID, Type: PartTool, Tool: c.call()}
	p.cut()
	told := []Payload{PartUpdated{p}}
	if kind == "tool.success" {
		switch c.Name {
		case v2tools[TodoTool]:
			told = append(told, TodosUpdated{todosOf(c.State.Input)})
		case v2tools["task"]:
			var child struct {
				SessionID  string
				Background bool
			}
			if _ = json.Unmarshal(p.Tool.Metadata, &child); child.Background {
				s.children[child.SessionID] = true
			}
		}
	}
	return told
}
