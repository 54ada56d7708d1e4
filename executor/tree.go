package executor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
)

// member is what was seen of one session of the turn: its own, or a sub-agent's, or one of theirs.
type member struct {
	window    *enforcer.Window
	directory string // empty: the project
	idle      bool
	retry     *enforcer.Retry
	title     string          // what a sub-agent is to do
	activity  string          // its newest
	answer    answer          // its model's newest
	running   map[string]bool // tool calls of that answer, by part
}

// answer names an answer and the model that gives it, which its steps do not.
type answer struct {
	ID    string
	Model opencode.ModelRef
}

func (t *turn) member(session string) *member {
	m := t.seen.tree[session]
	if m == nil {
		m = &member{window: enforcer.NewWindow(session, t.rules)}
		if t.seen.tree == nil {
			t.seen.tree = map[string]*member{}
		}
		t.seen.tree[session] = m
	}
	return m
}

// join takes in that a session of the tree exists.
func (t *turn) join(s opencode.Session) {
	if s.ID == "" {
		return
	}
	m := t.member(s.ID)
	m.title = titleOf(s)
	if s.Directory != t.cfg.Project {
		m.directory = s.Directory
	}
}

// joined is join for what an event tells.
func (t *turn) joined(ctx context.Context, s opencode.Session) error {
	t.join(s)
	if m := t.seen.tree[s.ID]; m == nil || m.directory == "" || t.seen.offered[m.directory] || !t.seen.diverting || !t.diverted() {
		return nil
	}
	t.offerTool(ctx, false)
	return t.tellUnoffered()
}

// directory is the server's view of the directory in which something happened; empty stands for the project's.
func (t *turn) directory(path string) *opencode.Directory {
	if path == "" || path == t.cfg.Project {
		return t.dir
	}
	return t.conn.Client.In(path)
}

// directoryOf is the server's view of the directory in which a session of the tree works.
func (t *turn) directoryOf(sessionID string) *opencode.Directory {
	return t.directory(t.member(sessionID).directory)
}

// findChildren reads which sessions the tree has, since an event that told so may have been missed.
func (t *turn) findChildren(ctx context.Context) error {
	t.member(t.job.Attempt.SessionID)
	children, err := t.descendants(ctx)
	for _, c := range children {
		t.join(c)
		t.sub.Follow(c.ID)
	}
	return fault(ignoreGone(err))
}

// answers takes in which answer a session's model gives now: the calls of the one before have ended, even if no event said so.
func (m *member) answers(info opencode.MessageInfo) {
	if m.answer.ID != info.ID {
		m.running = nil
	}
	m.answer = answer{info.ID, info.Model}
}

// runs takes in how far a tool call has come.
func (m *member) runs(p opencode.Part) {
	if ended(p.Tool) {
		delete(m.running, p.ID)
	} else {
		setIn(&m.running, p.ID)
	}
}

// ended reports whether a part is a tool call that has ended.
func ended(c *opencode.ToolCall) bool { return c != nil && c.State.Ended() }

func (t *turn) toolsRunning() int {
	n := 0
	for _, m := range t.seen.tree {
		n += len(m.running)
	}
	return n
}

// message takes in an answer of the model.
func (t *turn) message(m opencode.MessageInfo) {
	if m.Role != opencode.RoleAssistant {
		return
	}
	t.member(m.SessionID).answers(m)
	if t.isNudge(m.ParentID) {
		setIn(&t.seen.heard, m.ID)
	}
	if m.Completed.IsZero() || m.Compacted || m.Error != nil {
		return
	}
	t.member(m.SessionID).window.Message(enforcer.Message{
		ID: m.ID, Tools: m.Finish == opencode.FinishToolCalls || t.seen.calling[m.ID], Heard: t.hears(m.ID),
	})
}

// called takes in a tool call that ended.
func (t *turn) called(p opencode.Part) {
	setIn(&t.seen.calling, p.MessageID)
	c := p.Tool
	output, failed := c.Output, c.State == opencode.ToolError || exitCode(c) != 0
	if c.State == opencode.ToolError {
		output = c.Error
	}
	t.member(p.SessionID).window.Call(enforcer.Call{
		ID: p.ID, Tool: c.Tool, Input: c.Input, Output: output, Failed: failed,
		Edited: len(c.EditedFiles()) > 0, Heard: t.hears(p.MessageID),
	})
}

// hears reports whether the model knew of the nudge when it began a message. After a crash it is taken to: the nudge is
// stored, and not given again.
func (t *turn) hears(messageID string) bool {
	return t.seen.heard[messageID] || !t.seen.nudged && len(t.job.Turn.Nudges) > 0
}

