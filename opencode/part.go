package opencode

import (
	"encoding/json"
	"slices"
)

// PartType is the type of a part. Types other than these occur; such parts have only the fields that all parts have.
type PartType string

const (
	PartText       PartType = "text"
	PartReasoning  PartType = "reasoning"
	PartTool       PartType = "tool"
	PartStepFinish PartType = "step-finish"
	PartCompaction PartType = "compaction" // the whole of a user message that asks for a summary of the conversation
)

// Part is a piece of a message.
type Part struct {
	ID        string
	SessionID string
	MessageID string
	Type      PartType

	// Of PartText and PartReasoning. It grows while the model writes; the last update has it all.
	Text      string
	Synthetic bool           // written by a program, not by the user or the model
	Metadata  map[string]any // as given with the prompt

	Cut bool `json:"-"` // Text, or a text in Tool, is longer than what is here, see [PartUpdated]

	Tool *ToolCall `json:"-"` // of PartTool
	// Snapshot of PartStepFinish, which ends one model call, is the git tree hash of the work tree after it. Empty
	// without git, or if the configuration disables snapshots.
	Snapshot string
}

// ToolState is the progress of a tool call.
type ToolState string

// A tool call goes from pending to running (any number of updates) to completed or error. It stays running for ever if
// the server dies. An aborted bash call completes, with "User aborted the command" in its output.
const (
	ToolPending   ToolState = "pending" // no Input yet
	ToolRunning   ToolState = "running"
	ToolCompleted ToolState = "completed"
	ToolError     ToolState = "error"
)

// Ended reports whether the call is over, successful or not.
func (s ToolState) Ended() bool { return s == ToolCompleted || s == ToolError }

// ToolCall is a tool call of the model. Count calls by [Part.ID]: updates repeat them, providers may reuse a CallID.
type ToolCall struct {
	CallID string          `json:"-"`
	Tool   string          `json:"-"`
	State  ToolState       `json:"status"`
	Input  json.RawMessage // the arguments, an object
	Output string          // of ToolCompleted
	Error  string          // of ToolError
	Title  string
	// Metadata depends on the tool: exit for bash, diagnostics for edit and write, the sub-agent's sessionId for task.
	// Its "output" is removed, since it repeats Output.
	Metadata json.RawMessage
}

// UnmarshalJSON reads OpenCode's form. Content of an unexpected shape is ignored.
func (p *Part) UnmarshalJSON(data []byte) error {
	type plain Part
	in := struct {
		*plain
		CallID, Tool string
		State        ToolCall
	}{plain: (*plain)(p)}
	err := unmarshal(data, &in)
	if p.Type == PartTool {
		p.Tool = &in.State
		p.Tool.CallID, p.Tool.Tool, p.Tool.Metadata = in.CallID, in.Tool, withoutOutput(p.Tool.Metadata)
	}
	return err
}

// withoutOutput drops the second copy of a bash call's output: the whole, or the last 30,000 characters in each update.
func withoutOutput(metadata json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(metadata, &all) != nil || all["output"] == nil {
		return metadata
	}
	delete(all, "output")
	metadata, _ = json.Marshal(all) // cannot fail: it was JSON
	return metadata
}

func (p *Part) cut() {
	texts, values := []*string{&p.Text}, []*json.RawMessage{}
	if p.Tool != nil {
		texts = append(texts, &p.Tool.Output, &p.Tool.Error, &p.Tool.Title)
		values = append(values, &p.Tool.Input, &p.Tool.Metadata)
	}
	for _, t := range texts {
		kept, cut := cutText(*t, maxEventText)
		*t, p.Cut = kept, p.Cut || cut
	}
	for _, v := range values {
		kept, cut := cutJSON(*v, maxEventValue)
		*v, p.Cut = kept, p.Cut || cut
	}
}

// EditedFiles returns the files that a completed call of an editing tool wrote: absolute paths, or as the model wrote
// them, relative to the session's directory. Changes by shell commands are not known.
func (c *ToolCall) EditedFiles() (files []string) {
	if c.State != ToolCompleted || !slices.Contains([]string{"edit", "write", "patch", "apply_patch", "multiedit"}, c.Tool) {
		return nil
	}
	type file struct{ FilePath string }
	var input file
	var metadata struct{ Files []file }
	_, _ = json.Unmarshal(c.Input, &input), json.Unmarshal(c.Metadata, &metadata)
	if len(metadata.Files) == 0 && input.FilePath != "" {
		return []string{input.FilePath}
	}
	for _, f := range metadata.Files {
		files = append(files, f.FilePath)
	}
	return files
}

// LanguageError is an error that a language server found.
type LanguageError struct {
	Line    int // from 1
	Message string
}

// severityError is the language server protocol's number for an error; 2 to 4 are warnings, information and hints.
const severityError = 1

// LanguageErrors returns the errors that language servers reported with an editing call, by absolute path. They cover
// all files, so the newest call supersedes earlier ones. known is false for a call without diagnostics.
func (c *ToolCall) LanguageErrors() (byFile map[string][]LanguageError, known bool) {
	var metadata struct {
		Diagnostics map[string][]struct {
			Severity int
			Message  string
			Range    struct{ Start struct{ Line int } } // from 0
		}
	}
	if json.Unmarshal(c.Metadata, &metadata) != nil || metadata.Diagnostics == nil {
		return nil, false
	}
	byFile = map[string][]LanguageError{}
	for file, found := range metadata.Diagnostics {
		for _, f := range found {
			if f.Severity == severityError {
				byFile[file] = append(byFile[file], LanguageError{Line: f.Range.Start.Line + 1, Message: f.Message})
			}
		}
	}
	return byFile, true
}
