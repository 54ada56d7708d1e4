package enforcer

import (
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/internal/text"
)

// Status is where the arbiter stands with a session that has ended a turn.
type Status string

const (
	// Watching: it is looked at after each turn. The initial state, and what an empty Status means.
	Watching Status = "watching"
	// Complete: everything asked for holds. Entered by a stored [Finish], left by the next turn, whoever began it. A
	// crash changes nothing: the user is not told twice.
	Complete Status = "complete"
	// Stopped: the user said stop or aborted a turn, or another session continues the work. Entered by [StopAsked],
	// [Aborted], [Prompted] with Stop, and [Replaced]. Left by [Started], and by the user's next prompt unless
	// [Track.StopRequested]. No action of the agent or the manager leaves it, nor does a crash.
	Stopped Status = "stopped"
	// Exhausted: a bound was reached (failures, iterations, budget), or nothing is left that the agent can do; Reason
	// says which. Entered by a stored [LetGo], left by [Started] and by the user's next prompt.
	Exhausted Status = "exhausted"
)

// Overview is what users see of a [Track]; the names are those of seed 000.
type Overview struct {
	Status          Status    `json:"status"`
	Iteration       int       `json:"iteration"`                 // continuations since Began
	FailureCount    int       `json:"failure_count"`             // continuations in a row that brought no progress
	StopRequested   bool      `json:"stop_requested"`            // explicitly: only [Started] lifts it
	LastActivity    time.Time `json:"last_activity,omitzero"`    // newest sign of life of the session or a child
	LastEnforcement time.Time `json:"last_enforcement,omitzero"` // when the newest continuation was decided
}

// Track is what the arbiter remembers of a session. The zero value is a session not seen before. Only [Apply] changes
// it. Store it after every change, so that counts survive a restart.
type Track struct {
	Overview

	Reason      string    `json:"reason,omitempty"`      // of Status, for users
	Began       time.Time `json:"began,omitzero"`        // the first event, or the user's newest prompt or start
	LastFailure time.Time `json:"last_failure,omitzero"` // when FailureCount grew
	Resets      int       `json:"resets,omitempty"`      // how often failures were forgotten since the newest progress
	AbortedAt   time.Time `json:"aborted_at,omitzero"`   // the newest abort that was not the manager's
	CountdownAt time.Time `json:"countdown_at,omitzero"` // when a running countdown ends; zero: none runs
	// Pending is the message id of a continuation whose turn has not ended. While it is set nothing else is sent. After
	// a restart it is looked up, and sent under the same id if it never arrived.
	Pending string `json:"pending,omitempty"`
	Turn    string `json:"turn,omitempty"` // id of the last message of the newest ended turn

	Progress    Progress `json:"progress"`              // reached since Began
	Compactions int      `json:"compactions,omitempty"` // of the session, since the newest progress
	Compacted   bool     `json:"compacted,omitempty"`   // there was one since Began
	// Open are the open todo items, at most 50. After a compaction the agent may have forgotten them, see [OpenItems].
	Open []string `json:"open,omitempty"`
	// Of the newest turn:

	Acted    bool   `json:"acted,omitempty"`    // it called a tool
	Claimed  bool   `json:"claimed,omitempty"`  // its answer claims that the work is done, see [Claims]
	Promised bool   `json:"promised,omitempty"` // the promise was given since Began, see [Promised]
	Answer   string `json:"answer,omitempty"`   // hash of its answer
	Same     int    `json:"same,omitempty"`     // equal answers in a row without a tool call, this one included

	Moved  bool `json:"moved,omitempty"`  // it brought progress
	Marked bool `json:"marked,omitempty"` // it gave the marker: without the user, nothing is left to do

	// Aside are the ids of the questions that the newest continuation left aside: the agent was told to do the rest.
	Aside []string `json:"aside,omitempty"`

	Stuck int `json:"stuck,omitempty"` // turns in a row that the judge called stuck, this one included

	// Answers are the recent answers to continuations since the newest progress, oldest first; at most 50.
	Answers []Answer `json:"answers,omitempty"`
}

// Answer is what the agent said at the end of a turn that a continuation began.
type Answer struct {
	Name string    `json:"name"` // hash of its words, without ids, times and numbers
	At   time.Time `json:"at"`
}

