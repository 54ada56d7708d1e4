package enforcer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Call is a tool call that has ended.
type Call struct {
	ID         string
	Tool       string
	Input      json.RawMessage // the arguments
	Output     string          // or the error's text
	Failed     bool
	Edited     bool // an editing tool succeeded: a command repeated after it looks at something else
	AfterNudge bool // the model knew of the nudge, if there was one
}

// Message is an answer of the model that has ended.
type Message struct {
	ID         string
	Tools      bool // it calls a tool
	AfterNudge bool // as in [Call]
}

// Window is what one session did lately, within a turn. Make it with [NewWindow].
type Window struct {
	session string
	rules   Rules

	known  map[string]bool // ids of calls and messages: each is reported many times
	calls  []record        // the newest, oldest first
	edited int             // index in calls of the newest edit that is no repeat; older calls do not count

	idle        int  // messages in a row without a tool call
	compactions int  // without a new successful call between them
	fresh       bool // there was such a call since the last compaction

	// Findings are the rules that fired, each to nudge or to stop, in order. They stay.
	Findings []Decision
}

type record struct {
	mark    fingerprint
	polling bool
}

// NewWindow returns the window of a session.
func NewWindow(session string, r Rules) *Window {
	if r.Polling == nil {
		r.Polling = []*regexp.Regexp{defaultPolling()}
	}
	if r.Window < 1 {
		r.Window = DefaultRules().Window
	}
	return &Window{session: session, rules: r, known: map[string]bool{}}
}

// Call records a call that ended. A known call is ignored.
func (w *Window) Call(c Call) {
	if w.known[c.ID] {
		return
	}
	w.known[c.ID] = true
	r := record{mark: fingerprintOf(c), polling: isPolling(c.Input, w.rules.Polling)}
	isNew := !slices.ContainsFunc(w.calls, func(old record) bool { return old.mark == r.mark })
	w.calls = append(w.calls, r)
	if over := len(w.calls) - w.rules.Window; over > 0 {
		w.calls = slices.Delete(w.calls, 0, over)
		w.edited = max(0, w.edited-over)
	}
	if isNew && !c.Failed {
		w.fresh = true
		if c.Edited {
			w.edited = len(w.calls) - 1
		}
	}
	w.repeated(c, r)
	w.alternating()
}

func (w *Window) repeated(c Call, newest record) {
	n := 0
	for _, old := range w.calls[w.edited:] {
		if old.mark == newest.mark {
			n++
		}
	}
	times, limit := text.Plural(n, "time"), w.rules.SameOutput
	if newest.polling {
		limit = w.rules.SamePolling
	}
	switch {
	case c.Failed && !newest.polling:
		w.nudgeOrStop(boulder.RuleErrors, n, w.rules.SameError, w.rules.SameErrorStop, c.AfterNudge,
			fmt.Sprintf("%s failed %s in the same way", c.brief(), times))
	case reached(n, limit):
		w.found(Stop, boulder.RuleRepeat, c.brief()+" was called "+times+" and gave the same output each time")
	}
}

func (w *Window) nudgeOrStop(rule boulder.Rule, n, nudge, stop int, afterNudge bool, reason string) {
	if reached(n, nudge) {
		w.found(Nudge, rule, reason)
	}
	// Calls under way when the nudge came do not count, within limits.
	if reached(n, stop) && (afterNudge || nudge < 0 || n >= 2*stop) {
		w.found(Stop, rule, reason)
	}
}

// alternating looks for A B A B at the end. Polling in between does not count.
func (w *Window) alternating() {
	n := max(4, w.rules.Alternate)
	last := w.calls[w.edited:]
	if w.rules.Alternate < 0 || len(last) < n {
		return
	}
	last = last[len(last)-n:]
	for i, r := range last {
		if r.polling || i > 0 && r.mark == last[i-1].mark || i > 1 && r.mark != last[i-2].mark {
			return
		}
	}
	w.found(Stop, boulder.RuleAlternate, fmt.Sprintf("the last %d calls are the same two in turns, with the same outputs", n))
}

// Message records an answer that ended. A known answer is ignored.
func (w *Window) Message(m Message) {
	if w.known[m.ID] {
		return
	}
	w.known[m.ID] = true
	if m.Tools {
		w.idle = 0
		return
	}
	w.idle++
	w.nudgeOrStop(boulder.RuleIdle, w.idle, w.rules.Idle, w.rules.IdleStop, m.AfterNudge,
		text.Plural(w.idle, "message")+" in a row called no tool, and the turn continued")
}

// Compacted records that a summary replaced the conversation.
func (w *Window) Compacted() {
	if w.fresh {
		w.compactions = 0
	}
	w.compactions++
	w.fresh = false
	if reached(w.compactions, w.rules.Compactions) {
		w.found(Stop, boulder.RuleCompaction, "the conversation was compacted "+text.Plural(w.compactions, "time")+
			" without a new successful tool call between")
	}
}

func (w *Window) found(kind Kind, rule boulder.Rule, reason string) {
	if !slices.ContainsFunc(w.Findings, func(f Decision) bool { return f.Kind == kind && f.Rule == rule }) {
		w.Findings = append(w.Findings, Decision{Kind: kind, Rule: rule, Reason: reason, Session: w.session})
	}
}

func (c Call) brief() string {
	return strings.TrimSpace("`" + c.Tool + "` " + text.Short(cmp.Or(commandOf(c.Input), string(c.Input)), 100))
}

func commandOf(input json.RawMessage) string {
	var args struct{ Command string }
	if json.Unmarshal(input, &args) != nil {
		return ""
	}
	return args.Command
}

func isPolling(input json.RawMessage, patterns []*regexp.Regexp) bool {
	command := commandOf(input)
	return command != "" && slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(command) })
}
