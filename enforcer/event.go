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
	// Activity is a sign of life of the session or of a child: it is busy, a part came, something is asked or answered.
	Activity struct{ At time.Time }
	// Aborted is the end of a turn by an abort that was not the manager's own. It stops the session.
	Aborted struct{ At time.Time }
	// StopAsked is the user's stop in so many words: `manager watch stop`.
	StopAsked struct{ At time.Time }
	// Started is the user's start, `manager watch start`: all counts restart.
	Started struct{ At time.Time }
	// Compacted is that the conversation was replaced by a summary.
	Compacted struct{ At time.Time }
	// TakenUp is that the program was started again. Nobody saw a countdown that ran when it ended.
	TakenUp struct{ At time.Time }

	// Listed is the agent's todo list as it has just written it, and a sign of life.
	Listed struct {
		At    time.Time
		Todos []boulder.Todo
	}

	// Prompted is a new message of the user: all counts restart.
	Prompted struct {
		At   time.Time
		Stop bool // it says nothing but stop ([SaysStop])
	}

	// TurnEnded is the end of a turn, well or badly, whoever began it. The first look at an idle session is one too. With
	// the Message of the turn before it is passed over: OpenCode reports the end of a turn more than once.
	TurnEnded struct {
		At      time.Time
		Message string // id of the newest assistant message; empty: the turn brought none
		Reached Reached
	}

	// Verified is that the costly criteria were looked at, as a [Check] asks.
	Verified struct {
		At    time.Time
		Green []string // the commands that passed
	}

	// Decided is what [Continue] answered. Store the track that comes of it before anything is done about the answer.
	Decided struct {
		At        time.Time
		Decision  Decision
		MessageID string // of Send and Fresh: the id under which the prompt will be sent
	}

	// NotSent is that the continuation Pending was refused, or began no turn and is not to be found: it failed.
	NotSent struct{ At time.Time }

	// Replaced is that the work goes on in the session By; give that one the track from before this event.
	Replaced struct {
		At time.Time
		By string
	}
)

// Reached is what is there at the end of a turn.
type Reached struct {
	Todos    []boulder.Todo // the agent's list as it is now
	Diff     string         // names the state of the work tree; empty: unknown
	Gates    []string       // commands that are known to be green
	Tools    bool           // the turn called a tool, or a child did
	Answer   string         // the assistant's own last text
	Stuck    bool           // the judge says that it cannot get further by itself
	Stalled  bool           // the judge saw no progress: a changed file alone is none then
	Promised bool           // the promise stands in the assistant's own text of the turn, see [Promised]
}

// Apply gives the track after an event. It is deterministic and does not change t.
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
		// What was there before is seen at the end of the turn that begins, and is no progress of a continuation.
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
		}
	case Compacted:
		t.sawActivity(e.At)
		t.Compactions++
		t.Compacted = true
	case Decided:
		t.decided(e, p)
	case NotSent:
		if t.Pending != "" {
			t.Pending = ""
			t.failed(e.At)
		}
	case Replaced:
		t.Pending, t.CountdownAt = "", time.Time{}
		t.stop("the work continues in session " + e.By)
	case TakenUp:
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
	marked := Marked(r.Answer, p.Marker)
	t.Acted, t.Claimed = r.Tools, marked || Claims(r.Answer)
	t.Promised = t.Promised || marked || r.Promised
	if r.Answer != "" || r.Tools { // of a turn without a word its error tells more
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
	switch {
	case isNew && r.Tools:
		t.progressed()
	case continued:
		// Whatever changed during a turn that called no tool was somebody else's work.
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
		if reached(t.FailureCount, p.MaxFailures) { // and forgotten, or nothing would be sent
			t.FailureCount = 0
			t.Resets++
		}
		t.Iteration++
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
