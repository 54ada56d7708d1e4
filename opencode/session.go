package opencode

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"strings"
	"time"
)

// ModelRef names a model as OpenCode does: provider and model.
type ModelRef struct {
	ProviderID string `json:"providerID"`
	ModelID    string `json:"modelID"`
}

// Model reads "provider/model".
func Model(name string) ModelRef {
	provider, model, _ := strings.Cut(name, "/")
	return ModelRef{ProviderID: provider, ModelID: model}
}

// IsZero reports whether no model is named; the server then uses its default.
func (m ModelRef) IsZero() bool { return m == ModelRef{} }

func (m ModelRef) String() string {
	if m.IsZero() {
		return ""
	}
	return m.ProviderID + "/" + m.ModelID
}

// sessionModel is the model of a session as OpenCode has it.
type sessionModel struct {
	ProviderID string `json:"providerID"`
	ID         string `json:"id"`
	Variant    string `json:"variant,omitempty"`
}

func modelOf(ref ModelRef, variant string) *sessionModel {
	if ref.IsZero() {
		return nil
	}
	return &sessionModel{ref.ProviderID, ref.ModelID, variant}
}

func (m sessionModel) ref() ModelRef { return ModelRef{m.ProviderID, m.ID} }

// Action is what a [Rule] does with a matching tool call.
type Action string

// The actions of a permission rule.
const (
	Allow Action = "allow"
	Ask   Action = "ask" // waits, for ever if need be, for a reply to the permission request
	Deny  Action = "deny"
)

// Rule is one permission rule of a session; the last matching rule wins. A tool denied for every pattern is not
// offered to the model at all.
type Rule struct {
	Permission string `json:"permission"` // such as "bash", "edit", "*"
	Pattern    string `json:"pattern"`    // such as "*", "git push *"
	Action     Action `json:"action"`
}

// NewSession describes a session to create.
type NewSession struct {
	// Title should not be empty: an untitled session costs a model call for a title.
	Title    string         `json:"title,omitempty"`
	ParentID string         `json:"parentID,omitempty"` // makes the session a child of another one
	Metadata map[string]any `json:"metadata,omitempty"` // stored with the session and given back
	Agent    string         `json:"agent,omitempty"`
	Model    ModelRef       `json:"-"` // defaults, as Variant; pass them with every prompt all the same
	Variant  string         `json:"-"`
	Rules    []Rule         `json:"permission,omitempty"`
}

// Session is OpenCode's record of a session.
type Session struct {
	ID        string         `json:"id"`
	ParentID  string         `json:"parentID"` // empty for a root session
	Directory string         `json:"directory"`
	Title     string         `json:"title"`
	Agent     string         `json:"agent"`
	Metadata  map[string]any `json:"metadata"`
	Rules     []Rule         `json:"permission"`
	Cost      float64        `json:"cost"`   // US dollars so far, without children
	Tokens    Tokens         `json:"tokens"` // so far, without children
	Created   time.Time      `json:"-"`
	Updated   time.Time      `json:"-"`
	// Reverted: the user undid a turn. The next prompt deletes what was undone; until then it can be redone.
	Reverted bool      `json:"-"`
	Archived time.Time `json:"-"` // zero: it is not
}

// UnmarshalJSON reads OpenCode's forms, whose times are nested milliseconds.
func (s *Session) UnmarshalJSON(data []byte) error {
	type plain Session
	in := struct {
		*plain
		Time   struct{ Created, Updated, Archived millis }
		Revert json.RawMessage
		// Of OpenCode 2:

		Location    struct{ Directory string }
		Permissions []v2rule
	}{plain: (*plain)(s)}
	err := unmarshal(data, &in)
	s.Created, s.Updated, s.Archived = in.Time.Created.time(), in.Time.Updated.time(), in.Time.Archived.time()
	s.Reverted = bytes.HasPrefix(in.Revert, []byte("{"))
	s.Directory = cmp.Or(s.Directory, in.Location.Directory)
	for _, r := range in.Permissions {
		s.Rules = append(s.Rules, Rule{v1tool(r.Action), r.Resource, r.Effect})
	}
	return err
}

// millis is a time in milliseconds since 1970; OpenCode's schema allows fractions.
type millis float64

func (m millis) time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(m))
}

// SessionFilter chooses sessions of a directory. The zero value chooses the newest 100.
type SessionFilter struct {
	Title        string    // only those whose title contains it, upper and lower case alike
	Roots        bool      // leaves out the sessions of sub-agents
	UpdatedSince time.Time // leaves out those that nothing has happened in since
}

// StatusType is what a session is doing.
type StatusType string

// What a session is doing.
const (
	Idle  StatusType = "idle"
	Busy  StatusType = "busy"
	Retry StatusType = "retry" // waiting to call the model again after an error
)

// maxStatus bounds the error in a [Status], in bytes. It holds the provider's whole answer.
const maxStatus = 4 << 10

// Status is what a session is doing, and for [Retry] why and until when.
type Status struct {
	Type    StatusType
	Attempt int       // Retry: the number of the try to come, from 1
	Message string    // Retry: the error that made it necessary
	Next    time.Time `json:"-"` // Retry: when the model is called again
}

// UnmarshalJSON reads OpenCode's form.
func (s *Status) UnmarshalJSON(data []byte) error {
	type plain Status
	in := struct {
		*plain
		Next millis
	}{plain: (*plain)(s)}
	err := unmarshal(data, &in)
	s.Message, _ = cutText(s.Message, maxStatus)
	s.Next = in.Next.time()
	return err
}

// TodoTool is the tool with which agents write their todo list. Where OpenCode has none, see [Caps], the tool "todo" of an
// MCP server "manager" goes by this name, which has to be added.
const TodoTool = "todowrite"

// Todo is one item of the agent's own list. It has no id and can only be read.
type Todo struct {
	Content  string `json:"content"`
	Status   string `json:"status"` // pending, in_progress, completed, cancelled; agents also write blocked
	Priority string `json:"priority"`
}

func sessionPath(sessionID string, rest ...string) string {
	path := "/session/" + url.PathEscape(sessionID)
	for _, element := range rest {
		path += "/" + url.PathEscape(element)
	}
	return path
}