func (t *turn) isNudge(messageID string) bool {
	return slices.ContainsFunc(t.job.Turn.Nudges, func(n boulder.Nudge) bool { return n.MessageID == messageID })
}

// missed takes in what the state tells and no event did.
func (t *turn) missed(p position) {
	if p.busy {
		m := t.member(t.job.Attempt.SessionID)
		m.idle, m.retry = false, nil
		if s := p.status; s.Type == opencode.Retry {
			m.retry = &enforcer.Retry{Attempt: s.Attempt, Next: s.Next, Message: s.Message}
		}
	}
	for _, m := range p.messages {
		for _, part := range m.Parts {
			if ended(part.Tool) {
				t.called(part)
			}
		}
	}
}

// retry is the retry that keeps the tree waiting the longest.
func (t *turn) retry() *enforcer.Retry {
	var worst *enforcer.Retry
	for _, m := range t.seen.tree {
		if r := m.retry; r != nil && (worst == nil || r.Attempt > worst.Attempt || r.Next.After(worst.Next)) {
			worst = r
		}
	}
	return worst
}

// findings are what the windows say. A sub-agent that has ended is not stuck any more, and not to be prompted.
func (t *turn) findings() []enforcer.Finding {
	var all []enforcer.Finding
	for id, m := range t.seen.tree {
		if id == t.job.Attempt.SessionID || !m.idle {
			all = append(all, m.window.Findings()...)
		}
	}
	return all
}

func (t *turn) nudgedFor() []boulder.Rule {
	var rules []boulder.Rule
	for _, n := range t.job.Turn.Nudges {
		rules = append(rules, n.Rule)
	}
	return rules
}

// nudge tells the agent in the running turn that it seems to be stuck, once for each rule. Whether the prompt arrives
// is not followed up: if it is lost, the rule stops the turn a little later.
func (t *turn) nudge(ctx context.Context, d enforcer.Decision) error {
	now := t.cfg.Now()
	n := boulder.Nudge{Rule: d.Rule, MessageID: opencode.NewMessageID(now), Prompt: nudgeText(d), At: now.UTC()}
	err := t.report(boulder.Nudged{
		AttemptRef: t.job.Attempt.AttemptRef, Turn: t.job.Turn.Number, Rule: n.Rule, MessageID: n.MessageID, Prompt: n.Prompt,
	})
	if err != nil {
		return err
	}
	t.job.Turn.Nudges = append(slices.Clone(t.job.Turn.Nudges), n)
	t.seen.nudged = true
	p := opencode.Prompt{MessageID: n.MessageID, Parts: t.tagged(n.Prompt)}
	if d.Session == t.job.Attempt.SessionID {
		p.Agent, p.Model = t.job.Attempt.Agent, t.model // a sub-agent's are its own
	}
	return t.promptSession(ctx, t.directoryOf(d.Session), d.Session, p)
}

func nudgeText(d enforcer.Decision) string {
	what := "Doing the same again will not help. Say in one sentence what you have learned from it, then go another way:" +
		" other arguments, another tool, or a smaller step."
	if d.Rule == boulder.RuleIdle {
		what = "Act: call the tool that does the next step. If everything is done, say what was done and end your turn."
	}
	return "[manager] You seem to be stuck: " + d.Reason + ". " + what +
		" If it cannot be done, leave it, and say so and why in your final message."
}

// yield ends the turn because its provider needs time that is better spent without a slot.
func (t *turn) yield(ctx context.Context, sub *opencode.Subscription, d enforcer.Decision) error {
	r := t.retry()
	began := t.cfg.Now()
	if err := t.stop(ctx, sub); err != nil {
		return err
	}
	message := ""
	if r != nil {
		message = r.Message
	}
	after := max(0, d.RetryAfter-t.cfg.Now().Sub(began)).Round(time.Millisecond)
	return retryFault(message, t.modelName(nil), d.Reason, after)
}

// refused is a member whose provider refuses it for good; nil if there is none.
func (t *turn) refused() *member {
	for _, m := range t.seen.tree {
		if hopeless(m.retry) {
			return m
		}
	}
	return nil
}

// giveUp ends the turn because of that: what OpenCode's tries would cost in time is only lost.
func (t *turn) giveUp(ctx context.Context, sub *opencode.Subscription, m *member) error {
	message, model := m.retry.Message, cmp.Or(m.answer.Model.String(), t.modelName(nil))
	if err := t.stop(ctx, sub); err != nil {
		return err
	}
	return retryFault(message, model, "", 0)
}
