package opencode

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Roles of a message.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
)

// Values of [MessageInfo.Finish].
const (
	FinishStop      = "stop"
	FinishToolCalls = "tool-calls" // another message of the same turn follows
	FinishLength    = "length"     // the answer was truncated
	FinishUnknown   = "unknown"
)

// Tokens counts what a model read and wrote. Total input is Input + CacheRead +
// CacheWrite.
type Tokens struct {
	Input      int64
	Output     int64
	Reasoning  int64
	CacheRead  int64
	CacheWrite int64
}

// UnmarshalJSON reads OpenCode's form.
func (t *Tokens) UnmarshalJSON(data []byte) error {
	var wire struct {
		Input, Output, Reasoning float64
		Cache                    struct{ Read, Write float64 }
	}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	*t = Tokens{
		Input: int64(wire.Input), Output: int64(wire.Output), Reasoning: int64(wire.Reasoning),
		CacheRead: int64(wire.Cache.Read), CacheWrite: int64(wire.Cache.Write),
	}
	return nil
}

// MessageInfo is a message without its parts. One turn of the agent is one user
// message and, for each call of the model, one assistant message whose ParentID is
// the user message.
type MessageInfo struct {
	ID        string
	SessionID string
	Role      string
	Agent     string
	Model     ModelRef
	Created   time.Time

	// Of assistant messages only:

	ParentID  string
	Completed time.Time // zero while the model or its tools work, and for ever if the server died
	Finish    string    // empty until the model has answered
	Error     *TurnError
	Cost      float64 // US dollars
	Tokens    Tokens
	Compacted bool // the message is the summary of a compaction
	// Structured is the answer to a prompt with a JSON schema, not checked against it.
	Structured json.RawMessage

	// Of user messages only: what changed during the turn, set once it is over.
	Diffs []FileDiff
}

// UnmarshalJSON reads OpenCode's two forms, in which "model" and "summary" differ
// between user and assistant messages.
func (m *MessageInfo) UnmarshalJSON(data []byte) error {
	var wire struct {
		ID         string     `json:"id"`
		SessionID  string     `json:"sessionID"`
		Role       string     `json:"role"`
		ParentID   string     `json:"parentID"`
		Agent      string     `json:"agent"`
		Model      ModelRef   `json:"model"`
		ProviderID string     `json:"providerID"`
		ModelID    string     `json:"modelID"`
		Finish     string     `json:"finish"`
		Error      *TurnError `json:"error"`
		Cost       float64    `json:"cost"`
		Tokens     Tokens     `json:"tokens"`
		Time       struct {
			Created   millis `json:"created"`
			Completed millis `json:"completed"`
		} `json:"time"`
		Structured json.RawMessage `json:"structured"`
		Summary    json.RawMessage `json:"summary"`
	}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	*m = MessageInfo{
		ID: wire.ID, SessionID: wire.SessionID, Role: wire.Role, ParentID: wire.ParentID, Agent: wire.Agent,
		Model: ModelRef{
			ProviderID: cmp.Or(wire.ProviderID, wire.Model.ProviderID), ModelID: cmp.Or(wire.ModelID, wire.Model.ModelID),
		},
		Created: wire.Time.Created.time(), Completed: wire.Time.Completed.time(),
		Finish: wire.Finish, Error: wire.Error, Cost: wire.Cost, Tokens: wire.Tokens,
		Compacted: string(wire.Summary) == "true", Structured: wire.Structured,
	}
	if wire.Role == RoleUser && len(wire.Summary) > 0 {
		var summary struct {
			Diffs []FileDiff `json:"diffs"`
		}
		if err := json.Unmarshal(wire.Summary, &summary); err != nil {
			return err
		}
		m.Diffs = summary.Diffs
	}
	return nil
}

// Message is a message with its parts, in order.
type Message struct {
	Info  MessageInfo `json:"info"`
	Parts []Part      `json:"parts"`
}

// Text joins what the message says, without tools, reasoning and parts that
// nobody wrote.
func (m Message) Text() string {
	var text string
	for _, part := range m.Parts {
		if part.Type == PartText && !part.Synthetic {
			text += part.Text
		}
	}
	return text
}

const (
	messagePage  = 100
	cursorHeader = "X-Next-Cursor"
)

// Messages gives the newest messages of a session, oldest first: at most limit of
// them, or all for 0. They are read in pages, so that a long session does not
// come as one huge answer. The server refuses (400, for ever) to list a session
// that had a prompt with a JSON schema; see [Directory.Ask].
func (d *Directory) Messages(ctx context.Context, sessionID string, limit int) ([]Message, error) {
	var newestFirst []Message
	var before string
	for {
		size := messagePage
		if limit > 0 {
			size = min(size, limit-len(newestFirst))
		}
		page, next, err := d.messagePage(ctx, sessionID, size, before)
		if err != nil {
			return nil, err
		}
		slices.Reverse(page)
		newestFirst = append(newestFirst, page...)
		if next == "" || len(page) == 0 || (limit > 0 && len(newestFirst) >= limit) {
			slices.Reverse(newestFirst)
			return newestFirst, nil
		}
		before = next
	}
}

func (d *Directory) messagePage(
	ctx context.Context, sessionID string, size int, before string,
) (page []Message, next string, err error) {
	query := url.Values{"limit": {strconv.Itoa(size)}}
	if before != "" {
		query.Set("before", before)
	}
	var header http.Header
	err = d.call(ctx, request{
		op: "list messages", method: http.MethodGet, path: sessionPath(sessionID, "message"),
		query: query, out: &page, header: &header,
	})
	return page, header.Get(cursorHeader), err
}

// Message gives one message; the error matches [ErrNotFound] if it never arrived.
func (d *Directory) Message(ctx context.Context, sessionID, messageID string) (Message, error) {
	var out Message
	err := d.call(ctx, request{
		op: "get message", method: http.MethodGet, path: sessionPath(sessionID, "message", messageID), out: &out,
	})
	return out, err
}
