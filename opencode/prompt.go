package opencode

import (
	"crypto/rand"
	"fmt"
	"time"
)

// Prompt is what the agent of a session is told.
type Prompt struct {
	// MessageID becomes the id of the user message. Defaults to a new one, but then the prompt cannot be sent again
	// safely.
	MessageID string `json:"messageID"`
	// Agent, Model and Variant default to what the session last used, which may be another prompt's choice: pass them
	// every time.
	Agent   string   `json:"agent,omitempty"`
	Model   ModelRef `json:"model,omitzero"`
	Variant string   `json:"variant,omitempty"`
	System  string   `json:"system,omitempty"` // added to the agent's own system prompt

	Text     string         `json:"-"`
	Metadata map[string]any `json:"-"` // stored with the text and given back
}

const messagePrefix = "msg_"

// NewMessageID makes the id of a prompt that is sent at t. Store it before the prompt is sent: it is the key that
// makes sending again harmless, see [API.Prompt].
//
// The format is OpenCode's own: "msg_", the low 48 bits of (milliseconds << 12) as 12 hexadecimal digits, 14 random
// characters. So ids sort by time, up to the wrap that 48 bits bring every 2.2 years, the last in August 2026. The
// server demands no more than the prefix; 1.18.33 orders messages by their creation time first and answered ids from
// 100 s before and after its clock correctly, older versions went by the id alone.
func NewMessageID(t time.Time) string {
	const steps = 1 << 12 // OpenCode counts ids within a millisecond; the clock's finer digits do as well
	fraction := int64(t.Nanosecond()%int(time.Millisecond)) * steps / int64(time.Millisecond)
	stamp := (t.UnixMilli()*steps + fraction) & (1<<48 - 1)
	return fmt.Sprintf("%s%012x%s", messagePrefix, stamp, rand.Text()[:14])
}
