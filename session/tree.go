// Package session models the tree of one OpenCode session: its own session and those of its sub-agents. It follows
// OpenCode's events and, where events may be missing, the server's state. [Tree] and [Turn] are pure: no clock, no I/O.
// [Read] asks the server. [StandIn] answers asks in the user's stead. "(seen)": observed on OpenCode 1.18.33.
package session

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
)

const (
	// MaxMessages is how many of the newest messages of a main session are kept, and read after a gap.
	MaxMessages = 60
	// maxTold is how many reported facts are remembered: more than MaxMessages can bring.
	maxTold = 3 * MaxMessages
	// maxItem is how much of a todo item is kept, in characters. Agents write a line.
	maxItem = 300
	// delivery bounds the wait for a background task's result. It takes milliseconds (seen) or is lost with its server.
	delivery = time.Minute
)

// Tree is what is known of a main session and its sub-agents' sessions, from OpenCode's events ([Tree.Take]) and, where
// events may be missing, the server's state ([Tree.Load]). Both return what happened, in the arbiter's terms, and
// report nothing twice. It holds at most 60 messages of the main session, with at most 16 KiB of each text.
type Tree struct {
	root       string
	members    map[string]*member   // by session id, with the root
	messages   []*message           // of the root, oldest first
	background map[string]time.Time // when background sub-agents started, by session id
	told       []string             // facts that were reported, newest last, see [Cursor]
	horizon    time.Time            // what happened before is not reported
	failed     *opencode.TurnError  // of the newest turn, if no message has the error

	Todos    []boulder.Todo // the agent's current list
	Findings Findings       // of the main session
	Deleted  bool           // the main session was deleted
}

type member struct {
	session opencode.Session
	status  opencode.Status
	asks    map[string]opencode.Request // pending, by request id
	life    time.Time                   // newest sign of life
	calls                               // of a [Turn]
}

func (m *member) busy() bool {
	return m.status.Type == opencode.Busy || m.status.Type == opencode.Retry
}

// Cursor is how much of a session's history the arbiter was told. It is stored with the resulting track.
type Cursor struct {
	Told    []string  `json:"told,omitempty"`   // message ids with the facts that were reported
	Horizon time.Time `json:"horizon,omitzero"` // older messages are ignored
}

// NewTree continues from a cursor, which is zero for a session seen for the first time.
func NewTree(root string, c Cursor) *Tree {
	return &Tree{
		root: root, members: map[string]*member{root: {asks: map[string]opencode.Request{}}}, background: map[string]time.Time{},
		told: slices.Clone(c.Told), horizon: c.Horizon,
	}
}

// Cursor returns the cursor to store.
func (t *Tree) Cursor() Cursor { return Cursor{Told: slices.Clone(t.told), Horizon: t.horizon} }

// Has reports whether a session belongs to the tree.
func (t *Tree) Has(sessionID string) bool { _, ok := t.members[sessionID]; return ok }

// Sessions returns the ids of all sessions of the tree, sorted.
func (t *Tree) Sessions() []string { return slices.Sorted(maps.Keys(t.members)) }

// BeginAt makes everything before at history, for a session seen for the first time.
func (t *Tree) BeginAt(at time.Time) { t.horizon = at }

// Member returns a session of the tree as the server last reported it, or a zero one.
func (t *Tree) Member(sessionID string) opencode.Session {
	if m := t.members[sessionID]; m != nil {
		return m.session
	}
	return opencode.Session{}
}

// In returns the directory in which a session of the tree works. dir is the main session's.
func (t *Tree) In(dir *opencode.Directory, sessionID string) *opencode.Directory {
	if path := t.Member(sessionID).Directory; path != "" {
		return dir.Client().In(path)
	}
	return dir
}

// Session returns the main session as the server last reported it.
func (t *Tree) Session() opencode.Session { return t.members[t.root].session }

// Busy reports whether any session of the tree works, or waits for a provider or an answer.
func (t *Tree) Busy() bool {
	for _, m := range t.members {
		if m.busy() {
			return true
		}
	}
	return false
}

