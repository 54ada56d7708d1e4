package view

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/report"
)

// Why is what `manager show --why SUBTASK --json` prints: one object, folded from its events.
type Why struct {
	Type          string          `json:"type"` // why
	BoulderID     string          `json:"boulder_id"`
	BoulderStatus boulder.Status  `json:"boulder_status"`
	Running       bool            `json:"running"` // a process runs the boulder
	SubTask       boulder.SubTask `json:"sub_task"`
	// GatesFrom maps inherited gates to the superseded sub-task that they come from.
	GatesFrom map[string]string `json:"gates_from,omitempty"`
	Chain     []Entry           `json:"chain"`         // in chronological order
	Now       string            `json:"now,omitempty"` // what it does or waits for; empty if it is over

	detail boulder.Snapshot
	ended  int    // number of the turn that ended last
	reason string // of the continuation whose prompt is sent next
}

// NewWhy makes the chain of decisions about a sub-task from the boulder's events, as far as they can be read.
func NewWhy(of *project.Reading, t *boulder.SubTask) *Why {
	d, running := of.Snapshot, of.Running()
	w := &Why{
		Type: "why", BoulderID: d.Boulder.ID, BoulderStatus: d.Boulder.Status, Running: running, SubTask: *t,
		GatesFrom: map[string]string{}, Chain: []Entry{}, detail: d,
	}
	for _, gate := range slices.Concat(t.Gates, t.NoWorse) {
		if from := d.Boulder.GateOrigin(t, d.SubTasks, gate); from != "" {
			w.GatesFrom[gate] = from
		}
	}
	for _, e := range of.Events {
		w.take(e)
	}
	if t.Status.Terminal() || d.Boulder.Status.Terminal() {
		return w
	}
	p, _ := ProgressOf(nil, d, of.Events)
	rows := p.rows(of.Limits, nil, of.Now, running)
	r := rows[slices.IndexFunc(rows, func(r row) bool { return r.ID == t.ID })]
	switch w.Now = r.Now; {
	case t.Parked && len(t.AwaitedBy(t.Attempts)) > 0:
		w.Now = "blocked: " + w.Now + "; answer with: " + ClarifyHint
	case t.Status == boulder.SubTaskBlocked:
		w.Now = "blocked: " + w.Now
	case r.attempt == nil && !r.replan: // Now is "after a, b": what it depends on
		w.Now = "begins " + w.Now
	case r.Stopped:
		w.Now += ": " + r.attempt.Reason
	case r.live && running:
		w.Now = "at work: " + w.Now
	}
	if !running {
		how := "; no process runs it: manager resume " + boulder.ShortID(w.BoulderID)
		if of.Holder == nil && d.Boulder.Engine != "" {
			how = "; that was when this copy was made: reach it with manager-" + d.Boulder.Engine + " gateway"
		}
		w.Now += how
	}
	return w
}

