package opencode

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// v2message has the fields of all types of messages.
type v2message struct {
	ID, Type, Agent string
	Text            string // for user and synthetic
	Description     string // for synthetic
	Metadata        map[string]any
	Files           []json.RawMessage
	Model           sessionModel
	Content         []v2content // for assistant, as are the following
	Snapshot        struct{ End string }
	Finish          string
	Cost            float64
	Tokens          Tokens
	Error           *v2error
	Summary, Status string // for compaction
	Time            struct{ Created, Completed millis }
}

type v2content struct {
	Type, Text, ID, Name string
	State                v2state
}

type v2state struct {
	Status   string
	Input    json.RawMessage // a string while the model writes it
	Content  []struct{ Text string }
	Metadata json.RawMessage
	Error    *v2error
}

type v2error struct {
	Type, Message string
	Status        int // HTTP status of the provider's answer
}

func (e *v2error) toV1() *TurnError {
	status, named := map[string]int{
		"provider.auth": http.StatusUnauthorized, "provider.quota": http.StatusPaymentRequired,
		"provider.invalid-request": http.StatusBadRequest, "provider.rate-limit": http.StatusTooManyRequests,
		"provider.internal": http.StatusInternalServerError, "provider.transport": 0, "provider.unknown": 0,
	}[e.Type]
	missing := strings.Contains(strings.ToLower(e.Message), "agent") && strings.Contains(e.Message, "not found")
	switch {
	case e.Type == "aborted":
		return &TurnError{Name: MessageAborted, Message: e.Message}
	case e.Type == "provider.no-route":
		return &TurnError{Name: UnknownError, Message: modelNotFound + e.Message}
	case strings.Contains(e.Type, "overflow"):
		return &TurnError{Name: ContextOverflow, Message: e.Message}
	case e.Type == "provider.content-filter":
		return &TurnError{Name: ContentFilter, Message: e.Message}
	case named || e.Status != 0:
		status = cmp.Or(e.Status, status)
		passing := status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
		return &TurnError{
			Name: APIError, Message: e.Message, StatusCode: status, Retryable: passing || e.Type == "provider.transport",
		}
	case missing && !strings.HasPrefix(e.Message, agentNotFound):
		return &TurnError{Name: UnknownError, Message: agentNotFound + e.Message}
	}
	return &TurnError{Name: UnknownError, Message: e.Message}
}

// toV1 translates the message into the terms of OpenCode 1; ok is false if it has no counterpart there. parent is
// the newest message before it that a user or a program wrote: nothing else links an answer to its prompt. Ids of parts
// derive from the message's id, as in events, see [v2reader].
func (m v2message) toV1(sessionID, parent string) (out Message, ok bool) {
	out.Info = MessageInfo{
		ID: m.ID, SessionID: sessionID, Role: RoleUser, Agent: m.Agent, Model: m.Model.ref(), Variant: m.Model.Variant,
		Created: m.Time.Created.time(),
	}
	add := func(id string, p Part) {
		p.ID, p.SessionID, p.MessageID = m.ID+id, sessionID, m.ID
		out.Parts = append(out.Parts, p)
	}
	info := &out.Info
	switch m.Type {
	case "user", "synthetic":
		p := Part{Type: PartText, Text: m.Text, Metadata: m.Metadata}
		p.Synthetic = m.Type == "synthetic" || m.Metadata[explanation] != nil
		if child, ok := m.Metadata["childID"].(string); ok && p.Synthetic { // as OpenCode 1 reports its end
			p.Text = fmt.Sprintf("<task id=%q state=%q>\n%s", child, m.Metadata["state"], m.Text)
		}
		add("/text", p)
		for i := range m.Files {
			add("/file"+strconv.Itoa(i), Part{Type: "file"})
		}
		return out, m.Type == "synthetic" || original(m.ID) == m.ID // otherwise it is a repetition
	case "assistant":
		info.Role, info.ParentID, info.Completed = RoleAssistant, parent, m.Time.Completed.time()
		info.Finish, info.Cost, info.Tokens = m.Finish, m.Cost, m.Tokens
		if m.Error != nil {
			info.Error = m.Error.toV1()
		}
		count := map[string]int{}
		for _, c := range m.Content {
			switch c.Type {
			case "text", "reasoning":
				add(textPart(c.Type, count[c.Type]), Part{Type: PartType(c.Type), Text: c.Text})
				count[c.Type]++
			case "tool":
				add("/"+c.ID, Part{Type: PartTool, Tool: c.call()})
			}
		}
		if m.Finish != "" {
			add("/finish", Part{Type: PartStepFinish, Snapshot: m.Snapshot.End})
		}
		return out, true
	case "compaction":
		info.Role, info.ParentID, info.Compacted = RoleAssistant, parent, true
		if m.Status == "completed" {
			info.Completed, info.Finish = info.Created, FinishStop
		}
		add("/text", Part{Type: PartText, Text: m.Summary})
		return out, m.Status != "failed"
	}
	return out, false
}

// textPart returns what follows the message's id in the id of a text part. ordinal counts the parts of the same type.
func textPart(kind string, ordinal int) string { return "/" + kind + strconv.Itoa(ordinal) }