// Request returns what the user wrote last, as far as it is known.
func (t *Tree) Request() string { return t.last((*message).fromUser).Text() }

// Clarifies reports whether that was /blockers clarify, so that the user is present.
func (t *Tree) Clarifies() bool { return t.last((*message).fromUser).clarifies }

// Summary returns the newest summary of the conversation, or "" without a recent compaction.
func (t *Tree) Summary() string {
	return t.last(func(m *message) bool { return m.Info.Compacted }).Text()
}

// Chosen returns the newest message with the user's agent and model, or a zero one. Summaries have their own agent.
func (t *Tree) Chosen() opencode.MessageInfo {
	return t.last(func(m *message) bool {
		return !m.Info.Compacted && !m.Info.Model.IsZero() && m.Info.Agent != "compaction"
	}).Info
}

// Agent returns the agent of the user's choice.
func (t *Tree) Agent() string { return cmp.Or(t.Chosen().Agent, t.Session().Agent) }

// last returns the newest message of a kind, or an empty one.
func (t *Tree) last(is func(*message) bool) *message {
	for _, m := range slices.Backward(t.messages) {
		if is(m) {
			return m
		}
	}
	return &message{}
}

// markTold reports whether a fact about a message was not reported before, and remembers that it is now.
func (t *Tree) markTold(what string, m *message) bool {
	key := what + " " + m.Info.ID
	if m.Info.Created.Before(t.horizon) || slices.Contains(t.told, key) {
		return false
	}
	t.told = append(t.told, key)
	t.told = slices.Delete(t.told, 0, max(0, len(t.told)-maxTold))
	return true
}

func (t *Tree) known(messageID string) *message {
	for _, m := range slices.Backward(t.messages) {
		if m.Info.ID == messageID {
			return m
		}
	}
	return nil
}

func (t *Tree) newest() *message {
	if len(t.messages) == 0 {
		return nil
	}
	return t.messages[len(t.messages)-1]
}

// Answers returns the assistant's messages of the newest turn, as far as they are known.
func (t *Tree) Answers() []opencode.MessageInfo {
	var all []opencode.MessageInfo
	for _, m := range t.turn() {
		if m.assistant() {
			all = append(all, m.Info)
		}
	}
	return all
}

// turn returns the messages of the newest turn, its prompt first, as far as they are known.
func (t *Tree) turn() []*message {
	for i, m := range slices.Backward(t.messages) {
		if m.begins() {
			return t.messages[i:]
		}
	}
	return t.messages
}

// Reached returns the state at the end of the newest turn.
func (t *Tree) Reached() (newestID string, r enforcer.Reached) {
	r.Todos = slices.Clone(t.Todos)
	for _, m := range t.turn() {
		if !m.assistant() || m.Info.Compacted {
			continue
		}
		newestID = m.Info.ID
		r.Tools = r.Tools || m.has(opencode.PartTool)
		if d := m.diff(); d != "" {
			r.Diff = d
		}
		if says := m.Text(); says != "" {
			r.Answer = says
			r.Promised = r.Promised || enforcer.Promised(says)
		}
	}
	return newestID, r
}

// compacting reports whether a compaction is under way. A dead server's marker expires: the next prompt compacts then.
func (t *Tree) compacting(now time.Time) bool {
	m := t.newest()
	summing := m != nil && m.Info.Compacted && m.Info.Completed.IsZero()
	if m == nil || !m.has(opencode.PartCompaction) && !summing {
		return false
	}
	return t.members[t.root].busy() || now.Before(t.life().Add(delivery))
}