// Situation is the current state of a session that may have to be continued. The caller gathers it.
type Situation struct {
	NotOwned    string   // why the session is neither part of this work nor watched; empty: it is
	Agent       string   // of the newest turn
	Busy        bool     // a turn of the session or a child is at work, or waits for a provider
	Background  []string // children at work, and their undelivered results
	Asks        []string // pending questions and permissions of the tree
	Questions   []Question
	Reverted    bool     // the user undid a turn, and may redo it until the next prompt
	Compacting  bool     // a compaction is under way
	Unmet       []string // missing criteria and open items ([OpenItems]), one line each, without blocked ones
	Checked     bool     // the costly criteria (tests, the judge) were checked since the newest turn, or there are none
	OpenItems   int      // open items of the agent's list
	Blocked     int      // items that the agent cannot close
	Broken      string   // error that ended the newest turn; empty: none. Incomplete even without a todo list
	Hopeless    bool     // no continuation heals it (an unknown model, a wrong key, no credit)
	Overflow    bool     // the conversation no longer fits the model
	StuckReason string   // of Reached.Stuck, of the newest turn
	Overspent   string   // the budget that is used up; empty: none
}

// Question is a hard blocker that has no answer. It holds up what needs the answer, not the session.
type Question struct {
	ID   string // of the blocker
	Says string // what is awaited, for users
}

// Toast is a short message on the user's OpenCode screen.
type Toast struct {
	Variant, Title, Message string
}

// The variants of a [Toast], in OpenCode's words.
const (
	Success = "success"
	Warning = "warning" // layer one: it claims to be done, and is not (seed 000)
	Error   = "error"   // layer two: it is idle (seed 000)
)

// Continue decides about a session whose turn has ended. It asks the gates in order; the first that is shut decides.
// With all open the answer is [Send] or [Fresh]. Ask after every [Apply], and again at [Decision.At].
//
// Store Apply(t, Decided{...}) before acting on the answer. Wait, Look and Check change no track. After [Look], which
// is about [Track.Pending], read the session. At work: [Activity]. Ended: [TurnEnded]. No trace: send it again under
// the same id, or [NotSent]. After [Check] apply [Verified], and set Situation.Checked until the next turn.
func Continue(t Track, s Situation, p Policy, now time.Time) Decision {
	v := view{t, s, p, now}
	for _, g := range gates {
		if d := g.ask(v); d != nil {
			d.Gate = g.name
			return *d
		}
	}
	kind := Send
	if v.needsFreshSession() {
		kind = Fresh
	}
	return Decision{Kind: kind, Gate: GateOpen, Reason: v.cause()}
}

type view struct {
	Track
	Situation
	Policy

	now time.Time
}

// failures are those that count. Too many are forgotten a while after the last, to survive an outage.
func (v view) failures() int {
	if reached(v.FailureCount, v.MaxFailures) && v.mayForget() && !v.now.Before(v.forgottenAt()) {
		return 0
	}
	return v.FailureCount
}

func (v view) mayForget() bool {
	return v.MaxFailures > 0 && v.FailureReset > 0 && !reached(v.Track.Resets, v.Policy.Resets)
}

// sameAnswers is how often continuations recently got the newest answer.
func (v view) sameAnswers() int {
	n := 0
	for _, a := range v.Answers {
		if newest := v.Answers[len(v.Answers)-1]; a.Name == newest.Name && newest.At.Sub(a.At).Abs() <= v.SameWindow {
			n++
		}
	}
	return n
}

func (v view) forgottenAt() time.Time { return v.LastFailure.Add(v.FailureReset) }

func (v view) incomplete() bool { return len(v.Unmet) > 0 || v.Broken != "" }

// goesAround reports whether the agent can do something although questions have no answer. It is told so once of each, then
// every turn has to bring progress, until it says, or its list shows, that nothing else is left (seed 003, US2, US4). A fresh
// session would not get the answers.
func (v view) goesAround() bool {
	switch {
	case v.Pending != "", v.Busy: // later gates name it
		return true
	case v.Marked, v.OpenItems == 0 && v.Blocked > 0, v.Hopeless, v.needsFreshSession():
		return false
	}
	return len(v.untold()) > 0 || v.Moved && v.incomplete()
}

// untold returns the questions that no continuation has left aside.
func (v view) untold() []Question {
	return slices.DeleteFunc(slices.Clone(v.Questions), func(q Question) bool { return slices.Contains(v.Aside, q.ID) })
}

func (v view) needsFreshSession() bool {
	return v.Overflow || reached(v.Track.Compactions, v.Policy.Compactions)
}

// cause says why the session is continued.
func (v view) cause() string {
	switch {
	case len(v.untold()) > 0:
		return "it can go on without " + v.untold()[0].Says
	case !v.incomplete():
		return "everything holds; it keeps improving"
	}
	missing := "an error at the end of the turn: " + v.Broken
	if n := len(v.Unmet); n > 0 {
		missing = text.Plural(n, "thing") + " left to do, such as: " + v.Unmet[0]
	}
	switch {
	case v.needsFreshSession():
		return "the session forgets what it does; " + missing
	case v.Claimed:
		return "it says that it is done, but there is " + missing
	case v.Idle > 0 && !v.LastActivity.IsZero():
		return fmt.Sprintf("idle for %s with %s", round(v.now.Sub(v.LastActivity)), missing)
	}
	return missing
}