func (c v2content) call() *ToolCall {
	call := &ToolCall{
		CallID: c.ID, Tool: v1tool(c.Name), State: ToolState(c.State.Status), Title: c.title(), Metadata: v1metadata(c),
	}
	if c.State.Status == "streaming" {
		call.State = ToolPending
	} else {
		call.Input = v1input(c.Name, c.State.Input)
	}
	var texts []string
	for _, t := range c.State.Content {
		texts = append(texts, t.Text)
	}
	call.Output = strings.Join(texts, "\n")
	if c.State.Error != nil {
		call.Error = c.State.Error.Message
	}
	return call
}

// title returns the subject of a completed call, as OpenCode 1 reports it.
func (c v2content) title() string {
	if c.State.Status != string(ToolCompleted) {
		return ""
	}
	var in struct{ Description, Path, Pattern, URL, Query, Name string }
	_ = unmarshal(c.State.Input, &in) // odd input has no title
	return cmp.Or(in.Description, in.Path, in.Pattern, in.URL, in.Query, in.Name)
}

// v2fields maps, by tool, the OpenCode 2 names of arguments to those in OpenCode 1, where they differ.
var v2fields = map[string]map[string]string{
	"read": {"path": "filePath"}, "write": {"path": "filePath"}, "edit": {"path": "filePath"},
	"subagent": {"agent": "subagent_type", "sessionID": "task_id"},
}

func v1input(tool string, input json.RawMessage) json.RawMessage {
	var args map[string]json.RawMessage
	if v2fields[tool] == nil || json.Unmarshal(input, &args) != nil {
		return input
	}
	for now, old := range v2fields[tool] {
		if value, has := args[now]; has {
			args[old] = value
			delete(args, now)
		}
	}
	renamed, _ := json.Marshal(args) // cannot fail: it was JSON
	return renamed
}

// v1metadata translates the metadata of a call, as far as it is used.
func v1metadata(c v2content) json.RawMessage {
	switch c.Name {
	case "subagent":
		var in struct{ SessionID, Status string }
		var args struct{ Background bool }
		_, _ = json.Unmarshal(c.State.Metadata, &in), json.Unmarshal(c.State.Input, &args)
		said, _ := json.Marshal(map[string]any{"sessionId": in.SessionID, "background": args.Background})
		return said
	case "edit", "write", "patch":
		var in struct {
			Files []struct{ File, Patch string }
		}
		if json.Unmarshal(c.State.Metadata, &in) == nil && len(in.Files) > 0 {
			files, diff := []map[string]string{}, ""
			for _, f := range in.Files {
				files = append(files, map[string]string{"filePath": f.File})
				diff += f.Patch
			}
			said, _ := json.Marshal(map[string]any{"files": files, "diff": diff})
			return said
		}
	}
	return c.State.Metadata
}

// conversation translates messages, oldest first, into the terms of OpenCode 1.
type conversation struct {
	sessionID string
	parent    string       // of the next answer
	agent     string       // the last one chosen, if known
	model     sessionModel // likewise
}

// next translates the next message; ok is false if it has no counterpart in OpenCode 1.
func (c *conversation) next(m v2message) (out Message, ok bool) {
	out, ok = m.toV1(c.sessionID, c.parent)
	switch m.Type {
	case "agent-switched":
		c.agent = m.Agent
	case "model-switched":
		c.model = m.Model
	case "assistant":
		c.agent, c.model = m.Agent, m.Model
	case "user", "synthetic":
		c.parent = original(m.ID)
		out.Info.Agent, out.Info.Model, out.Info.Variant = c.agent, c.model.ref(), c.model.Variant
	}
	return out, ok
}

// Messages reads back to a prompt, the parent of the messages after it. Few messages have no counterpart in OpenCode 1
// and most belong to the newest turn, so that one page usually suffices.
func (v v2) Messages(ctx context.Context, sessionID string, limit int) (all []Message, err error) {
	var newest []v2message
	shown, c := 0, conversation{sessionID: sessionID}
	query := url.Values{"limit": {strconv.Itoa(min(v2page, limit+10))}, "order": {"desc"}}
	err = v2pages(ctx, v, "list messages", v2path(sessionID, "message"), query, func(m v2message) bool {
		newest = append(newest, m)
		if _, ok := m.toV1(sessionID, ""); ok {
			shown++
		}
		return shown < limit || m.Type != "user" && m.Type != "synthetic"
	})
	if err != nil {
		return nil, err
	}
	for _, m := range slices.Backward(newest) {
		if next, ok := c.next(m); ok {
			all = append(all, next)
		}
	}
	return all[max(0, len(all)-limit):], nil
}

func (v v2) EachMessage(ctx context.Context, sessionID string) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		c, left := conversation{sessionID: sessionID}, false
		query := url.Values{"limit": {strconv.Itoa(v2page)}, "order": {"asc"}}
		err := v2pages(ctx, v, "list messages", v2path(sessionID, "message"), query, func(m v2message) bool {
			if next, ok := c.next(m); ok {
				left = !yield(next, nil)
			}
			return !left
		})
		if err != nil && !left {
			yield(Message{}, err)
		}
	}
}

func (v v2) message(ctx context.Context, sessionID, messageID string) (v2message, error) {
	return getData[v2message](ctx, v, "get message", v2path(sessionID, "message", messageID), nil)
}

func (v v2) Message(ctx context.Context, sessionID, messageID string) (Message, error) {
	m, err := v.message(ctx, sessionID, messageID)
	out, _ := m.toV1(sessionID, "")
	return out, err
}
