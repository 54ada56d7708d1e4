package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
)

// Turn is what is known of a running turn: the tree of its session, the calls of its models and tools, each reported
// once, and what the stuck rules find in them. It lives as long as the turn.
type Turn struct {
	*Tree
	Nudges    []boulder.Nudge       // sent to sessions of the tree for the stuck rules
	Unreached *opencode.MessageInfo // the newest answer that came from no model; nil: none

	rules     enforcer.Rules
	told      map[string]opencode.ToolState // states of calls that were reported, by part id
	allNudged bool                          // all calls follow a nudge, as after a restart, so that no nudge is sent twice
}

type calls struct {
	window  *enforcer.Window     // nil: none yet
	answer  opencode.MessageInfo // the model's newest
	tools   bool                 // the newest answer calls a tool
	says    bool                 // the newest answer has a text, or reasoning
	running map[string]bool      // tool calls that have not ended, by part id
}

// CallUpdate is what an event reported for the first time: one of Begun and Ended, or neither.
type CallUpdate struct {
	Begun     *opencode.ToolCall // a tool that started to run
	Ended     *opencode.ToolCall
	Announced bool // of Ended: Begun was reported before
}

// NewTurn starts to follow a turn of a session. nudges are those that it got for the stuck rules so far.
func NewTurn(root string, r enforcer.Rules, nudges []boulder.Nudge) *Turn {
	return &Turn{
		Tree: NewTree(root, Cursor{}), rules: r, told: map[string]opencode.ToolState{}, Nudges: nudges,
		allNudged: len(nudges) > 0,
	}
}

func (t *Turn) of(sessionID string) *calls {
	c := &t.members[sessionID].calls
	if c.window == nil {
		c.window, c.running = enforcer.NewWindow(sessionID, t.rules), map[string]bool{}
	}
	return c
}

// Take takes in an event as [Tree.Take] does, and returns what it reports about the turn.
func (t *Turn) Take(e opencode.Event, at time.Time) CallUpdate {
	t.Tree.Take(e, at)
	if !t.Has(e.SessionID) {
		return CallUpdate{}
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
		t.of(e.SessionID).takes(p.Part)
	}
	return CallUpdate{}
}

func (t *Turn) answer(m opencode.MessageInfo) {
	if m.Role != opencode.RoleAssistant {
		return
	}
	c := t.of(m.SessionID)
	c.answers(m)
	switch {
	case m.Completed.IsZero(), m.Compacted, m.Error != nil:
	case fromNoModel(m, c.says || c.tools):
		t.Unreached = &m
	default:
		c.window.Message(enforcer.Message{
			ID: m.ID, Tools: m.Finish == opencode.FinishToolCalls || c.tools, AfterNudge: t.afterNudge(c),
		})
	}
}

// answers takes in a model's current answer. The calls of the one before have ended, even if no event said so.
func (c *calls) answers(m opencode.MessageInfo) {
	if c.answer.ID != m.ID {
		clear(c.running)
		c.tools, c.says = false, false
	}
	c.answer = m
}

// takes takes in a part that is no tool call.
func (c *calls) takes(p opencode.Part) {
	c.says = c.says || p.MessageID == c.answer.ID && p.Text != ""
}

