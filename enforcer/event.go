package enforcer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// Event is something that happened to a session, for [Apply]: one of the types below that have an At.
type Event any

type (
	// Activity is a sign of life of the session or a child: it is busy, a part came, something is asked or answered.
	Activity struct{ At time.Time }
	// Aborted is the end of a turn by an abort that was not the manager's. It stops the session.
	Aborted struct{ At time.Time }
	// StopAsked is the user's explicit stop: `manager watch stop`.
	StopAsked struct{ At time.Time }
	// Started is the user's start, `manager watch start`: all counts restart.
	Started struct{ At time.Time }
	// Compacted means that a summary replaced the conversation.
	Compacted struct{ At time.Time }
	// Restarted means that the program was restarted. A countdown that ran before was not shown to its end.
	Restarted struct{ At time.Time }

	// Listed is the todo list as the agent has just written it, and a sign of life.
	Listed struct {
		At    time.Time
		Todos []boulder.Todo
	}

	// Prompted is a new message of the user: all counts restart.
	Prompted struct {
		At   time.Time
		Stop bool // it says only stop ([SaysStop])
	}

	// TurnEnded is the end of a turn, whoever began it, or the first look at an idle session. One with the Message of
	// the turn before is ignored: OpenCode reports the end of a turn more than once.
	TurnEnded struct {
		At      time.Time
		Message string // id of the newest assistant message; empty: the turn brought none
		Reached Reached
	}

	// Verified means that the costly criteria were checked, as a [Check] asks.
	Verified struct {
		At    time.Time
		Green []string // the commands that passed
	}

	// Decided is an answer of [Continue]. Store the resulting track before acting on the answer.
	Decided struct {
		At        time.Time
		Decision  Decision
		MessageID string // of Send and Fresh: the id of the prompt to send
		// Of Send and Fresh: the ids of the questions that the prompt leaves aside, and whether it has answers of the user.
		Aside    []string
		Answered bool
	}

	// NotSent means that the continuation Pending failed: it was refused, or began no turn and cannot be found.
	NotSent struct{ At time.Time }

	// Replaced means that session By continues the work. Give By the track from before this event.
	Replaced struct {
		At time.Time
		By string
	}
)

// Reached is the state at the end of a turn.
type Reached struct {
	Todos    []boulder.Todo // the agent's list as it is now
	Diff     string         // identifies the state of the work tree; empty: unknown
	Gates    []string       // commands known to be green
	Tools    bool           // the turn or a child called a tool
	Answer   string         // the assistant's own last text
	Stuck    bool           // the judge says that the agent cannot get further by itself
	Stalled  bool           // the judge saw no progress: changed files alone do not count then
	Promised bool           // the assistant's text in the turn gives the promise, see [Promised]
	Marked   bool           // it gives the marker, perhaps before its last text
}

// Apply returns the track after an event. It is deterministic and does not change t.
func Apply(t Track, event Event, p Policy) Track {
	t.Status = cmp.Or(t.Status, Watching)
	switch e := event.(type) {
	case Activity:
		t.sawActivity(e.At)
	case Listed:
		t.sawActivity(e.At)
		t.Open = OpenItems(t, e.Todos)
	case Prompted:
		t.sawActivity(e.At)
		t.restart(e.At)
		switch {
		case e.Stop:
			t.stop("the user wrote that it is to stop")
		case !t.StopRequested:
			t.Status, t.Reason = Watching, ""
		}
		// The turn that begins records what exists, so that it is no progress of a continuation.
		t.Progress = Progress{}
	case Aborted:
		t.sawActivity(e.At)
		t.Pending, t.AbortedAt = "", later(t.AbortedAt, e.At)
		if t.Status != Stopped {
			t.stop("the user aborted the turn")
		}
	case StopAsked:
		t.sawActivity(e.At)
		t.StopRequested = true
		t.stop("the user stopped it")
	case Started:
		t.StopRequested, t.CountdownAt = false, time.Time{}
		t.Status, t.Reason = Watching, ""
		t.restart(e.At)
	case TurnEnded:
		t.turnEnded(e, p)
	case Verified:
		if t.Progress.add(Reached{Gates: e.Green}) && t.Acted {
			t.progressed()
			t.Moved = true
		}
	case Compacted:
		t.sawActivity(e.At)
		t.Compactions++
		t.Compacted = true
	case Decided:
		t.decided(e, p)
	case NotSent:
		if t.Pending != "" {
			t.Pending, t.Aside = "", nil
			t.failed(e.At)
		}
	case Replaced:
		t.Pending, t.CountdownAt = "", time.Time{}
		t.stop("the work continues in session " + e.By)
	case Restarted:
		t.CountdownAt = time.Time{}
	default:
		panic(fmt.Sprintf("enforcer: %T is no event", event))
	}
	return t
}

