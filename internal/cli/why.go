package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
)

// whyReport is what `manager show --why SUBTASK --json` prints: one object. Fields and steps are added in later
// versions, never changed.
type whyReport struct {
	Type          string          `json:"type"` // why
	BoulderID     string          `json:"boulder_id"`
	BoulderStatus boulder.Status  `json:"boulder_status"`
	Running       bool            `json:"running"` // a process is at the boulder
	SubTask       boulder.SubTask `json:"sub_task"`
	Chain         []whyStep       `json:"chain"` // in order of time
	// Now is what the sub-task does or waits for; empty once it is over.
	Now string `json:"now,omitempty"`
}

// Kinds of a [whyStep].
const (
	stepAttempt  = "attempt"  // an attempt got its slot: model, agent, session_id, waited_ms
	stepPrompt   = "prompt"   // a prompt was sent: prompt (brief, continuation, resume), reason
	stepNudge    = "nudge"    // a prompt was sent into the running turn: rule, text
	stepFault    = "fault"    // something that is nobody's work: fault (boulder.TroubleKind), reason, until
	stepEnded    = "ended"    // a turn ended: ended, evidence
	stepGate     = "gate"     // a gate of a turn whose evidence cannot be read: gate
	stepVerdict  = "verdict"  // a turn was judged: verdict
	stepNote     = "note"     // a person said something: text
	stepWarning  = "warning"  // most of its budget is used up: reason
	stepDecision = "decision" // what followed: decision, reason, remaining, next, uncounted, by, replaced_by
)

// Decisions of a [whyStep], besides the states in which a sub-task ends and [boulder.SubTaskBlocked].
const (
	decidedContinuation = "continuation" // the same session goes on
	decidedRetry        = "retry"        // a fresh session begins
	decidedReplan       = "replan"       // the Task Ledger is asked for another plan
	decidedNoReplan     = "replan-refused"
	decidedParked       = "parked"   // it waits for a person
	decidedUnparked     = "unparked" // it does not any more
	decidedReopened     = "reopened" // a person has it tried again
)

// promptResume is the prompt of a [whyStep] besides the [boulder.TurnKind]s.
const promptResume = "resume"

