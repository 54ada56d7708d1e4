package opencode

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
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

// UnmarshalJSON reads OpenCode's form, whose times are nested milliseconds.
func (s *Session) UnmarshalJSON(data []byte) error {
	type plain Session
	in := struct {
		*plain
		Time   struct{ Created, Updated, Archived millis }
		Revert json.RawMessage
	}{plain: (*plain)(s)}
	err := unmarshal(data, &in)
	s.Created, s.Updated, s.Archived = in.Time.Created.time(), in.Time.Updated.time(), in.Time.Archived.time()
	s.Reverted = bytes.HasPrefix(in.Revert, []byte("{"))
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

// CreateSession makes a session. It is not idempotent: to survive a crash, put a tag of your own into the title and
// look for it with [Directory.Sessions].
func (d *Directory) CreateSession(ctx context.Context, n NewSession) (Session, error) {
	type model struct {
		ProviderID string `json:"providerID"`
		ID         string `json:"id"`
		Variant    string `json:"variant,omitempty"`
	}
	body := struct {
		NewSession
		Model *model `json:"model,omitempty"`
	}{NewSession: n}
	if !n.Model.IsZero() {
		body.Model = &model{n.Model.ProviderID, n.Model.ModelID, n.Variant}
	}
	var out Session
	err := d.call(ctx, request{
		op: "create session", method: http.MethodPost, path: "/session", in: body, out: &out,
	})
	return out, err
}

// SessionFilter chooses sessions of a directory. The zero value chooses the newest 100.
type SessionFilter struct {
	Title        string    // only those whose title contains it, upper and lower case alike
	Roots        bool      // leaves out the sessions of sub-agents
	UpdatedSince time.Time // leaves out those that nothing has happened in since
}

// Sessions gives the directory's sessions, those that something happened in last first; also those made before the
// server was last started.
func (d *Directory) Sessions(ctx context.Context, f SessionFilter) ([]Session, error) {
	query := url.Values{}
	if f.Title != "" {
		query.Set("search", f.Title)
	}
	if f.Roots {
		query.Set("roots", "true")
	}
	if !f.UpdatedSince.IsZero() {
		query.Set("start", strconv.FormatInt(f.UpdatedSince.UnixMilli(), 10))
	}
	return get[[]Session](ctx, d, "list sessions", "/session", query)
}

// Session gives one session; the error matches [ErrNotFound] if there is none.
func (d *Directory) Session(ctx context.Context, sessionID string) (Session, error) {
	return get[Session](ctx, d, "get session", sessionPath(sessionID), nil)
}

// Children gives the sessions that sub-agents of this one work in, one level deep.
func (d *Directory) Children(ctx context.Context, sessionID string) ([]Session, error) {
	return get[[]Session](ctx, d, "list child sessions", sessionPath(sessionID, "children"), nil)
}

// DeleteSession removes a session for good. One that is gone already is no error.
func (d *Directory) DeleteSession(ctx context.Context, sessionID string) error {
	return ignoreNotFound(d.call(ctx, request{
		op: "delete session", method: http.MethodDelete, path: sessionPath(sessionID),
	}))
}

// Abort stops the turn of a session, if there is one. It returns before the turn has ended. What follows:
// [SessionFailed] with [MessageAborted] and the idle status (both missing if the model had not been called yet), the
// running tool's end, the message's completion with that error, idle again. The second idle can come after the next
// prompt was taken; do not take it for that prompt's end. A session that does not exist is no error.
func (d *Directory) Abort(ctx context.Context, sessionID string) error {
	return d.post(ctx, "abort session", sessionPath(sessionID, "abort"), nil)
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

// Statuses gives what the directory's sessions are doing, by session id. Idle sessions are absent, and so is one
// whose first prompt was admitted a moment ago: absence alone does not prove that a turn is over.
func (d *Directory) Statuses(ctx context.Context) (map[string]Status, error) {
	return get[map[string]Status](ctx, d, "get session statuses", "/session/status", nil)
}

// Todo is one item of the agent's own list. It has no id and can only be read.
type Todo struct {
	Content  string `json:"content"`
	Status   string `json:"status"` // pending, in_progress, completed, cancelled; agents also write blocked
	Priority string `json:"priority"`
}

// Todos gives the session's todo list as the agent last wrote it.
func (d *Directory) Todos(ctx context.Context, sessionID string) ([]Todo, error) {
	return get[[]Todo](ctx, d, "get todos", sessionPath(sessionID, "todo"), nil)
}

func sessionPath(sessionID string, rest ...string) string {
	path := "/session/" + url.PathEscape(sessionID)
	for _, element := range rest {
		path += "/" + url.PathEscape(element)
	}
	return path
}
