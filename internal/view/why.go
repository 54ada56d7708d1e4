package view

import (
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/store"
)

// Why is what `manager show --why SUBTASK --json` prints: one object, folded from its events.
type Why struct {
	Type          string          `json:"type"` // why
	BoulderID     string          `json:"boulder_id"`
	BoulderStatus boulder.Status  `json:"boulder_status"`
	Running       bool            `json:"running"` // a process is at the boulder
	SubTask       boulder.SubTask `json:"sub_task"`
	// GatesFrom names the replaced sub-tasks from which gates were taken over, by gate.
	GatesFrom map[string]string `json:"gates_from,omitempty"`
	Chain     []WhyStep         `json:"chain"`         // in order of time
	Now       string            `json:"now,omitempty"` // what it does or waits for; empty once it is over

	detail store.Detail
	turns  []boulder.Turn
	reason string // of the continuation that the next prompt carries
}

// Kinds of a [WhyStep].
const (
	stepAttempt  = "attempt"  // an attempt got its slot: model, agent, session_id, waited_ms
	stepPrompt   = "prompt"   // a prompt was sent: prompt (brief, continuation, resume), reason
	stepNudge    = "nudge"    // a prompt was sent into the running turn: rule, text
	stepFault    = "fault"    // what is no agent's fault: fault (boulder.TroubleKind), reason, until
	stepEnded    = "ended"    // a turn ended: ended, evidence
	stepGate     = "gate"     // a gate of a turn whose evidence cannot be read, or one on the final files: gate
	stepVerdict  = "verdict"  // a turn was judged: verdict
	stepNote     = "note"     // the user said something: text
	stepBlocker  = "blocker"  // something that only the user can answer came up: text
	stepAnswer   = "answer"   // the user answered it, or said that there will be no answer: text
	stepWarning  = "warning"  // most of its budget is used up: reason
	stepDecision = "decision" // what followed: decision, reason, remaining, next, uncounted, by, replaced_by
)

// WhyStep is one link of the chain: something that was seen, judged or decided. What it has besides the first four
// fields depends on the step.
type WhyStep struct {
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

	// Decision is continuation, retry, replan, replan-refused, parked, unparked, reopened, or the status that it got.
	Decision   string   `json:"decision,omitempty"`
	Reason     string   `json:"reason,omitempty"`
	Remaining  []string `json:"remaining,omitempty"`
	Next       int      `json:"next,omitempty"`        // attempt or turn that it begins
	Uncounted  bool     `json:"uncounted,omitempty"`   // the attempt that ended does not count
	By         string   `json:"by,omitempty"`          // the other sub-task whose failure led to it
	ReplacedBy string   `json:"replaced_by,omitempty"` // the sub-task that stands in its place: superseded

	sign, line string // for people
}

// NewWhy makes the chain of decisions about a sub-task, from its turns and the boulder's events, as far as they can be
// read, and says what it does or waits for now. running: a process is at the boulder.
func NewWhy(
	d store.Detail, t boulder.SubTask, turns []boulder.Turn, events []boulder.Event, limits schedule.Limits, running bool,
	now time.Time,
) *Why {
	w := &Why{
		Type: "why", BoulderID: d.Boulder.ID, BoulderStatus: d.Boulder.Status, Running: running, SubTask: t,
		GatesFrom: map[string]string{}, Chain: []WhyStep{}, detail: d, turns: turns,
	}
	for _, gate := range slices.Concat(t.Gates, t.NoWorse) {
		if from := d.Boulder.GateOrigin(&t, d.SubTasks, gate); from != "" {
			w.GatesFrom[gate] = from
		}
	}
	for _, e := range events {
		w.take(e)
	}
	if t.Status.Terminal() || d.Boulder.Status.Terminal() {
		return w
	}
	p, _ := ProgressOf(nil, d, events, nil)
	rows := p.rows(limits, nil, now, running)
	r := rows[slices.IndexFunc(rows, func(r row) bool { return r.ID == t.ID })]
	switch w.Now = r.now; {
	case t.Parked && len(t.AwaitedBy(t.Attempts)) > 0:
		w.Now = "blocked: " + w.Now + "; answer with: " + ClarifyHint
	case t.Status == boulder.SubTaskBlocked:
		w.Now = "blocked: " + w.Now
	case r.attempt == nil && !r.replan: // after what it depends on
		w.Now = "begins " + w.Now
	case r.Stopped:
		w.Now += ": " + r.attempt.Reason
	case r.live && running:
		w.Now = "at work: " + w.Now
	}
	if !running {
		w.Now += "; no process runs it: manager resume " + w.BoulderID
	}
	return w
}

