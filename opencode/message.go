package opencode

import (
	"cmp"
	"encoding/json"
	"time"
)

const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
)

// Values of [MessageInfo.Finish].
const (
	FinishStop      = "stop"
	FinishToolCalls = "tool-calls" // another message of the same turn follows
	FinishLength    = "length"     // the answer was truncated
	FinishUnknown   = "unknown"    // OpenCode 1 also says so for error, and asks the model again at once (seen)
	FinishError     = "error"
)

// Tokens counts what a model read and wrote. Total input is Input + CacheRead + CacheWrite.
type Tokens struct {
	Input      int64
	Output     int64
	Reasoning  int64
	CacheRead  int64
	CacheWrite int64
}

// UnmarshalJSON reads OpenCode's form. Providers report what they like: counts that no call can have are 0, as in
// boulder.Usage.Sane.
func (t *Tokens) UnmarshalJSON(data []byte) error {
	var in struct {
		Input, Output, Reasoning float64
		Cache                    struct{ Read, Write float64 }
	}
	_ = json.Unmarshal(data, &in) // odd values count as 0
	count := func(n float64) int64 {
		if n < 0 || n > 1e12 {
			return 0
		}
		return int64(n)
	}
	*t = Tokens{
		Input: count(in.Input), Output: count(in.Output), Reasoning: count(in.Reasoning),
		CacheRead: count(in.Cache.Read), CacheWrite: count(in.Cache.Write),
	}
	return nil
}

// MessageInfo is a message without its parts. A turn is one user message and, for each call of the model, one assistant
// message whose ParentID is the user message.
type MessageInfo struct {
	ID        string
	SessionID string
	Role      string
	Agent     string
	Model     ModelRef  `json:"-"`
	Variant   string    // of the model, such as "high"; empty for its default
	Created   time.Time `json:"-"`

	// For assistant messages only:

	ParentID   string
	Completed  time.Time `json:"-"` // zero while the model or its tools work, and for ever if the server died
	Finish     string    // empty until the model has answered
	Error      *TurnError
	Cost       float64 // US dollars
	Tokens     Tokens
	Compacted  bool            `json:"-"` // the message is the summary of a compaction
	Structured json.RawMessage // the answer to a prompt with a JSON schema, not checked against it
}

// UnmarshalJSON reads OpenCode's two forms: user and assistant messages differ in "model" and "summary".
func (m *MessageInfo) UnmarshalJSON(data []byte) error {
	type plain MessageInfo
	in := struct {
		*plain
		ModelRef                                               // of assistant messages
		Model    struct{ ProviderID, ModelID, Variant string } // of user messages
		Summary  json.RawMessage
		Time     struct{ Created, Completed millis }
	}{plain: (*plain)(m)}
	err := unmarshal(data, &in)
	m.Model = ModelRef{cmp.Or(in.ProviderID, in.Model.ProviderID), cmp.Or(in.ModelID, in.Model.ModelID)}
	m.Variant = cmp.Or(m.Variant, in.Model.Variant)
	m.Created, m.Completed = in.Time.Created.time(), in.Time.Completed.time()
	m.Compacted = string(in.Summary) == "true" // in user messages it lists the changed files
	return err
}

// Message is a message with its parts, in order.
type Message struct {
	Info  MessageInfo `json:"info"`
	Parts []Part      `json:"parts"`
}

// Text joins the texts of the message, without tools, reasoning and synthetic parts.
func (m Message) Text() string {
	var text string
	for _, part := range m.Parts {
		if part.Type == PartText && !part.Synthetic {
			text += part.Text
		}
	}
	return text
}
