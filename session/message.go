package session

import (
	"cmp"
	"hash/fnv"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
)

// TagKey is the metadata key that marks the manager's own text parts and sessions. OpenCode 1.18.33 stores it, returns
// it with every listing and event, and shows the text in its terminal interface like any other (seen).
const TagKey = "manager"

// maxKept is how much of the end of a text is kept, in bytes: enough for its conclusion. Events are cut at 64 KiB.
const maxKept = 16 << 10

// message is a message of the main session, with the ends of its texts and without the output of its tool calls.
type message struct {
	opencode.Message
	command   bool // the user typed /blockers, which is no task for the agent
	clarifies bool // /blockers clarify: the agent asks the user about blockers
}

func (m *message) part(p opencode.Part) {
	if m.Info.Role == opencode.RoleUser {
		m.command = m.command || strings.HasPrefix(p.Text, boulder.SlashPrompt)
		m.clarifies = m.clarifies || strings.Contains(p.Text, boulder.ClarifyPrompt)
	}
	p.Text = strings.ToValidUTF8(p.Text[max(0, len(p.Text)-maxKept):], "") // the end has the conclusion
	if p.Tool != nil {
		p.Tool = &opencode.ToolCall{Tool: p.Tool.Tool, State: p.Tool.State, Input: p.Tool.Input, Metadata: p.Tool.Metadata}
	}
	switch i := slices.IndexFunc(m.Parts, func(old opencode.Part) bool { return old.ID == p.ID }); {
	case i < 0:
		m.Parts = append(m.Parts, p)
	case p.Type != opencode.PartText || !strings.HasPrefix(m.Parts[i].Text, p.Text): // a Reading may be older than events
		m.Parts[i] = p
	}
}

func (m *message) has(t opencode.PartType) bool {
	return slices.ContainsFunc(m.Parts, func(p opencode.Part) bool { return p.Type == t })
}

// fromManager reports whether the manager wrote the message, fromUser whether the user did. OpenCode's own messages,
// such as after a compaction or a background task, belong to the running turn.
func (m *message) fromManager() bool {
	return m.Info.Role == opencode.RoleUser &&
		slices.ContainsFunc(m.Parts, func(p opencode.Part) bool { return p.Metadata[TagKey] != nil })
}

func (m *message) fromUser() bool {
	return m.Info.Role == opencode.RoleUser && !m.fromManager() && slices.ContainsFunc(m.Parts, func(p opencode.Part) bool {
		switch p.Type {
		case opencode.PartText:
			return !p.Synthetic
		case opencode.PartTool, opencode.PartStepFinish, opencode.PartCompaction:
			return false
		}
		return true // a file, a named agent, a command's sub-task
	})
}

func (m *message) begins() bool { return m.fromUser() || m.fromManager() }

func (m *message) assistant() bool { return m.Info.Role == opencode.RoleAssistant }

// diff identifies the state of the work tree after the message: OpenCode's snapshot, else a hash of the edits, else "".
func (m *message) diff() (tree string) {
	var edits uint64
	for _, p := range m.Parts {
		if p.Type == opencode.PartStepFinish {
			tree = cmp.Or(p.Snapshot, tree)
		}
		if p.Tool != nil && len(p.Tool.EditedFiles()) > 0 {
			h := fnv.New64a()
			_, _ = h.Write([]byte(p.ID))
			_, _ = h.Write(p.Tool.Input)
			edits ^= h.Sum64() // independent of their order
		}
	}
	if tree == "" && edits != 0 {
		return "edits:" + strconv.FormatUint(edits, 16)
	}
	return tree
}

// Limits of the tool calls that a judge is shown.
const (
	MaxToolCalls = 30
	maxCallText  = 500 // characters of an input and of an output
)

// ToolCalls returns the tool calls of a message as a judge sees them.
func ToolCalls(m opencode.Message) (all []boulder.ToolCall) {
	for _, p := range m.Parts {
		c := p.Tool
		if c == nil {
			continue
		}
		out, status := c.Output, string(c.State)
		switch c.State {
		case opencode.ToolError:
			out = c.Error
		case opencode.ToolPending, opencode.ToolRunning:
			status = "running"
		}
		all = append(all, boulder.ToolCall{
			ID: c.CallID, Tool: c.Tool, Title: text.Short(c.Title, 200), Status: status,
			Input: text.Excerpt(string(c.Input), maxCallText, text.Start), Output: text.Excerpt(out, maxCallText, text.End),
		})
	}
	return all
}

func callOf(m opencode.Message, callID string) *opencode.ToolCall {
	for _, p := range m.Parts {
		if p.Tool != nil && p.Tool.CallID == callID {
			return p.Tool
		}
	}
	return nil
}

// delivers returns the session whose background result a synthetic text of OpenCode carries, or "". The text begins
// with `<task id="ses_…" state="completed">` or `state="error"`.
func delivers(p opencode.Part) string {
	rest, ok := strings.CutPrefix(p.Text, `<task id="`)
	if !ok || !p.Synthetic {
		return ""
	}
	id, rest, _ := strings.Cut(rest, `"`)
	if strings.HasPrefix(rest, ` state="running"`) {
		return ""
	}
	return id
}

// Limits of the language server errors that are kept.
const (
	maxFindings = 50
	maxFinding  = 300 // characters
)

// Findings are the language server errors in the files that a session was seen to edit.
type Findings struct {
	Edited map[string]bool      // absolute paths
	Errors []boulder.Diagnostic // of the newest editing call, which supersedes earlier ones; by file and line, at most 50
}

// Take takes in a tool call of a session that works in directory.
func (f *Findings) Take(c *opencode.ToolCall, directory string) {
	files := c.EditedFiles()
	if len(files) == 0 {
		return
	}
	if f.Edited == nil {
		f.Edited = map[string]bool{}
	}
	for _, file := range files {
		if !filepath.IsAbs(file) {
			file = filepath.Join(directory, file)
		}
		f.Edited[filepath.Clean(file)] = true
	}
	byFile, known := c.LanguageErrors()
	if !known {
		return
	}
	f.Errors = nil
	for file, found := range byFile {
		for _, e := range found {
			if f.Edited[filepath.Clean(file)] {
				f.Errors = append(f.Errors, boulder.Diagnostic{
					File: file, Line: e.Line, Severity: "error", Message: text.Short(e.Message, maxFinding),
				})
			}
		}
	}
	slices.SortFunc(f.Errors, func(a, b boulder.Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	f.Errors = f.Errors[:min(len(f.Errors), maxFindings)]
}
