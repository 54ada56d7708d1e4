package opencode

import (
	"crypto/rand"
	"fmt"
	"time"
)

// Prompt is a message to the agent of a session.
type Prompt struct {
	// MessageID becomes the user message's id. Defaults to a new one, but then the prompt cannot be resent safely.
	MessageID string `json:"messageID"`
	// Agent, Model and Variant default to the session's last ones, perhaps of another prompt: pass them every time.
	Agent   string   `json:"agent,omitempty"`
	Model   ModelRef `json:"model,omitzero"`
	Variant string   `json:"variant,omitempty"`
	System  string   `json:"system,omitempty"` // added to the agent's own system prompt

	Text     string         `json:"-"`
	Metadata map[string]any `json:"-"` // stored with the text and given back
}

const messagePrefix = "msg_"

// NewMessageID returns the id of a prompt that is sent at t. Store it before the prompt is sent: it makes sending again
// harmless, see [API.Prompt].
//
// The format is OpenCode's own: "msg_", the low 48 bits of (milliseconds << 12) as 12 hexadecimal digits, 14 random
// characters. So ids sort by time, except across the wrap every 2.2 years, such as in August 2026. The server requires
// only the prefix. 1.18.33 orders messages by creation time first, and answered ids from 100 s before and after its
// clock correctly; older versions ordered by id alone.
func NewMessageID(t time.Time) string {
	const steps = 1 << 12 // OpenCode counts ids within a millisecond; the clock's finer digits serve as well
	fraction := int64(t.Nanosecond()%int(time.Millisecond)) * steps / int64(time.Millisecond)
	stamp := (t.UnixMilli()*steps + fraction) & (1<<48 - 1)
	return fmt.Sprintf("%s%012x%s", messagePrefix, stamp, rand.Text()[:14])
}