// Pending returns the questions and permissions that agents wait for. Those of a session that is not busy are obsolete:
// OpenCode keeps listing them after an abort (seen).
func (t *Tree) Pending() []opencode.Request {
	var all []opencode.Request
	for _, m := range t.members {
		if m.busy() {
			all = slices.AppendSeq(all, maps.Values(m.asks))
		}
	}
	slices.SortFunc(all, func(a, b opencode.Request) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// working describes the sub-agents at work, and those whose result is on its way.
func (t *Tree) working(now time.Time) []string {
	var all []string
	for id, m := range t.members {
		since, inBackground := t.background[id]
		switch {
		case id == t.root:
		case m.busy():
			all = append(all, name(m.session)+" is at work")
		case inBackground && now.Before(later(since, m.life).Add(delivery)):
			all = append(all, "the result of "+name(m.session)+" is not delivered yet")
		}
	}
	slices.Sort(all)
	return all
}

// Lapses returns when the situation changes without an event, or zero.
func (t *Tree) Lapses(now time.Time) time.Time {
	var all []time.Time
	if t.compacting(now) {
		all = append(all, t.life().Add(delivery))
	}
	for id, since := range t.background {
		if m, ok := t.members[id]; ok && !m.busy() {
			all = append(all, later(since, m.life).Add(delivery))
		}
	}
	return Earliest(slices.DeleteFunc(all, func(at time.Time) bool { return !at.After(now) })...)
}

func name(s opencode.Session) string {
	if s.Title != "" {
		return fmt.Sprintf("%q", text.Short(s.Title, 60))
	}
	return s.ID
}

// Broken returns the error that ended the newest turn, or "" for none or an abort. hopeless: no prompt will help.
// overflow: the conversation exceeds the model's context.
func (t *Tree) Broken() (words string, hopeless, overflow bool) {
	err := t.failed
	for _, m := range slices.Backward(t.turn()) {
		if m.assistant() {
			// The session's error comes first, the message's up to a second after the idle status (seen).
			err = cmp.Or(Failure(m.Message), err)
			break
		}
	}
	switch m := t.newest(); {
	case err != nil && err.Name != opencode.MessageAborted:
		// Only the user can fix these: the model, the agent, the key or the account.
		hopeless = errors.Is(err, opencode.ErrUnknownModel) || errors.Is(err, opencode.ErrUnknownAgent) ||
			err.Name == opencode.ProviderAuth || err.Name == opencode.APIError && slices.Contains([]int{
			http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound,
		}, err.StatusCode)
		return text.Short(err.Error(), 300), hopeless, err.Name == opencode.ContextOverflow
	case err != nil, m == nil, t.members[t.root].busy():
	case m.assistant() && m.Info.Completed.IsZero(), m.fromUser(): // no agent is at work on it
		return "OpenCode ended while the agent was at work", false, false
	}
	return "", false, false
}

func (t *Tree) life() time.Time {
	var newest time.Time
	for _, m := range t.members {
		newest = later(newest, m.life)
	}
	return newest
}

// Spent returns what the tree has cost so far, sub-agents included.
func (t *Tree) Spent() (tokens int64, dollars float64) {
	for _, m := range t.members {
		tokens += Usage(m.session.Tokens, 0).Tokens()
		dollars += m.session.Cost
	}
	return tokens, dollars
}

// SpentBefore returns what the tree had cost before the newest turn, even if the session was first seen later.
func (t *Tree) SpentBefore() (tokens int64, dollars float64) {
	tokens, dollars = t.Spent()
	for _, m := range t.turn() {
		tokens -= Usage(m.Info.Tokens, 0).Tokens()
		dollars -= m.Info.Cost
	}
	return max(0, tokens), max(0, dollars)
}

// Usage returns what a model was paid for, in US dollars. OpenCode reports 0 without a price: that counts as unpriced.
func Usage(t opencode.Tokens, cost float64) boulder.Usage {
	u := boulder.Usage{ // impossible counts do not count, or they would defeat a budget
		Input: t.Input, CacheRead: t.CacheRead, CacheWrite: t.CacheWrite, Output: t.Output, Reasoning: t.Reasoning, Cost: cost,
	}.Sane()
	u.Input, u.Output = u.Input+u.CacheRead+u.CacheWrite, u.Output+u.Reasoning
	if u.Cost == 0 && u.Tokens() > 0 {
		u.Unpriced = 1
	}
	return u
}

func later(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// Earliest returns the earliest non-zero time, or zero.
func Earliest(times ...time.Time) (first time.Time) {
	for _, at := range times {
		if first.IsZero() || !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}
