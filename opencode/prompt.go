package opencode

import (
	"cmp"
	"context"
	"time"
)

// Prompt is what the agent of a session is told.
type Prompt struct {
	// MessageID becomes the id of the user message. Defaults to a new one, but then the prompt cannot be sent again
	// safely.
	MessageID string
	// Agent, Model and Variant default to what the session last used, which may be another prompt's choice: pass them
	// every time.
	Agent   string
	Model   ModelRef
	Variant string
	// System is added to the agent's own system prompt.
	System string
	Parts  []TextPart
}

// TextPart is a text of a prompt.
type TextPart struct {
	Text string `json:"text"`
	// Synthetic marks the text as written by a program. The model sees it like any other text.
	Synthetic bool `json:"synthetic,omitempty"`
	// Metadata is stored with the part and given back.
	Metadata map[string]any `json:"metadata,omitempty"`
}

// Prompt gives the session a prompt and returns when the server has taken it; see the package comment on how to know
// that the turn is over. A session that is busy takes the prompt into its running turn; one with a pending permission
// request takes it only after that is answered.
//
// With a MessageID, sending the same prompt again is harmless: if the first one was answered or is being answered,
// nothing more happens; if it never arrived, or its turn was aborted, a turn runs.
func (d *Directory) Prompt(ctx context.Context, sessionID string, p Prompt) error {
	return d.post(ctx, "send prompt", sessionPath(sessionID, "prompt_async"), p.wire())
}

type wirePrompt struct {
	MessageID string      `json:"messageID"`
	Agent     string      `json:"agent,omitempty"`
	Model     *ModelRef   `json:"model,omitempty"`
	Variant   string      `json:"variant,omitempty"`
	System    string      `json:"system,omitempty"`
	Format    *wireFormat `json:"format,omitempty"`
	Parts     []wirePart  `json:"parts"`
}

type wirePart struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	TextPart
}

func (p Prompt) wire() wirePrompt {
	wire := wirePrompt{
		MessageID: cmp.Or(p.MessageID, NewMessageID(time.Now())),
		Agent:     p.Agent, Variant: p.Variant, System: p.System,
		Parts: make([]wirePart, len(p.Parts)),
	}
	if !p.Model.IsZero() {
		wire.Model = &p.Model
	}
	for i, part := range p.Parts {
		wire.Parts[i] = wirePart{ID: partID(wire.MessageID, i), Type: string(PartText), TextPart: part}
	}
	return wire
}
