package cli

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/project"
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
	// GatesFrom names the replaced sub-tasks from which gates were taken over, by gate.
	GatesFrom map[string]string `json:"gates_from,omitempty"`
	Chain     []whyStep         `json:"chain"` // in order of time
	// Now is what the sub-task does or waits for; empty once it is over.
	Now string `json:"now,omitempty"`

	claimed map[string]bool // see [boulder.Claimed]
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
	stepBlocker  = "blocker"  // something that only a person can answer came up: text
	stepAnswer   = "answer"   // a person answered it, or said that there will be no answer: text
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
	id, err := project.Resolve(ctx, r, ref)
	if err != nil {
		return nil, err
	}
	d, err := r.Get(ctx, id)
	t, findErr := findSubTask(d, subTask)
	if t == nil {
		return nil, cmp.Or(err, findErr)
	}
	turns, turnsErr := r.Turns(ctx, id, t.ID)
	w := newWhy(d, *t, turns)
	from, to := span(d, *t)
	for e, eventErr := range eventsOf(ctx, r, id, from) {
		err = errors.Join(err, eventErr)
		if eventErr != nil || e.Seq > to && len(t.GateRuns) == 0 {
			break
		}
		if g, ok := e.Body.(boulder.GateRun); e.Seq <= to || ok && g.Final && g.SubTaskID == t.ID {
			w.take(e)
		}
	}
	w.report.Running = project.Runs(project.HolderOf(ctx, r), d.Boulder)
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
