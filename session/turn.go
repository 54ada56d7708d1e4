package session

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
)

// Turn is what is seen of a turn while it runs: the tree of its session, the calls that its models and tools make, each
// told once, and what the stuck rules find in them. It lives as long as the turn.
type Turn struct {
	*Tree
	Nudges []boulder.Nudge // that sessions of the tree got for the stuck rules

	rules enforcer.Rules
	told  map[string]opencode.ToolState // what was told of calls, by part
	all   bool                          // whatever is called now follows a nudge: after a crash, which does not give one again
}

// calls are those of one session.
type calls struct {
	window  *enforcer.Window     // nil: there was none
	answer  opencode.MessageInfo // the newest of its model
	tools   bool                 // that calls a tool
	running map[string]bool      // its tool calls that have not ended, by part
}

// Told is what an event told of a turn for the first time: at most one of these.
type Told struct {
	Begun     *opencode.ToolCall // a tool runs
	Ended     *opencode.ToolCall
	Announced bool // of Ended: it was told that it runs
}

// NewTurn begins to watch a turn in a session. nudges are the prompts that it got for the stuck rules before.
func NewTurn(root string, r enforcer.Rules, nudges []boulder.Nudge) *Turn {
	return &Turn{
		Tree: NewTree(root, Cursor{}), rules: r, told: map[string]opencode.ToolState{}, Nudges: nudges, all: len(nudges) > 0,
	}
}

func (t *Turn) of(sessionID string) *calls {
	c := &t.members[sessionID].calls
	if c.window == nil {
		c.window, c.running = enforcer.NewWindow(sessionID, t.rules), map[string]bool{}
	}
	return c
}

// Take takes in an event as [Tree.Take] does, and says what it tells of the turn.
func (t *Turn) Take(e opencode.Event, at time.Time) Told {
	t.Tree.Take(e, at)
	if !t.Has(e.SessionID) {
		return Told{}
	}
	switch p := e.Payload.(type) {
	case opencode.SessionCompacted:
		t.of(e.SessionID).window.Compacted()
	case opencode.MessageUpdated:
		t.answer(p.Message)
	case opencode.PartUpdated:
		if p.Part.Tool != nil {
			return t.call(p.Part)
		}
	}
	return Told{}
}

func (t *Turn) answer(m opencode.MessageInfo) {
	if m.Role != opencode.RoleAssistant {
		return
	}
	c := t.of(m.SessionID)
	c.answers(m)
	if !m.Completed.IsZero() && !m.Compacted && m.Error == nil {
		c.window.Message(enforcer.Message{
			ID: m.ID, Tools: m.Finish == opencode.FinishToolCalls || c.tools, AfterNudge: t.afterNudge(c),
		})
	}
}

// answers takes in which answer a session's model gives now: the calls of the one before have ended, even if no event
// said so.
func (c *calls) answers(m opencode.MessageInfo) {
	if c.answer.ID != m.ID {
		clear(c.running)
		c.tools = false
	}
	c.answer = m
}

// call takes in a tool call as it is now. Calls are told apart by their parts: providers may give those of different
// answers the same id.
func (t *Turn) call(p opencode.Part) (told Told) {
	c, before := t.of(p.SessionID), t.told[p.ID]
	switch {
	case before.Ended():
	case p.Tool.State.Ended():
		t.told[p.ID] = p.Tool.State
		t.ended(p)
		told.Ended, told.Announced = p.Tool, before == opencode.ToolRunning
	default:
		c.tools, c.running[p.ID] = true, true
		if p.Tool.State == opencode.ToolRunning && before != opencode.ToolRunning {
			t.told[p.ID], told.Begun = p.Tool.State, p.Tool
		}
	}
	return told
}

// ended takes in a tool call that ended, for the stuck rules.
func (t *Turn) ended(p opencode.Part) {
	c := t.of(p.SessionID)
	c.tools = true
	delete(c.running, p.ID)
	var metadata struct {
		Exit int `json:"exit"` // of a shell command
	}
	if p.Tool.Tool == "bash" {
		_ = json.Unmarshal(p.Tool.Metadata, &metadata) // without it the state tells
	}
	output, failed := p.Tool.Output, metadata.Exit != 0
	if p.Tool.State == opencode.ToolError {
		output, failed = p.Tool.Error, true
	}
	c.window.Call(enforcer.Call{
		ID: p.ID, Tool: p.Tool.Tool, Input: p.Tool.Input, Output: output, Failed: failed,
		Edited: len(p.Tool.EditedFiles()) > 0, AfterNudge: t.afterNudge(c),
	})
}