func (t *Track) turnEnded(e TurnEnded, p Policy) {
	if e.Message != "" && e.Message == t.Turn {
		return
	}
	t.sawActivity(e.At)
	continued := t.Pending != ""
	t.Turn, t.Pending = e.Message, ""
	if t.Status == Complete {
		t.Status, t.Reason = Watching, ""
	}
	r := e.Reached
	marked := r.Marked || Marked(r.Answer, p.Marker)
	t.Marked, t.Acted, t.Claimed = marked, r.Tools, marked || Claims(r.Answer)
	t.Promised = t.Promised || marked || r.Promised
	if r.Answer != "" || r.Tools { // the error tells more about a turn without a word
		name := shortHash(Normalize(r.Answer))
		switch {
		case r.Tools:
			t.Same = 0
		case name == t.Answer:
			t.Same++
		default:
			t.Same = 1
		}
		t.Answer = name
	}
	vain := r.Stalled && !t.Progress.BeyondFiles(r)
	isNew := t.Progress.add(r) && !vain
	t.Moved = isNew && r.Tools // changes during a turn that called no tool are not the agent's
	switch {
	case t.Moved:
		t.progressed()
	case continued:
		t.failed(e.At)
	}
	if continued && strings.TrimSpace(r.Answer) != "" && p.SameWindow > 0 {
		t.Answers = append(slices.Clip(t.Answers), Answer{shortHash(canonicalText(r.Answer)), e.At}) // a copy
		t.Answers = slices.DeleteFunc(t.Answers, func(a Answer) bool { return e.At.Sub(a.At).Abs() > p.SameWindow })
		t.Answers = t.Answers[max(0, len(t.Answers)-maxAnswers):]
	}
	if t.Stuck++; !r.Stuck {
		t.Stuck = 0
	}
	t.Open = OpenItems(*t, r.Todos)
}

func (t *Track) decided(e Decided, p Policy) {
	switch d := e.Decision; d.Kind {
	case Countdown:
		t.CountdownAt = d.At
	case Send, Fresh:
		if reached(t.FailureCount, p.MaxFailures) { // they were forgotten, or nothing would be sent
			t.FailureCount = 0
			t.Resets++
		}
		t.Iteration++
		if t.Aside = e.Aside; e.Answered { // what was promised and reached without the answers no longer counts
			t.Promised = false
			t.progressed()
		}
		t.LastEnforcement, t.Pending, t.CountdownAt = e.At, e.MessageID, time.Time{}
		if d.Kind == Fresh {
			t.Compactions = 0
		}
	case Finish:
		t.Status, t.Reason, t.CountdownAt = Complete, d.Reason, time.Time{}
	case LetGo:
		t.Status, t.Reason, t.CountdownAt = Exhausted, d.Reason, time.Time{}
	}
}

func (t *Track) sawActivity(at time.Time) {
	t.LastActivity, t.CountdownAt, t.Began = later(t.LastActivity, at), time.Time{}, cmp.Or(t.Began, at)
}

func (t *Track) restart(at time.Time) {
	t.Began, t.Pending = at, ""
	t.Iteration, t.FailureCount, t.Resets, t.Compactions, t.Same, t.Stuck = 0, 0, 0, 0, 0, 0
	t.Promised, t.Claimed, t.Compacted, t.Answer = false, false, false, ""
	t.Open, t.Answers = nil, nil
}

func (t *Track) stop(why string) { t.Status, t.Reason = Stopped, why }

func (t *Track) progressed() { t.FailureCount, t.Resets, t.Compactions, t.Answers = 0, 0, 0, nil }

func (t *Track) failed(at time.Time) {
	t.FailureCount++
	t.LastFailure = at
}

const maxAnswers = 50

func later(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }
