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

// Model parses "provider/model".
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

const (
	Allow Action = "allow"
	Ask   Action = "ask" // waits for a reply to the permission request, if need be for ever
	Deny  Action = "deny"
)

// Rule is a permission rule of a session; the last match wins. The model does not see a tool denied for every pattern.
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
	Model    ModelRef       `json:"-"` // a default, as is Variant; pass both with every prompt all the same
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
	// Reverted says that the user undid a turn, which can be redone until the next prompt deletes it.
	Reverted bool      `json:"-"`
	Archived time.Time `json:"-"` // zero if not archived
}

// UnmarshalJSON reads OpenCode's forms, with nested times in milliseconds.
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
	s.Rules = append(s.Rules, v1rulesOf(in.Permissions)...)
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

// SessionFilter selects sessions of a directory. The zero value selects the newest 100.
type SessionFilter struct {
	Title        string    // only sessions whose title contains it, ignoring case
	Roots        bool      // excludes the sessions of sub-agents
	UpdatedSince time.Time // only sessions that were updated since
}

// StatusType is what a session is doing.
type StatusType string

const (
	Idle  StatusType = "idle"
	Busy  StatusType = "busy"
	Retry StatusType = "retry" // waiting to call the model again after an error
)

// maxStatus limits Status.Message, which holds the provider's whole answer, in bytes.
const maxStatus = 4 << 10

// Status is what a session is doing, and for [Retry] why and until when.
type Status struct {
	Type    StatusType
	Attempt int       // Retry: the number of the next try, from 1
	Message string    // Retry: the error that caused it
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

// TodoTool is the tool with which agents write their todo list. Where OpenCode has none, see [Caps], it stands for the
// tool "todo" of an MCP server "manager", which has to be added.
const TodoTool = "todowrite"

// Todo is one item of the agent's own list. It has no id and is read-only.
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