// afterNudge reports whether a session's model knew of a nudge when it began its newest answer.
func (t *Turn) afterNudge(c *calls) bool {
	return t.all || slices.ContainsFunc(t.Nudges, func(n boulder.Nudge) bool { return n.MessageID == c.answer.ParentID })
}

// Nudged takes in that a nudge was sent.
func (t *Turn) Nudged(n boulder.Nudge) {
	t.Nudges, t.all = append(slices.Clip(t.Nudges), n), false
}

// Load takes in the server's state as [Tree.Load] does. prompt is the newest of the turn: the stuck rules look at what
// followed it.
func (t *Turn) Load(r Reading, prompt string) {
	t.Tree.Load(r)
	followed := false
	for _, m := range r.Messages {
		if followed && m.Info.Role == opencode.RoleAssistant {
			t.of(t.root).answers(m.Info)
			for _, p := range m.Parts {
				switch {
				case p.Tool == nil:
				case p.Tool.State.Ended():
					t.ended(p)
				case !t.told[p.ID].Ended(): // what was read a moment ago may be older than its events
					t.of(t.root).running[p.ID] = true
				}
			}
		}
		followed = followed || m.Info.ID == prompt
	}
	for _, m := range t.members {
		if !m.busy() {
			clear(m.running)
		}
	}
}

// ToolsRunning counts the tool calls that have not ended.
func (t *Turn) ToolsRunning() int {
	n := 0
	for _, m := range t.members {
		n += len(m.running)
	}
	return n
}

// Stuck is what the rules found. A sub-agent that has ended is not stuck any more, and not to be nudged.
func (t *Turn) Stuck() []enforcer.Decision {
	var all []enforcer.Decision
	for id, m := range t.members {
		if m.window != nil && (id == t.root || m.busy()) {
			all = append(all, m.window.Findings...)
		}
	}
	return all
}

// Retries are those of the sessions that OpenCode makes wait, of the one that waits the longest first.
func (t *Turn) Retries() []enforcer.Retry {
	var all []enforcer.Retry
	for _, m := range t.members {
		if s := m.status; s.Type == opencode.Retry {
			all = append(all, enforcer.Retry{Attempt: s.Attempt, Next: s.Next, Message: s.Message, Model: m.answer.Model.String()})
		}
	}
	slices.SortFunc(all, func(a, b enforcer.Retry) int {
		return cmp.Or(b.Attempt-a.Attempt, b.Next.Compare(a.Next))
	})
	return all
}

// Position is how far the turn of a prompt is.
type Position struct {
	Busy       bool
	Arrived    bool // the prompt began a turn
	Answered   bool // and the model finished it, well or badly
	Unanswered bool // the newest message is a prompt that the model has not begun to answer
	Begun      bool // the model's newest answer has content
	Failed     *opencode.TurnError
}

// Position says how far the turn of a prompt is, by all messages that followed it: not every one has it for its parent,
// since OpenCode puts prompts of its own in between (after a compaction), and so do nudges. Not known: the prompt may be
// older than the messages that are kept. All of these are looked at for an empty id.
func (t *Tree) Position(prompt string) (p Position, known bool) {
	p.Busy = t.members[t.root].busy()
	i := slices.IndexFunc(t.messages, func(m *message) bool { return m.Info.ID == prompt })
	if i < 0 && prompt != "" {
		return p, len(t.messages) < MaxMessages
	}
	for _, m := range t.messages[i+1:] {
		if p.Unanswered = !m.assistant(); p.Unanswered {
			continue
		}
		p.Arrived, p.Failed, p.Answered = true, m.Info.Error, answered(m.Info)
		p.Begun = m.Text() != "" || m.has(opencode.PartTool)
	}
	return p, true
}

// Completed reports whether nothing more is to come of the newest message.
func (t *Tree) Completed() bool {
	m := t.newest()
	return m == nil || !m.assistant() || !m.Info.Completed.IsZero()
}

// answered reports whether a message ends its turn. A summary of the conversation does not: the turn goes on after it.
// Nor does one without a finish and an error, which is what an abort leaves behind while OpenCode waits for a provider
// (seen).
func answered(m opencode.MessageInfo) bool {
	ended := m.Error != nil || m.Finish != "" && m.Finish != opencode.FinishToolCalls
	return ended && !m.Completed.IsZero() && !m.Compacted
}