// call takes in the state of a tool call. Parts identify calls: providers may reuse a call's id in another answer.
func (t *Turn) call(p opencode.Part) (told CallUpdate) {
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

// ended passes a tool call that ended to the stuck rules.
func (t *Turn) ended(p opencode.Part) {
	c := t.of(p.SessionID)
	c.tools = true
	delete(c.running, p.ID)
	var metadata struct {
		Exit int `json:"exit"` // of a shell command
	}
	if p.Tool.Tool == "bash" {
		_ = json.Unmarshal(p.Tool.Metadata, &metadata) // without it the state decides
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
	return t.allNudged || slices.ContainsFunc(t.Nudges, func(n boulder.Nudge) bool { return n.MessageID == c.answer.ParentID })
}

// Nudged records that a nudge was sent.
func (t *Turn) Nudged(n boulder.Nudge) {
	t.Nudges, t.allNudged = append(slices.Clip(t.Nudges), n), false
}

// Load takes in the server's state as [Tree.Load] does. The stuck rules look at what followed prompt, the newest one.
func (t *Turn) Load(r ServerState, prompt string) {
	t.Tree.Load(r)
	followed := false
	for _, m := range r.Messages {
		if followed && m.Info.Role == opencode.RoleAssistant {
			t.of(t.root).answers(m.Info)
			for _, p := range m.Parts {
				switch {
				case p.Tool == nil:
					t.of(t.root).takes(p)
				case p.Tool.State.Ended():
					t.ended(p)
				case !t.told[p.ID].Ended(): // a Reading may be older than events
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

// ToolsRunning counts the calls in progress.
func (t *Turn) ToolsRunning() int {
	n := 0
	for _, m := range t.members {
		n += len(m.running)
	}
	return n
}

// Stuck returns what the stuck rules found. A sub-agent that has ended is no longer stuck and gets no nudge.
func (t *Turn) Stuck() []enforcer.Decision {
	var all []enforcer.Decision
	for id, m := range t.members {
		if m.window != nil && (id == t.root || m.busy()) {
			all = append(all, m.window.Findings...)
		}
	}
	return all
}

// Retries returns the sessions' waits for a retry, those with the most attempts first.
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

// Position is the progress of a prompt's turn.
type Position struct {
	Busy       bool
	Arrived    bool                // the prompt started a turn
	Answered   bool                // the model finished it, well or badly
	Unanswered bool                // the newest message is a prompt that the model has not begun to answer
	Begun      bool                // the model's newest answer has content
	Failed     *opencode.TurnError // perhaps [NotReached]
}

// Position returns the progress of a prompt's turn, by all messages after the prompt. Not all have it as parent:
// OpenCode adds prompts of its own (after a compaction), and nudges are prompts, too. known is false if the prompt may
// be older than the kept messages. For an empty id all kept messages count.
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
		p.Arrived, p.Failed, p.Answered = true, Failure(m.Message), answered(m.Info)
		p.Begun = m.Text() != "" || m.has(opencode.PartTool)
	}
	return p, true
}

// CutOff says why a turn that seems to have ended was cut off, or returns "": by its last answer's finish, its error if there is
// one, whether it called tools, and how many tokens it put out. least is [enforcer.Rules.MinOutput].
func CutOff(finish, failed string, tools bool, output int64, least int) string {
	switch {
	case finish == opencode.FinishLength, failed == opencode.MessageOutputLength:
		return "the turn was cut off at the output limit"
	case finish == opencode.FinishUnknown:
		return "the turn ended for a reason that its provider did not name"
	case failed != "", tools, least < 0, output > int64(least):
		return ""
	}
	return fmt.Sprintf("the turn ended after %d output tokens and no tool call", output)
}

// Output returns the tokens that an answer put out; an estimate if its provider counts none, or nonsense.
func Output(m opencode.Message) int64 {
	return cmp.Or(m.Info.Tokens.Output, int64(utf8.RuneCountInString(m.Text())/4))
}

// CutOff says why the newest turn was cut off, as the function does, or returns "".
func (t *Tree) CutOff(least int) string {
	newest := t.newest()
	if newest == nil || !newest.assistant() || !answered(newest.Info) {
		return ""
	}
	tools, output, failed := false, int64(0), ""
	for _, m := range t.turn() {
		if m.assistant() && !m.Info.Compacted {
			tools, output = tools || m.has(opencode.PartTool), output+Output(m.Message)
		}
	}
	if err := Failure(newest.Message); err != nil {
		failed = err.Name
	}
	return CutOff(newest.Info.Finish, failed, tools, output, least)
}

// Completed reports whether the newest message is complete.
func (t *Tree) Completed() bool {
	m := t.newest()
	return m == nil || !m.assistant() || !m.Info.Completed.IsZero()
}

// NotReached is the error of an answer that came from no model. OpenCode takes it for a good one.
var NotReached = &opencode.TurnError{
	Name: opencode.APIError, Message: "the answer is empty and cost nothing: the model was not reached", Retryable: true,
}

// Failure returns the error of an assistant's message, [NotReached] included, or nil.
func Failure(m opencode.Message) *opencode.TurnError {
	says := slices.ContainsFunc(m.Parts, func(p opencode.Part) bool { return p.Tool != nil || p.Text != "" })
	if m.Info.Error == nil && fromNoModel(m.Info, says) {
		return NotReached
	}
	return m.Info.Error
}

// fromNoModel reports whether a gateway answered in a model's stead: with an error, or with nothing that was counted.
func fromNoModel(m opencode.MessageInfo, says bool) bool {
	empty := !says && m.Tokens == opencode.Tokens{} && (m.Finish == opencode.FinishStop || m.Finish == opencode.FinishUnknown)
	return (empty || m.Finish == opencode.FinishError) && !m.Completed.IsZero() && !m.Compacted
}

// answered reports whether a message ends its turn. A summary does not: the turn continues. Neither does a message
// without finish and error, which an abort leaves behind while OpenCode waits for a provider (seen).
func answered(m opencode.MessageInfo) bool {
	ended := m.Error != nil || m.Finish != "" && m.Finish != opencode.FinishToolCalls
	return ended && !m.Completed.IsZero() && !m.Compacted
}