// take adds what an event says about the sub-task, if it says anything.
func (w *Why) take(e boulder.Event) {
	t := &w.SubTask
	of, sign, line := Describe(e.Body)
	mine, by := of == t.ID, "" // by: it is another one's, and about this one all the same
	s := WhyStep{Time: e.Time, sign: sign, line: line}
	step := func(kind string, attempt, turn int) { s.Step, s.Attempt, s.Turn = kind, attempt, turn }
	decide := func(decision string, attempt int, reason string) {
		s.Step, s.Decision, s.Attempt, s.Reason = stepDecision, decision, attempt, reason
	}
	switch b := e.Body.(type) {
	case boulder.Starting:
		step(stepAttempt, b.Attempt, 0)
		for _, a := range w.detail.Attempts {
			if a.AttemptRef == b.AttemptRef {
				s.Model, s.Agent, s.WaitedMS = a.Model, a.Agent, max(0, e.Time.Sub(a.QueuedAt).Milliseconds())
			}
		}
	case boulder.SubTaskStart:
		for i := range w.Chain {
			if a := &w.Chain[i]; mine && a.Step == stepAttempt && a.Attempt == b.Attempt {
				a.SessionID, a.Model = b.SessionID, b.Model
			}
		}
	case boulder.TurnSent:
		step(stepPrompt, b.Attempt, b.Turn)
		if s.Prompt, s.Reason = string(b.Kind), w.reason; b.Resume {
			s.Prompt, s.Reason = "resume", "the turn was cut off, and its session was idle"
			s.line += ", because " + s.Reason
		}
		if mine {
			w.reason = ""
		}
	case boulder.Nudged:
		step(stepNudge, b.Attempt, b.Turn)
		s.Rule, s.Text = b.Rule, b.Prompt
	case boulder.BlockerRaised:
		step(stepBlocker, b.Attempt, 0)
		s.Text = line
	case boulder.BlockerSettled:
		s.Step, s.Text = stepAnswer, line
	case boulder.BudgetWarning:
		s.Step, s.Reason = stepWarning, line
	case boulder.Noted:
		s.Step, s.Text = stepNote, b.Text
		mine = mine || of == "" && (t.EndSeq == 0 || e.Seq < t.EndSeq)
	case boulder.Trouble:
		step(stepFault, b.Attempt, 0)
		s.Fault, s.Reason, s.Until = b.Kind, b.Reason, b.NotBefore
	case boulder.TurnEnded:
		step(stepEnded, b.Attempt, b.Turn)
		s.Ended = &b.Ended
		for _, t := range w.turns {
			if t.AttemptRef == b.AttemptRef && t.Number == b.Turn {
				s.Evidence = t.Evidence
			}
		}
		if s.Evidence != nil && s.Evidence.Duration > 0 {
			s.line += " (" + text.Elapsed(s.Evidence.Duration) + ")"
		}
	case boulder.GateRun:
		last := WhyStep{}
		for _, before := range w.Chain {
			if before.Step == stepEnded {
				last = before
			}
		}
		if last.Evidence == nil || b.Final { // else the evidence has it
			step(stepGate, b.Attempt, last.Turn)
			gate := gateOf(b)
			s.Gate = &gate
		}
	case boulder.Judged:
		step(stepVerdict, b.Attempt, b.Turn)
		s.Verdict = &b.Verdict
	case boulder.Continuation:
		decide("continuation", b.Attempt, b.Reason)
		s.Turn, s.Remaining, s.Next, s.Until = b.Turn-1, b.Remaining, b.Turn, b.NotBefore
		if mine {
			w.reason = b.Reason
		}
	case boulder.Retry:
		decide("retry", b.Attempt, b.Reason)
		s.Next, s.Uncounted = b.Next, b.Uncounted
	case boulder.SubTaskDone:
		decide(string(b.Status), b.Attempt, b.Summary)
		if slices.Contains(b.Blocked, t.ID) {
			decide(string(boulder.SubTaskBlocked), 0, b.Summary)
			by, s.line = of, fmt.Sprintf("blocked: %q %s", of, report.Stated(string(b.Status), b.Summary))
		}
	case boulder.Parked:
		decide("parked", b.Attempt, b.Reason)
	case boulder.Unparked:
		decide("unparked", 0, b.Reason)
	case boulder.Reopened:
		decide("reopened", 0, b.Reason)
	case boulder.ReplanStarted:
		decide("replan", b.Attempt, b.Reason)
		if !mine && slices.Contains(b.Replaces, t.ID) {
			by, s.Attempt = of, 0
		}
	case boulder.ReplanTrouble:
		s.Step, s.Reason, s.Until = stepFault, b.Reason, b.NotBefore
		if n := len(w.Chain); n > 0 { // of a replan that was asked for this sub-task
			last := w.Chain[n-1]
			mine = last.Decision == "replan" || last.Step == stepFault && last.Attempt == 0
		}
	case boulder.ReplanRefused:
		decide("replan-refused", b.Attempt, b.Reason)
	case boulder.Replanned:
		decide(string(boulder.SubTaskSuperseded), 0, b.Reason)
		gone := slices.Contains(b.Removed, t.ID)
		for _, c := range b.Changed {
			if c.From == t.ID {
				gone, s.ReplacedBy = true, c.To.ID
			}
		}
		if gone && !mine {
			by = of
		}
		mine = gone
		s.line = JoinedBy(" by ", "superseded", s.ReplacedBy) + ": " + b.Reason
	}
	if s.By = by; by != "" && s.Decision != string(boulder.SubTaskBlocked) {
		s.line += fmt.Sprintf(" (because of %q)", by)
	}
	if s.Step != "" && (mine || by != "") {
		w.Chain = append(w.Chain, s)
	}
}

