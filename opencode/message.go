package opencode

import (
	"context"
	"encoding/json"
	"iter"
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
	s := scanBytes(data)
	*t = readTokens(s)
	return s.finish()
}

func readTokens(s *scanner) Tokens {
	var t Tokens
	for key := range s.object() {
		switch key {
		case "input":
			t.Input = int64(s.number())
		case "output":
			t.Output = int64(s.number())
		case "reasoning":
			t.Reasoning = int64(s.number())
		case "cache":
			for key := range s.object() {
				switch key {
				case "read":
					t.CacheRead = int64(s.number())
				case "write":
					t.CacheWrite = int64(s.number())
				}
			}
		}
	}
	return t
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
	Variant   string // of the model, such as "high"; empty: its default
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
	// Without the patches, for which there is [Directory.Diff].
	Diffs []FileDiff
}

// UnmarshalJSON reads OpenCode's two forms, in which "model" and "summary" differ
// between user and assistant messages.
func (m *MessageInfo) UnmarshalJSON(data []byte) error {
	s := scanBytes(data)
	*m = readInfo(s, whole)
	return s.finish()
}

func readInfo(s *scanner, b bounds) MessageInfo {
	var m MessageInfo
	if s.peek() != '{' {
		s.fail("a message is no object")
	}
	for key := range s.object() {
		switch key {
		case "id":
			m.ID = s.id()
		case "sessionID":
			m.SessionID = s.id()
		case "role":
			m.Role = s.id()
		case "parentID":
			m.ParentID = s.id()
		case "agent":
			m.Agent, _ = s.text(maxKey)
		case "providerID":
			m.Model.ProviderID, _ = s.text(maxKey)
		case "modelID":
			m.Model.ModelID, _ = s.text(maxKey)
		case "variant":
			m.Variant, _ = s.text(maxKey)
		case "model":
			m.readModel(s)
		case "finish":
			m.Finish, _ = s.text(maxKey)
		case "error":
			m.Error = readTurnError(s, b)
		case "cost":
			m.Cost = s.number()
		case "tokens":
			m.Tokens = readTokens(s)
		case "time":
			m.Created, m.Completed = readSpan(s, "created", "completed")
		case "structured":
			m.Structured, _ = s.raw(b, nil)
		case "summary":
			m.readSummary(s, b)
		}
	}
	return m
}

// readModel reads the form that user messages have.
func (m *MessageInfo) readModel(s *scanner) {
	for key := range s.object() {
		switch key {
		case "providerID":
			m.Model.ProviderID, _ = s.text(maxKey)
		case "modelID":
			m.Model.ModelID, _ = s.text(maxKey)
		case "variant":
			m.Variant, _ = s.text(maxKey)
		}
	}
}

// readSummary reads what user messages have, their diffs, or true, which the
// summary of a compaction has.
func (m *MessageInfo) readSummary(s *scanner, b bounds) {
	if s.peek() != '{' {
		m.Compacted = s.isTrue()
		return
	}
	for key := range s.object() {
		if key == "diffs" {
			for range s.array() {
				m.Diffs = append(m.Diffs, readDiff(s, b))
			}
		}
	}
}

func readDiff(s *scanner, b bounds) FileDiff {
	var d FileDiff
	for key := range s.object() {
		switch key {
		case "file":
			d.File, _ = s.text(b.text)
		case "status":
			d.Status, _ = s.text(maxKey)
		case "additions":
			d.Additions = int(s.number())
		case "deletions":
			d.Deletions = int(s.number())
		}
	}
	return d
}

// Message is a message with its parts, in order.
type Message struct {
	Info  MessageInfo `json:"info"`
	Parts []Part      `json:"parts"`
}

// UnmarshalJSON reads OpenCode's form.
func (m *Message) UnmarshalJSON(data []byte) error {
	s := scanBytes(data)
	*m = readMessage(s, whole)
	return s.finish()
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
// them, or all for 0. They are read in pages, so that only what is wanted is sent.
// The server refuses (400, for ever) to list a session that had a prompt with a JSON
// schema; see [Directory.Ask]. Of a long session rather look at one message at a
// time, see [Directory.EachMessage].
func (d *Directory) Messages(ctx context.Context, sessionID string, limit int) ([]Message, error) {
	var newestFirst []Message
	var before string
	for {
		size := messagePage
		if limit > 0 {
			size = min(size, limit-len(newestFirst))
		}
		query := url.Values{"limit": {strconv.Itoa(size)}}
		if before != "" {
			query.Set("before", before)
		}
		var page []Message
		var header http.Header
		err := d.listMessages(ctx, sessionID, query, &header, func(m Message) bool {
			page = append(page, m)
			return true
		})
		if err != nil {
			return nil, err
		}
		slices.Reverse(page)
		newestFirst = append(newestFirst, page...)
		next := header.Get(cursorHeader)
		if next == "" || len(page) == 0 || (limit > 0 && len(newestFirst) >= limit) {
			slices.Reverse(newestFirst)
			return newestFirst, nil
		}
		before = next
	}
}

// EachMessage goes through all messages of a session, oldest first, as they arrive:
// one at a time is held, however long the session is. It ends with an error if not
// all could be read. The caller's own work on the messages is part of the call and
// counts for its timeout.
func (d *Directory) EachMessage(ctx context.Context, sessionID string) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		goOn := true
		err := d.listMessages(ctx, sessionID, nil, nil, func(m Message) bool {
			goOn = yield(m, nil)
			return goOn
		})
		if err != nil && goOn {
			yield(Message{}, err)
		}
	}
}

// listMessages takes messages out of the answer while it comes in, until one of them is enough.
func (d *Directory) listMessages(
	ctx context.Context, sessionID string, query url.Values, header *http.Header, take func(Message) bool,
) error {
	return d.call(ctx, request{
		op: "list messages", method: http.MethodGet, path: sessionPath(sessionID, "message"), query: query, header: header,
		scan: func(s *scanner) error {
			if s.peek() != '[' {
				s.fail("the messages are no list")
			}
			for range s.array() {
				m := readMessage(s, whole)
				if s.err != nil {
					break
				}
				if !take(m) {
					return nil
				}
			}
			return s.finish()
		},
	})
}

func readMessage(s *scanner, b bounds) Message {
	var m Message
	if s.peek() != '{' {
		s.fail("a message is no object")
	}
	for key := range s.object() {
		switch key {
		case "info":
			m.Info = readInfo(s, b)
		case "parts":
			for range s.array() {
				m.Parts = append(m.Parts, readPart(s, b))
			}
		}
	}
	return m
}

// Message gives one message; the error matches [ErrNotFound] if it never arrived.
func (d *Directory) Message(ctx context.Context, sessionID, messageID string) (Message, error) {
	var out Message
	err := d.call(ctx, request{
		op: "get message", method: http.MethodGet, path: sessionPath(sessionID, "message", messageID), out: &out,
	})
	return out, err
}
