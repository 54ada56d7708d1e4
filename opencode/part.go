package opencode

import (
	"encoding/json"
	"time"
)

// PartType tells the parts of a message apart. Types that are not listed here
// occur and are kept, with only the fields every part has.
type PartType string

// The part types whose content is read.
const (
	PartText       PartType = "text"
	PartReasoning  PartType = "reasoning"
	PartTool       PartType = "tool"
	PartStepFinish PartType = "step-finish"
	PartPatch      PartType = "patch"
)

// Part is a piece of a message.
type Part struct {
	ID        string
	SessionID string
	MessageID string
	Type      PartType

	// Of PartText and PartReasoning. While the model writes it is what has come so
	// far; the last update has it all.
	Text      string
	Synthetic bool           // written by a program, not by a person or the model
	Metadata  map[string]any // as given with the prompt

	Tool *ToolCall   // of PartTool
	Step *StepFinish // of PartStepFinish
	// Files of PartPatch: absolute paths that the step changed.
	Files []string
}

// ToolState is how far a tool call has come.
type ToolState string

// A tool call goes pending, running (any number of updates), then completed or
// error. It stays running for ever if the server dies. An aborted bash call
// completes, with "User aborted the command" in its output.
const (
	ToolPending   ToolState = "pending" // Input is not there yet
	ToolRunning   ToolState = "running"
	ToolCompleted ToolState = "completed"
	ToolError     ToolState = "error"
)

// ToolCall is a call of a tool by the model. Count calls by CallID: each is
// reported many times.
type ToolCall struct {
	CallID   string
	Tool     string
	State    ToolState
	Input    json.RawMessage // the arguments, an object
	Output   string          // of ToolCompleted
	Error    string          // of ToolError
	Title    string
	Metadata json.RawMessage // depends on the tool: bash has exit, edit and write have diagnostics
	Start    time.Time
	End      time.Time
}

// StepFinish ends one call of the model.
type StepFinish struct {
	Reason string // as [MessageInfo.Finish]
	Cost   float64
	Tokens Tokens
}

// UnmarshalJSON reads OpenCode's form. Only the fields that every part has must be
// right; content of an unexpected shape is left out, because one odd part must not
// make the rest of a session unreadable.
func (p *Part) UnmarshalJSON(data []byte) error {
	var head struct {
		ID        string   `json:"id"`
		SessionID string   `json:"sessionID"`
		MessageID string   `json:"messageID"`
		Type      PartType `json:"type"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	*p = Part{ID: head.ID, SessionID: head.SessionID, MessageID: head.MessageID, Type: head.Type}
	switch head.Type {
	case PartText, PartReasoning:
		p.readText(data)
	case PartTool:
		p.readTool(data)
	case PartStepFinish:
		p.readStep(data)
	case PartPatch:
		p.readPatch(data)
	}
	return nil
}

func (p *Part) readText(data []byte) {
	var wire struct {
		Text      string         `json:"text"`
		Synthetic bool           `json:"synthetic"`
		Metadata  map[string]any `json:"metadata"`
	}
	if json.Unmarshal(data, &wire) == nil {
		p.Text, p.Synthetic, p.Metadata = wire.Text, wire.Synthetic, wire.Metadata
	}
}

func (p *Part) readTool(data []byte) {
	var wire struct {
		CallID string `json:"callID"`
		Tool   string `json:"tool"`
		State  struct {
			Status   ToolState       `json:"status"`
			Input    json.RawMessage `json:"input"`
			Output   string          `json:"output"`
			Error    string          `json:"error"`
			Title    string          `json:"title"`
			Metadata json.RawMessage `json:"metadata"`
			Time     struct {
				Start millis `json:"start"`
				End   millis `json:"end"`
			} `json:"time"`
		} `json:"state"`
	}
	if json.Unmarshal(data, &wire) != nil {
		return
	}
	state := wire.State
	p.Tool = &ToolCall{
		CallID: wire.CallID, Tool: wire.Tool, State: state.Status, Input: state.Input, Output: state.Output,
		Error: state.Error, Title: state.Title, Metadata: state.Metadata,
		Start: state.Time.Start.time(), End: state.Time.End.time(),
	}
}

func (p *Part) readStep(data []byte) {
	var wire struct {
		Reason string  `json:"reason"`
		Cost   float64 `json:"cost"`
		Tokens Tokens  `json:"tokens"`
	}
	if json.Unmarshal(data, &wire) == nil {
		p.Step = &StepFinish{Reason: wire.Reason, Cost: wire.Cost, Tokens: wire.Tokens}
	}
}

func (p *Part) readPatch(data []byte) {
	var wire struct {
		Files []string `json:"files"`
	}
	if json.Unmarshal(data, &wire) == nil {
		p.Files = wire.Files
	}
}