func (w *Why) take(e boulder.Event) {
	t, s := &w.SubTask, Describe(e)
	of, mine := s.SubTask, s.SubTask == t.ID
	switch b := e.Body.(type) { // an event of another sub-task may be about this one too
	case boulder.Noted:
		mine = mine || of == "" && (t.EndSeq == 0 || e.Seq < t.EndSeq)
	case boulder.Redone:
		mine = slices.Contains(b.SubTasks, t.ID) || slices.Contains(b.Perhaps, t.ID)
		if why := reasonText(b.Reasons[t.ID]); why != "" {
			s.Line, s.Reason = "redo: "+why, why
		}
	case boulder.Switched:
		mine = slices.Contains(b.SubTasks, t.ID)
		s.Line = InsteadText(b.To, boulder.Instead{Model: b.From, Reason: b.Reason})
	case boulder.PlanEdited:
		mine = slices.Contains(b.Changed, t.ID) || slices.Contains(b.Removed, t.ID)
	case boulder.SubTaskDone:
		if slices.Contains(b.Kept, t.ID) {
			mine, s.Decision, s.Attempt, s.By = true, "keep", 0, of
			s.Line = fmt.Sprintf("kept: %q came out the same", of)
		}
		if slices.Contains(b.Blocked, t.ID) {
			mine, s.Decision, s.Attempt, s.By = true, string(boulder.SubTaskBlocked), 0, of
			s.Line = fmt.Sprintf("blocked: %q %s", of, Stated(string(b.Status), b.Summary))
		}
	case boulder.ReplanStarted:
		if !mine && slices.Contains(b.Replaces, t.ID) {
			mine, s.Attempt, s.By = true, 0, of
		}
	case boulder.PlanTrouble:
		if n := len(w.Chain); n > 0 { // of the replan of this sub-task
			last := w.Chain[n-1]
			mine = last.Decision == "replan" || last.Step == stepFault && last.Attempt == 0
		}
	case boulder.Replanned:
		s.By = text.If(!mine, of)
		mine = slices.Contains(b.Removed, t.ID)
		for _, c := range b.Changed {
			if c.From == t.ID {
				mine, s.ReplacedBy = true, c.To.ID
			}
		}
		s.Line = text.JoinedBy(" by ", "superseded", s.ReplacedBy) + ": " + b.Reason
	}
	if s.Step == "" || !mine {
		return
	}
	if s.By != "" && s.Decision != string(boulder.SubTaskBlocked) {
		s.Line += fmt.Sprintf(" (because of %q)", s.By)
	}
	switch b := e.Body.(type) { // what Describe does not know
	case boulder.Starting:
		for _, a := range w.detail.Attempts {
			if a.AttemptRef == b.AttemptRef {
				s.Model, s.Effort, s.Agent, s.SessionID = a.Model, a.EffortUsed(), a.Agent, a.SessionID
				s.WaitedMS = max(0, e.Time.Sub(a.QueuedAt).Milliseconds())
			}
		}
	case boulder.SubTaskStart: // it may have another one by now
		for i := range w.Chain {
			if c := &w.Chain[i]; c.Step == stepAttempt && c.Attempt == b.Attempt {
				c.Model, c.Effort = b.Model, b.Effort
			}
		}
	case boulder.Continuation:
		w.reason = b.Reason
	case boulder.TurnSent:
		s.Reason, w.reason = cmp.Or(s.Reason, w.reason), ""
	case boulder.TurnEnded:
		if w.ended = b.Turn; b.Evidence.Duration > 0 {
			s.Line += " (" + text.Elapsed(b.Evidence.Duration) + ")"
		}
	case boulder.GateRun:
		if s.Turn = w.ended; !b.Final {
			return // the evidence has it
		}
	}
	w.Chain = append(w.Chain, s)
}

// Print writes the chain for people, with evidence and verdicts.
func (w *Why) Print(o page.Out) {
	subTaskHead(o, &w.SubTask, w.GatesFrom)
	o.Field(1, "boulder", boulder.ShortID(w.BoulderID))
	if len(w.Chain) == 0 {
		o.Item(1, "Nothing has been done for it yet.")
	}
	claimed := boulder.Claimed(w.detail.SubTasks)
	for _, s := range w.Chain {
		line := o.Plain(s.Line)
		switch s.Step {
		case stepAttempt:
			o.Say()
			o.Say(o.Bold(fmt.Sprintf("attempt %d", s.Attempt)), "  ", o.Faint(text.JoinedBy(", ", text.Stamp(s.Time), ModelName(boulder.WithEffort(s.Model, s.Effort)),
				text.Prefixed("agent ", s.Agent), text.Prefixed("session ", s.SessionID),
				text.If(s.WaitedMS >= 1000, "waited "+text.Millis(s.WaitedMS)+" for its slot"))))
			continue
		case stepDecision:
			line = o.Bold("→ " + o.As(s.sign, line))
		case stepNudge, stepFault, stepNote, stepWarning, stepBlocker:
			line = o.Yellow(line)
		}
		if s.Gate != nil {
			line = o.Mark(GateSign(report.NewGate(*s.Gate))) + " " + line
		}
		o.Item(1, o.Dim(Clock(s.Time)), "  ", line)
		switch {
		case s.Step == stepNudge:
			o.Text(3, firstLines(text.Safe(s.Text), 4))
		case s.Evidence != nil:
			evidence(o, 3, s.Evidence, w.detail.Boulder.Project, claimed)
		case s.Gate != nil:
			o.Output(3, 10, report.NewGate(*s.Gate).Output)
		case s.Verdict != nil:
			PrintVerdict(o, 3, s.Verdict)
		}
	}
	if w.Now != "" {
		o.Say()
		o.Say(o.Cyan("now:"), " ", o.Plain(w.Now))
	}
}
