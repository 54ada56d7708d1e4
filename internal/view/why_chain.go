package view

import (
	"cmp"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
)

// whyMaker puts the chain together from records and events.
type whyMaker struct {
	Report   Why
	detail   store.Detail
	turns    map[TurnRef]*boulder.Turn
	reason   string // of the continuation that the next prompt carries
	activity string // last sign of life of the running turn
}

// TurnRef names a turn of a sub-task; both count from 1.
type TurnRef struct{ Attempt, Turn int }

// NewWhy makes the chain of decisions about a sub-task from its records.
func NewWhy(d store.Detail, t boulder.SubTask, turns []boulder.Turn) *whyMaker {
	w := &whyMaker{
		detail: d, turns: map[TurnRef]*boulder.Turn{},
		Report: Why{
			Type: "why", BoulderID: d.Boulder.ID, BoulderStatus: d.Boulder.Status, SubTask: t, Chain: []WhyStep{},
			claimed: boulder.Claimed(d.SubTasks),
		},
	}
	for _, gate := range slices.Concat(t.Gates, t.NoWorse) {
		if from := d.Boulder.GateOrigin(&t, d.SubTasks, gate); from != "" {
			if w.Report.GatesFrom == nil {
				w.Report.GatesFrom = map[string]string{}
			}
			w.Report.GatesFrom[gate] = from
		}
	}
	for _, turn := range turns {
		w.turns[TurnRef{turn.Attempt, turn.Number}] = &turn
	}
	return w
}

// Take adds what an event says about the sub-task, if it says anything.
func (w *whyMaker) Take(e boulder.Event) {
	if b, ok := e.Body.(boulder.BudgetWarning); ok && b.SubTaskID == w.Report.SubTask.ID {
		w.add(e, WhyStep{Step: stepWarning, Reason: Describe(b)})
	}
	if b, ok := e.Body.(boulder.Noted); ok && (b.SubTaskID == "" || b.SubTaskID == w.Report.SubTask.ID) {
		w.add(e, WhyStep{Step: stepNote, Text: b.Text})
	}
	if !w.decision(e) && RefOf(e.Body).SubTaskID == w.Report.SubTask.ID {
		w.seen(e)
	}
}

func (w *whyMaker) add(e boulder.Event, s WhyStep) {
	s.Time = e.Time
	w.Report.Chain = append(w.Report.Chain, s)
}

// seen adds what an attempt of the sub-task was told and did, and what came of that.
func (w *whyMaker) seen(e boulder.Event) {
	switch b := e.Body.(type) {
	case boulder.Starting:
		w.add(e, w.begun(b.Attempt, e.Time))
	case boulder.SubTaskStart:
		w.started(b)
	case boulder.TurnSent:
		s := WhyStep{Step: stepPrompt, Attempt: b.Attempt, Turn: b.Turn, Prompt: string(b.Kind), Reason: w.reason}
		if b.Resume {
			s.Prompt, s.Reason = promptResume, "the turn was cut off, and its session was idle"
		}
		w.add(e, s)
		w.reason, w.activity = "", ""
	case boulder.Nudged:
		w.add(e, WhyStep{Step: stepNudge, Attempt: b.Attempt, Turn: b.Turn, Rule: b.Rule, Text: b.Prompt})
	case boulder.BlockerRaised:
		w.add(e, WhyStep{Step: stepBlocker, Attempt: b.Attempt, Text: Describe(b)})
	case boulder.BlockerSettled:
		w.add(e, WhyStep{Step: stepAnswer, Text: Describe(b)})
	case boulder.SubTaskProgress:
		w.activity = cmp.Or(b.Activity, w.activity)
	case boulder.Trouble:
		w.add(e, WhyStep{Step: stepFault, Attempt: b.Attempt, Fault: b.Kind, Reason: b.Reason, Until: b.NotBefore})
	case boulder.TurnEnded:
		s := WhyStep{Step: stepEnded, Attempt: b.Attempt, Turn: b.Turn, Ended: &b.Ended}
		if t := w.turns[TurnRef{b.Attempt, b.Turn}]; t != nil {
			s.Evidence = t.Evidence
		}
		w.add(e, s)
		w.activity = ""
	case boulder.GateRun:
		w.gate(e, b)
	case boulder.Judged:
		w.add(e, WhyStep{Step: stepVerdict, Attempt: b.Attempt, Turn: b.Turn, Verdict: &b.Verdict})
	}
}

// begun is the step of an attempt that got its slot.
func (w *whyMaker) begun(attempt int, at time.Time) WhyStep {
	s := WhyStep{Step: stepAttempt, Attempt: attempt}
	for _, a := range w.detail.Attempts {
		if a.SubTaskID == w.Report.SubTask.ID && a.Attempt == attempt {
			s.Model, s.Agent, s.WaitedMS = a.Model, a.Agent, max(0, at.Sub(a.QueuedAt).Milliseconds())
		}
	}
	return s
}

// started notes the session of an attempt, and the model that it has in fact.
func (w *whyMaker) started(b boulder.SubTaskStart) {
	for i := range w.Report.Chain {
		if s := &w.Report.Chain[i]; s.Step == stepAttempt && s.Attempt == b.Attempt {
			s.SessionID, s.Model = b.SessionID, b.Model
		}
	}
}

// gate adds a gate that the evidence does not have, because it ran later or the evidence cannot be read.
func (w *whyMaker) gate(e boulder.Event, b boulder.GateRun) {
	last := WhyStep{}
	for _, s := range w.Report.Chain {
		if s.Step == stepEnded {
			last = s
		}
	}
	if last.Evidence == nil || b.Final {
		w.add(e, WhyStep{Step: StepGate, Attempt: b.Attempt, Turn: last.Turn, Gate: &boulder.Gate{
			Command: b.Command, ExitCode: b.ExitCode, Output: b.Output, NoWorse: b.NoWorse, TimedOut: b.TimedOut,
			Duration: time.Duration(b.Millis) * time.Millisecond,
		}})
	}
}

// decision adds what was decided about the sub-task, also because of another one. It reports whether the event is a
// decision.
func (w *whyMaker) decision(e boulder.Event) bool {
	id := w.Report.SubTask.ID
	s := WhyStep{Step: stepDecision}
	of := "" // sub-task that the event is about
	switch b := e.Body.(type) {
	case boulder.Continuation:
		of, s.Attempt, s.Turn = b.SubTaskID, b.Attempt, b.Turn-1
		s.Decision, s.Reason, s.Remaining, s.Next = decidedContinuation, b.Reason, b.Remaining, b.Turn
		s.Until = b.NotBefore
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
	if n := len(w.Report.Chain); n > 0 && w.Report.Chain[n-1].inReplan() {
		w.add(e, WhyStep{Step: stepFault, Reason: b.Reason, Until: b.NotBefore})
	}
}

// inReplan reports whether a replan is being made after this step.
func (s WhyStep) inReplan() bool {
	return s.Decision == decidedReplan || s.Step == stepFault && s.Attempt == 0
}

// replanned fills in how a new plan put an end to the sub-task, and returns whose it is; empty if it is not touched.
func (w *whyMaker) replanned(b boulder.Replanned, s *WhyStep) string {
	id := w.Report.SubTask.ID
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