// Print shows the chain of decisions to people: the log of the sub-task, with what was seen and judged below.
func (w *Why) Print(o page.Out) {
	subTaskHead(o, &w.SubTask, w.GatesFrom)
	o.Field(1, "boulder", w.BoulderID)
	if len(w.Chain) == 0 {
		o.Item(1, "Nothing has been done for it yet.")
	}
	claimed := boulder.Claimed(w.detail.SubTasks)
	for _, s := range w.Chain {
		line := o.Plain(s.line)
		switch s.Step {
		case stepAttempt:
			waited := text.Elapsed(time.Duration(s.WaitedMS) * time.Millisecond)
			o.Say()
			o.Say(o.Bold(fmt.Sprintf("attempt %d", s.Attempt)), "  ", o.Faint(JoinedBy(", ", Stamp(s.Time), ModelName(s.Model),
				report.Prefixed("agent ", s.Agent), report.Prefixed("session ", s.SessionID),
				when(s.WaitedMS >= 1000, "waited "+waited+" for its slot"))))
			continue
		case stepDecision:
			line = o.Bold("→ " + o.As(s.sign, line))
		case stepNudge, stepFault, stepNote, stepWarning, stepBlocker:
			line = o.Yellow(line)
		}
		if s.Gate != nil {
			run := report.NewGate(*s.Gate)
			sign, _ := run.Text()
			line = o.Mark(sign) + " " + line
		}
		o.Item(1, o.Dim(Clock(s.Time)), "  ", line)
		switch {
		case s.Step == stepNudge:
			o.Text(3, firstLines(text.Safe(s.Text), 4))
		case s.Evidence != nil:
			evidence(o, 3, s.Evidence, claimed)
		case s.Step == stepEnded:
			o.Field(3, "evidence", "none is stored")
		case s.Gate != nil:
			o.Output(3, 10, report.NewGate(*s.Gate).Output)
		case s.Verdict != nil:
			verdict(o, 3, s.Verdict)
		}
	}
	if w.Now != "" {
		o.Say()
		o.Say(o.Cyan("now:"), " ", o.Plain(w.Now))
	}
}
