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
	PartCompaction PartType = "compaction" // the whole of a user message that asks for a summary of what came before
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

	// Cut says that Text, or a text in Tool, is longer than what is here, see
	// [PartUpdated].
	Cut bool

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

// ToolCall is a call of a tool by the model. Each is reported many times. Count calls
// by [Part.ID]: a provider may give calls of different messages the same CallID.
type ToolCall struct {
	CallID string
	Tool   string
	State  ToolState
	Input  json.RawMessage // the arguments, an object
	Output string          // of ToolCompleted
	Error  string          // of ToolError
	Title  string
	// Metadata depends on the tool: bash has exit, edit and write have diagnostics,
	// task has the sessionId of its sub-agent. Its "output" is left out, it repeats
	// Output.
	Metadata json.RawMessage
	Start    time.Time
	End      time.Time
}

// StepFinish ends one call of the model.
type StepFinish struct {
	Reason string // as [MessageInfo.Finish]
	// Snapshot names the state of the work tree after the call: the hash of a git tree. Empty without git, or where the
	// configuration switches snapshots off.
	Snapshot string
	Cost     float64
	Tokens   Tokens
}

// UnmarshalJSON reads OpenCode's form. Only the fields that every part has must be
// right; content of an unexpected shape is left out, because one odd part must not
// make the rest of a session unreadable.
func (p *Part) UnmarshalJSON(data []byte) error {
	s := scanBytes(data)
	*p = readPart(s, whole)
	return s.finish()
}

// readPart takes the fields of all types together, since the type may come last.
func readPart(s *scanner, b bounds) Part {
	var p Part
	var call ToolCall
	var step StepFinish
	var files []string
	if s.peek() != '{' {
		s.fail("a part is no object")
	}
	for key := range s.object() {
		switch key {
		case "id":
			p.ID = s.id()
		case "sessionID":
			p.SessionID = s.id()
		case "messageID":
			p.MessageID = s.id()
		case "type":
			p.Type = PartType(s.id())
		case "text":
			p.Text, p.Cut = s.text(b.text)
		case "synthetic":
			p.Synthetic = s.isTrue()
		case "metadata":
			p.Metadata = s.anyObject(b)
		case "callID":
			call.CallID, _ = s.text(maxKey)
		case "tool":
			call.Tool, _ = s.text(maxKey)
		case "state":
			p.Cut = call.readState(s, b) || p.Cut
		case "reason":
			step.Reason, _ = s.text(maxKey)
		case "snapshot":
			step.Snapshot, _ = s.text(maxKey)
		case "cost":
			step.Cost = s.number()
		case "tokens":
			step.Tokens = readTokens(s)
		case "files":
			files = s.texts(b)
		}
	}
	switch p.Type {
	case PartText, PartReasoning:
	case PartTool:
		p.Text, p.Synthetic, p.Metadata, p.Tool = "", false, nil, &call
	case PartStepFinish:
		p = Part{ID: p.ID, SessionID: p.SessionID, MessageID: p.MessageID, Type: p.Type, Step: &step}
	case PartPatch:
		p = Part{ID: p.ID, SessionID: p.SessionID, MessageID: p.MessageID, Type: p.Type, Files: files}
	default:
		p = Part{ID: p.ID, SessionID: p.SessionID, MessageID: p.MessageID, Type: p.Type}
	}
	return p
}

// readState reports whether it left something out.
func (c *ToolCall) readState(s *scanner, b bounds) (cut bool) {
	for key := range s.object() {
		var more bool
		switch key {
		case "status":
			state, _ := s.text(maxKey)
			c.State = ToolState(state)
		case "input":
			c.Input, more = s.raw(b, nil)
		case "output":
			c.Output, more = s.text(b.text)
		case "error":
			c.Error, more = s.text(b.text)
		case "title":
			c.Title, more = s.text(b.text)
		case "metadata":
			c.Metadata, more = s.raw(b, repeatsOutput)
		case "time":
			c.Start, c.End = readSpan(s, "start", "end")
		}
		cut = cut || more
	}
	return cut
}

// repeatsOutput names what the metadata of a bash call has twice: its output once
// more, or, with every update while it runs, the last 30,000 characters so far.
func repeatsOutput(key string) bool { return key == "output" }

// readSpan reads two times out of an object.
func readSpan(s *scanner, first, second string) (a, b time.Time) {
	for key := range s.object() {
		switch key {
		case first:
			a = millis(s.number()).time()
		case second:
			b = millis(s.number()).time()
		}
	}
	return a, b
}
