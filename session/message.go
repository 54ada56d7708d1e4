package session

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
)

// TagKey is the metadata key of text parts, and of sessions, that are the manager's own. OpenCode 1.18.33 stores it,
// gives it back with every listing and every event, and shows the text in its terminal interface like any other (seen).
const TagKey = "manager"

// maxKept is how much of a text is kept, in bytes: enough to say what it claims. OpenCode's events cut at 64 KiB.
const maxKept = 16 << 10

// message is what is kept of a message of the main session.
type message struct {
	info  opencode.MessageInfo
	texts []textPart
	tools map[string]uint64 // by part: a hash of what an editing tool did; 0 for others
	tree  string            // the work tree after the newest step, by OpenCode's snapshot

	// Of user messages:

	person bool   // somebody wrote something in it
	own    string // the manager's tag
	marker bool   // of a compaction
}

type textPart struct {
	id        string
	text      string
	synthetic bool
}

// part takes in a part as it is now.
func (m *message) part(p opencode.Part) {
	switch p.Type {
	case opencode.PartText:
		m.text(p)
	case opencode.PartTool:
		m.tool(p)
	case opencode.PartStepFinish:
		if p.Step.Snapshot != "" {
			m.tree = p.Step.Snapshot
		}
	case opencode.PartCompaction:
		m.marker = true
	default:
		// A file, an agent that is named, a sub-task of a command: of a user message, a person's.
		m.person = m.person || m.info.Role == opencode.RoleUser
	}
}

func (m *message) text(p opencode.Part) {
	if tag, ok := p.Metadata[TagKey].(string); ok && m.info.Role == opencode.RoleUser {
		m.own = tag
	} else if m.info.Role == opencode.RoleUser && !p.Synthetic {
		m.person = true
	}
	// The end of a long text says what it comes to.
	kept := textPart{p.ID, strings.ToValidUTF8(p.Text[max(0, len(p.Text)-maxKept):], ""), p.Synthetic}
	if i := slices.IndexFunc(m.texts, func(t textPart) bool { return t.id == p.ID }); i >= 0 {
		if !strings.HasPrefix(m.texts[i].text, kept.text) { // what was read a moment ago may be older than its events
			m.texts[i] = kept
		}
		return
	}
	m.texts = append(m.texts, kept)
}

func (m *message) tool(p opencode.Part) {
	if m.tools == nil {
		m.tools = map[string]uint64{}
	}
	var did uint64
	if len(p.Tool.EditedFiles()) > 0 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(p.ID))
		_, _ = h.Write(p.Tool.Input)
		did = h.Sum64()
	}
	m.tools[p.ID] = did
}

// says is what the author wrote.
func (m *message) says() string {
	var b strings.Builder
	for _, t := range m.texts {
		if !t.synthetic {
			b.WriteString(t.text)
		}
	}
	return b.String()
}

// begins reports whether the message begins a turn: a person's or the manager's. What OpenCode writes itself, as after
// a compaction or when a background task has ended, belongs to the turn that runs.
func (m *message) begins() bool {
	return m.info.Role == opencode.RoleUser && (m.person || m.own != "")
}

func (m *message) assistant() bool { return m.info.Role == opencode.RoleAssistant }

// diff names the state of the work tree after the message, or what was edited where there are no snapshots; empty:
// unknown.
func (m *message) diff() string {
	var all uint64
	for _, did := range m.tools {
		all ^= did // in any order
	}
	if m.tree == "" && all != 0 {
		return "edits:" + strconv.FormatUint(all, 16)
	}
	return m.tree
}

// Bounds of the tool calls that a judge is shown.
const (
	MaxToolCalls = 30
	maxCallText  = 500 // characters of an input and of an output
)

// ToolCalls are the calls of a message as a judge sees them.
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

// CallOf is a tool call of a message; nil: there is none of that id.
func CallOf(m opencode.Message, callID string) *opencode.ToolCall {
	for _, p := range m.Parts {
		if p.Tool != nil && p.Tool.CallID == callID {
			return p.Tool
		}
	}
	return nil
}

// delivers gives the session whose background result a synthetic text of OpenCode brings; empty: none. It begins with
// `<task id="ses_…" state="completed">` or `state="error"`.
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