// whyStep is one link of the chain: something that was seen, judged or decided. What it has besides the first four
// fields depends on the step.
type whyStep struct {
	Step    string    `json:"step"`
	Time    time.Time `json:"time"`
	Attempt int       `json:"attempt,omitempty"`
	Turn    int       `json:"turn,omitempty"`

	Model     string `json:"model,omitempty"`
	Agent     string `json:"agent,omitempty"`
	SessionID string `json:"session_id,omitempty"`
	WaitedMS  int64  `json:"waited_ms,omitempty"` // for the slot

	Prompt string       `json:"prompt,omitempty"`
	Rule   boulder.Rule `json:"rule,omitempty"`
	Text   string       `json:"text,omitempty"`

	Fault boulder.TroubleKind `json:"fault,omitempty"`
	Until time.Time           `json:"until,omitzero"`

	Ended    *boulder.Ended    `json:"ended,omitempty"`
	Evidence *boulder.Evidence `json:"evidence,omitempty"`
	Gate     *boulder.Gate     `json:"gate,omitempty"`
	Verdict  *boulder.Verdict  `json:"verdict,omitempty"`

	Decision  string   `json:"decision,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	Remaining []string `json:"remaining,omitempty"`
	Next      int      `json:"next,omitempty"`      // attempt or turn that it begins
	Uncounted bool     `json:"uncounted,omitempty"` // the attempt that ended is not a try
	// By is the sub-task whose failure led to it, if that is another one.
	By string `json:"by,omitempty"`
	// ReplacedBy is the sub-task that stands in its place; with the decision superseded.
	ReplacedBy string `json:"replaced_by,omitempty"`
}

// readWhy reads the chain of one sub-task. With an error there is a report as well if its record could be read.
func readWhy(ctx context.Context, r reader, ref, subTask string) (*whyReport, error) {
	id, err := resolve(ctx, r, ref)
	if err != nil {
		return nil, err
	}
	d, err := r.Get(ctx, id)
	i := slices.IndexFunc(d.SubTasks, func(t boulder.SubTask) bool { return t.ID == subTask })
	if i < 0 {
		if err == nil {
			err = noSubTask(id, subTask, d.SubTasks)
		}
		return nil, err
	}
	turns, turnsErr := r.Turns(ctx, id, subTask)
	w := newWhy(d, d.SubTasks[i], turns)
	from, to := span(d, d.SubTasks[i])
	for e, eventErr := range eventsOf(ctx, r, id, from) {
		err = errors.Join(err, eventErr)
		if eventErr != nil || e.Seq > to {
			break
		}
		w.take(e)
	}
	w.report.Running = runs(holderOf(ctx, r), d.Boulder)
	w.report.Now = w.now()
	return &w.report, errors.Join(err, turnsErr)
}

// span is where the events of a sub-task lie: from its first place in the queue to its end.
func span(d store.Detail, t boulder.SubTask) (after, last uint64) {
	last = d.Boulder.Seq
	if t.EndSeq > 0 {
		last = t.EndSeq
	}
	for _, a := range d.Attempts {
		if a.SubTaskID == t.ID && a.QueueSeq > 0 {
			return a.QueueSeq - 1, last
		}
	}
	return 0, last
}

// eventPage is how many events are read at once: each reading from the process that holds the state is bounded in time.
const eventPage = 2000

// eventsOf yields the events of a boulder after a number, as far as they are stored.
func eventsOf(ctx context.Context, r reader, id string, after uint64) iter.Seq2[boulder.Event, error] {
	return func(yield func(boulder.Event, error) bool) {
		for {
			events, err := r.Events(ctx, id, after, eventPage)
			for _, e := range events {
				after = e.Seq
				if !yield(e, nil) {
					return
				}
			}
			if err != nil {
				yield(boulder.Event{}, err)
			}
			if err != nil || len(events) < eventPage {
				return
			}
		}
	}
}

// noSubTask says that a boulder does not have a sub-task, and which it has.
func noSubTask(boulderID, subTask string, all []boulder.SubTask) error {
	return usagef("boulder %s has no sub-task %q: it has %s", boulderID, subTask, subTaskIDs(all))
}

// whyMaker puts the chain together from records and events.
type whyMaker struct {
	report   whyReport
	detail   store.Detail
	turns    map[turnRef]*boulder.Turn
	reason   string // of the continuation that the next prompt carries
	activity string // last sign of life of the running turn
}

type turnRef struct{ attempt, turn int }

func newWhy(d store.Detail, t boulder.SubTask, turns []boulder.Turn) *whyMaker {
	w := &whyMaker{
		detail: d, turns: map[turnRef]*boulder.Turn{},
		report: whyReport{
			Type: "why", BoulderID: d.Boulder.ID, BoulderStatus: d.Boulder.Status, SubTask: t, Chain: []whyStep{},
		},
	}
	for _, turn := range turns {
		w.turns[turnRef{turn.Attempt, turn.Number}] = &turn
	}
	return w
}

// take adds what an event says about the sub-task, if it says anything.
func (w *whyMaker) take(e boulder.Event) {
	if b, ok := e.Body.(boulder.BudgetWarning); ok && b.SubTaskID == w.report.SubTask.ID {
		w.add(e, whyStep{Step: stepWarning, Reason: describe(b)})
	}
	if b, ok := e.Body.(boulder.Noted); ok && (b.SubTaskID == "" || b.SubTaskID == w.report.SubTask.ID) {
		w.add(e, whyStep{Step: stepNote, Text: b.Text})
	}
	if !w.decision(e) && refOf(e.Body).SubTaskID == w.report.SubTask.ID {
		w.seen(e)
	}
}

func (w *whyMaker) add(e boulder.Event, s whyStep) {
	s.Time = e.Time
	w.report.Chain = append(w.report.Chain, s)
}

// seen adds what an attempt of the sub-task was told and did, and what came of that.
func (w *whyMaker) seen(e boulder.Event) {
	switch b := e.Body.(type) {
	case boulder.Starting:
		w.add(e, w.begun(b.Attempt, e.Time))
	case boulder.SubTaskStart:
		w.started(b)
	case boulder.TurnSent:
		s := whyStep{Step: stepPrompt, Attempt: b.Attempt, Turn: b.Turn, Prompt: string(b.Kind), Reason: w.reason}
		if b.Resume {
			s.Prompt, s.Reason = promptResume, "the turn was cut off, and its session was idle"
		}
		w.add(e, s)
		w.reason, w.activity = "", ""
	case boulder.Nudged:
		w.add(e, whyStep{Step: stepNudge, Attempt: b.Attempt, Turn: b.Turn, Rule: b.Rule, Text: b.Prompt})
	case boulder.SubTaskProgress:
		w.activity = b.Activity
	case boulder.Trouble:
		w.add(e, whyStep{Step: stepFault, Attempt: b.Attempt, Fault: b.Kind, Reason: b.Reason, Until: b.NotBefore})
	case boulder.TurnEnded:
		s := whyStep{Step: stepEnded, Attempt: b.Attempt, Turn: b.Turn, Ended: &b.Ended}
		if t := w.turns[turnRef{b.Attempt, b.Turn}]; t != nil {
			s.Evidence = t.Evidence
		}
		w.add(e, s)
		w.activity = ""
	case boulder.GateRun:
		w.gate(e, b)
	case boulder.Judged:
		w.add(e, whyStep{Step: stepVerdict, Attempt: b.Attempt, Turn: b.Turn, Verdict: &b.Verdict})
	}
}

// begun is the step of an attempt that got its slot.
func (w *whyMaker) begun(attempt int, at time.Time) whyStep {
	s := whyStep{Step: stepAttempt, Attempt: attempt}
	for _, a := range w.detail.Attempts {
		if a.SubTaskID == w.report.SubTask.ID && a.Attempt == attempt {
			s.Model, s.Agent, s.WaitedMS = a.Model, a.Agent, max(0, at.Sub(a.QueuedAt).Milliseconds())
		}
	}
	return s
}

// started notes the session of an attempt, and the model that it has in fact.
func (w *whyMaker) started(b boulder.SubTaskStart) {
	for i := range w.report.Chain {
		if s := &w.report.Chain[i]; s.Step == stepAttempt && s.Attempt == b.Attempt {
			s.SessionID, s.Model = b.SessionID, b.Model
		}
	}
}

// gate adds a gate that the evidence does not have, because it cannot be read.
func (w *whyMaker) gate(e boulder.Event, b boulder.GateRun) {
	last := whyStep{}
	for _, s := range w.report.Chain {
		if s.Step == stepEnded {
			last = s
		}
	}
	if last.Evidence == nil {
		w.add(e, whyStep{Step: stepGate, Attempt: b.Attempt, Turn: last.Turn, Gate: &boulder.Gate{
			Command: b.Command, ExitCode: b.ExitCode, Output: b.Output, NoWorse: b.NoWorse,
			Duration: time.Duration(b.Millis) * time.Millisecond,
		}})
	}
}

// decision adds what was decided about the sub-task, also because of another one. It reports whether the event is a
// decision.
func (w *whyMaker) decision(e boulder.Event) bool {
	id := w.report.SubTask.ID
	s := whyStep{Step: stepDecision}
	of := "" // sub-task that the event is about
	switch b := e.Body.(type) {
	case boulder.Continuation:
		of, s.Attempt, s.Turn = b.SubTaskID, b.Attempt, b.Turn-1
		s.Decision, s.Reason, s.Remaining, s.Next = decidedContinuation, b.Reason, b.Remaining, b.Turn
		if of == id {
			w.reason = b.Reason
		}
	case boulder.Retry:
		of, s.Attempt = b.SubTaskID, b.Attempt
		s.Decision, s.Reason, s.Next, s.Uncounted = decidedRetry, b.Reason, b.Next, b.Uncounted
	case boulder.SubTaskDone:
		of, s.Attempt, s.Decision, s.Reason = b.SubTaskID, b.Attempt, string(b.Status), b.Summary
		if of != id && slices.Contains(b.Blocked, id) {
			s.By, s.Attempt, s.Decision = of, 0, string(boulder.SubTaskBlocked)
		}
	case boulder.Parked:
		of, s.Attempt, s.Decision, s.Reason = b.SubTaskID, b.Attempt, decidedParked, b.Reason
	case boulder.Unparked:
		of, s.Decision, s.Reason = b.SubTaskID, decidedUnparked, b.Reason
	case boulder.Reopened:
		of, s.Decision, s.Reason = b.SubTaskID, decidedReopened, b.Reason
	case boulder.ReplanStarted:
		of, s.Attempt, s.Decision, s.Reason = b.SubTaskID, b.Attempt, decidedReplan, b.Reason
		if of != id && slices.Contains(b.Replaces, id) {
			s.By, s.Attempt = of, 0
		}
	case boulder.ReplanTrouble:
		w.replanFault(e, b)
		return true
	case boulder.ReplanRefused:
		of, s.Attempt, s.Decision, s.Reason = b.SubTaskID, b.Attempt, decidedNoReplan, b.Reason
	case boulder.Replanned:
		of = w.replanned(b, &s)
	default:
		return false
	}
	if of == id || s.By != "" {
		w.add(e, s)
	}
	return true
}

// replanFault adds a fault of a replan that was asked for this sub-task.
func (w *whyMaker) replanFault(e boulder.Event, b boulder.ReplanTrouble) {
	if n := len(w.report.Chain); n > 0 && w.report.Chain[n-1].inReplan() {
		w.add(e, whyStep{Step: stepFault, Reason: b.Reason, Until: b.NotBefore})
	}
}

// inReplan reports whether a replan is being made after this step.
func (s whyStep) inReplan() bool {
	return s.Decision == decidedReplan || s.Step == stepFault && s.Attempt == 0
}

// replanned fills in how a new plan put an end to the sub-task, and returns whose it is; empty if it is not touched.
func (w *whyMaker) replanned(b boulder.Replanned, s *whyStep) string {
	id := w.report.SubTask.ID
	gone := slices.Contains(b.Removed, id)
	s.Decision, s.Reason = string(boulder.SubTaskSuperseded), b.Reason
	for _, c := range b.Changed {
		if c.From == id {
			gone, s.ReplacedBy = true, c.To.ID
		}
	}
	if !gone {
		return ""
	}
	if b.SubTaskID != id {
		s.By = b.SubTaskID
	}
	return id
}

const atWork = "at work"

// now says what the sub-task does or waits for.
func (w *whyMaker) now() string {
	t := &w.report.SubTask
	if t.Status.Terminal() || w.report.BoulderStatus.Terminal() {
		return ""
	}
	var open *boulder.Attempt
	for i := range w.detail.Attempts {
		if a := &w.detail.Attempts[i]; a.SubTaskID == t.ID && !a.Status.Terminal() {
			open = a
		}
	}
	text := w.doing(open)
	if !w.report.Running {
		if strings.HasPrefix(text, atWork) {
			text = "left " + text
		}
		return text + "; no process runs it: manager resume " + w.report.BoulderID
	}
	return text
}

// doing says it while the boulder is run; open is nil if no attempt is.
func (w *whyMaker) doing(open *boulder.Attempt) string {
	t, replan := &w.report.SubTask, w.detail.Boulder.Replan
	switch {
	case t.Status == boulder.SubTaskBlocked:
		return "blocked: " + t.Reason
	case replan != nil && slices.Contains(replan.Replaces, t.ID):
		return "waits for a new plan: " + replan.Reason
	case open == nil:
		return "waits for " + strings.Join(w.unfinished(), ", ")
	case open.Status == boulder.AttemptQueued:
		return "waits for a slot"
	case open.Reason != "" && !open.NotBefore.IsZero():
		return "waits until " + clock(open.NotBefore) + ": " + open.Reason
	case open.Status == boulder.AttemptMonitoring:
		return "is being judged"
	}
	return joinedBy(": ", atWork, w.activity)
}

// unfinished are the sub-tasks that it still waits for.
func (w *whyMaker) unfinished() []string {
	var ids []string
	for _, t := range w.detail.SubTasks {
		if t.Status != boulder.SubTaskCompleted && slices.Contains(w.report.SubTask.DependsOn, t.ID) {
			ids = append(ids, fmt.Sprintf("%q", t.ID))
		}
	}
	return ids
}
