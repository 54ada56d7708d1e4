package enforcer

import (
	"fmt"
	"time"

	"github.com/bouldermgr/manager/internal/text"
)

// Status is where the arbiter stands with a session that has ended a turn.
type Status string

const (
	// Watching: it is looked at after each turn. Also where a session starts, and what the empty Status means.
	Watching Status = "watching"
	// Complete: everything asked for holds. Moved here by a [Finish] that was stored; left by the next turn, whoever
	// began it. A crash changes nothing: it is told to nobody twice.
	Complete Status = "complete"
	// Stopped: the user said stop, or aborted a turn, or the work goes on in another session. Moved here by [StopAsked],
	// [Aborted], [Prompted] with Stop, and [Replaced]. Left by [Started]; by the user's next prompt too, unless
	// [Track.StopRequested]. Nothing that the agent or the manager does leaves it, and a crash changes nothing.
	Stopped Status = "stopped"
	// Exhausted: a bound was reached (failures, iterations, budget), or nothing is left that the agent can do. Moved here
	// by a [LetGo] that was stored; Reason says which. Left by [Started] and by the user's next prompt.
	Exhausted Status = "exhausted"
)

// Standing is what people are told of a [Track]; the names are those of seed 000.
type Standing struct {
	Status          Status    `json:"status"`
	Iteration       int       `json:"iteration"`                 // continuations since Began
	FailureCount    int       `json:"failure_count"`             // continuations in a row that brought no progress
	StopRequested   bool      `json:"stop_requested"`            // in so many words: [Started] alone lifts it
	LastActivity    time.Time `json:"last_activity,omitzero"`    // newest sign of life of the session or of a child
	LastEnforcement time.Time `json:"last_enforcement,omitzero"` // when the newest continuation was decided on
}

// Track is what the arbiter remembers of a session. The zero value is a session of which nothing is known. [Apply]
// alone changes it; it is stored after every change, so that a restart counts on.
type Track struct {
	Standing

	Reason      string    `json:"reason,omitempty"`      // of Status, for people
	Began       time.Time `json:"began,omitzero"`        // the loop: the first event, the user's newest prompt or start
	LastFailure time.Time `json:"last_failure,omitzero"` // when FailureCount grew
	Resets      int       `json:"resets,omitempty"`      // how often failures were forgotten since the newest progress
	AbortedAt   time.Time `json:"aborted_at,omitzero"`   // the newest abort that was not the manager's own
	CountdownAt time.Time `json:"countdown_at,omitzero"` // when a running countdown ends; zero: none runs
	// Pending is the message id of the continuation that was decided on and whose turn has not ended. While it is set
	// nothing else is sent. After a restart it is looked up, and sent under the same id if it never arrived.
	Pending string `json:"pending,omitempty"`
	Turn    string `json:"turn,omitempty"` // id of the last message of the newest turn that ended

	Progress    Progress `json:"progress"`              // what was ever reached since Began
	Compactions int      `json:"compactions,omitempty"` // of the session, since the newest progress
	Compacted   bool     `json:"compacted,omitempty"`   // there was one since Began
	// Open are the items of the todo list that are open; at most 50. After a compaction they are the record of what the
	// agent may have forgotten, see [OpenItems].
	Open []string `json:"open,omitempty"`
	// Of the newest turn:

	Acted    bool   `json:"acted,omitempty"`    // it called a tool
	Claimed  bool   `json:"claimed,omitempty"`  // its answer says that the work is done, see [Claims]
	Promised bool   `json:"promised,omitempty"` // the promise was given since Began, see [Promised]
	Answer   string `json:"answer,omitempty"`   // names what it said (a hash)
	Same     int    `json:"same,omitempty"`     // answers in a row, this one included, that say so without a tool call

	Stuck int `json:"stuck,omitempty"` // turns in a row of which the judge said so, this one included

	// Answers are what continuations got lately, since the newest progress, oldest first; at most 50.
	Answers []Answer `json:"answers,omitempty"`
}

// Answer is what the agent said at the end of a turn that a continuation began.
type Answer struct {
	Name string    `json:"name"` // of its words (a hash), without ids, times and numbers
	At   time.Time `json:"at"`
}

// Situation is what is known of a session that may have to go on. The caller gathers it; the arbiter does not look.
type Situation struct {
	NotOwned   string   // why the session is none of this work, nor one to watch, for people; empty: it is
	Agent      string   // of the newest turn
	Busy       bool     // a turn of the session or of a child is at work, or waits for a provider
	Background []string // children at work, and results of theirs that were not delivered
	Asks       []string // questions and permissions that wait for an answer in the tree
	Reverted   bool     // the user undid a turn, and may redo it until the next prompt
	Compacting bool     // a compaction has begun and not ended
	// Unmet is what is missing, one line for each criterion or open item ([OpenItems]), without blocked ones; empty:
	// everything that was looked at holds. Checked: the criteria that cost something (tests, the judge) were looked at since
	// the newest turn, or there are none.
	Unmet   []string
	Checked bool
	Blocked int // items that only somebody else can close
	// Broken is the error with which the newest turn ended; empty: none. Such work is incomplete, even without a todo list.
	Broken      string
	Hopeless    bool   // no continuation heals it (an unknown model, a wrong key, no credit)
	Overflow    bool   // the conversation does not fit the model any more
	StuckReason string // of Reached.Stuck, of the newest turn
	Overspent   string // which budget is used up; empty: none
}

// Toast is a short message on the screen of whoever sits before OpenCode.
type Toast struct {
	Variant, Title, Message string
}

// The variants of a [Toast], in OpenCode's words.
const (
	Success = "success"
	Warning = "warning" // layer one: it says that it is done, and is not (seed 000)
	Error   = "error"   // layer two: it is idle (seed 000)
)

// Continue decides about a session whose turn has ended: it asks the gates in order, and the first that is shut
// decides. With all open the answer is [Send] or [Fresh]. Ask after every [Apply], and again at [Decision.At].
//
// What a caller does with the answer: it stores Apply(t, Decided{...}) first, then acts. A Wait, a Look or a Check
// changes no track. After [Look], which is about the continuation [Track.Pending], it reads the session: at work →
// [Activity]; ended → [TurnEnded]; no trace of it → send it again under the same id, or [NotSent]. After [Check] it
// gives [Verified], and Situation.Checked until the next turn.
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

// failures are those that count: too many are forgotten a while after the last, so that an outage is survived.
func (v view) failures() int {
	if reached(v.FailureCount, v.MaxFailures) && v.mayForget() && !v.now.Before(v.forgottenAt()) {
		return 0
	}
	return v.FailureCount
}

func (v view) mayForget() bool {
	return v.MaxFailures > 0 && v.FailureReset > 0 && !reached(v.Track.Resets, v.Policy.Resets)
}

// sameAnswers is how often continuations got the newest answer lately.
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

func (v view) needsFreshSession() bool {
	return v.Overflow || reached(v.Track.Compactions, v.Policy.Compactions)
}

// cause is why the session has to go on, for people.
func (v view) cause() string {
	if !v.incomplete() {
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
