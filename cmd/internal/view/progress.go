package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
)

// Progress follows a boulder by its events. It folds them into the same state as the run, and also keeps what the
// agents do right now, which the state does not. It is not safe for concurrent use.
type Progress struct {
	State *boulder.State // nil before the first event

	stored   Stored
	broken   bool             // the stored records contradict each other, so State has no indexes
	doing    map[string]doing // by sub-task
	repeated bool             // the newest event repeats the last notice of its turn
}

// doing is what the state does not keep of a sub-task.
type doing struct {
	activity              string // newest sign of life of the running turn, as are the todos
	todosDone, todosTotal int
	notice                string // the newest: a wait may be reported more than once
	why                   string // reason for a further turn or attempt
	gate                  string // the gate that was red last, and the last line of its output
	gatesOnly             bool   // the last verdict came from the gates alone: the judge was unavailable
}

// Stored reads a boulder that an earlier process started, so that its first events were not seen.
type Stored func(ctx context.Context, boulderID string) (boulder.Snapshot, error)

// NewProgress makes a Progress that has seen no event.
func NewProgress(stored Stored) *Progress {
	return &Progress{stored: stored, doing: map[string]doing{}}
}

// ProgressOf makes the Progress of a stored boulder. It can be shown even with an error, which says that the records
// contradict each other.
func ProgressOf(stored Stored, d boulder.Snapshot, recent []boulder.Event) (p *Progress, err error) {
	p = NewProgress(stored)
	for _, e := range recent {
		if e.Seq <= d.Boulder.Seq {
			p.watch(e)
		}
	}
	if p.State, err = boulder.Restore(d); err != nil {
		p.State, p.broken = &boulder.State{Boulder: d.Boulder, SubTasks: d.SubTasks, Attempts: d.Attempts}, true
	}
	return p, err
}

// Take applies one event. An error means that the state could not be read, and is now out of date.
func (p *Progress) Take(e boulder.Event) error {
	p.watch(e)
	if _, first := e.Body.(boulder.Created); first {
		p.State = boulder.NewState()
	}
	if p.State != nil && (e.Seq <= p.State.Boulder.Seq || p.State.Replay(e) == nil) {
		return nil
	}
	// The first events were not seen. Events are stored before they are shown, so the stored state includes e.
	stored, err := p.stored(context.Background(), e.BoulderID)
	if err == nil {
		p.State, err = boulder.Restore(stored)
	}
	return err
}

func (p *Progress) watch(e boulder.Event) {
	p.repeated = false
	id := Describe(e).SubTask
	d := p.doing[id]
	switch b := e.Body.(type) {
	case boulder.SubTaskProgress:
		if b.Notice {
			p.repeated, d.notice = b.Activity == d.notice, b.Activity
		}
		d.activity = cmp.Or(b.Activity, d.activity)
		if b.TodosTotal > 0 {
			d.todosDone, d.todosTotal = b.TodosDone, b.TodosTotal
		}
	case boulder.SubTaskStart:
		d.activity = ""
	case boulder.TurnEnded, boulder.SubTaskDone:
		d = doing{gatesOnly: d.gatesOnly}
	case boulder.GateRun:
		if !b.Passed && b.NoWorse == "" {
			out := strings.TrimSpace(text.Safe(b.Output))
			d.gate = text.JoinedBy(": ", page.Bad.String()+" "+b.Command, out[strings.LastIndex(out, "\n")+1:])
		}
	case boulder.Judged:
		d.gatesOnly = b.Verdict.JudgeUnavailable
	case boulder.Continuation:
		d.why = text.Prefixed("because: ", joined(b.Reason, strings.Join(b.Remaining, "; ")))
	case boulder.Retry:
		d = doing{why: text.Prefixed("because: ", b.Reason), gate: d.gate}
	}
	p.doing[id] = d
}

// row is the current state of a sub-task. --json has the exported fields.
type row struct {
	ID        string                `json:"id"`
	Position  int                   `json:"position"` // in the plan, from 1
	Subject   string                `json:"subject"`
	Status    boulder.SubTaskStatus `json:"status"`
	Reason    string                `json:"reason,omitempty"`
	Priority  boulder.Priority      `json:"priority"`
	DependsOn []string              `json:"depends_on"`
	Model     string                `json:"model,omitempty"`  // empty: OpenCode's default
	Effort    string                `json:"effort,omitempty"` // of Model
	Agent     string                `json:"agent,omitempty"`

	Attempt       int                   `json:"attempt"`                  // number of the newest; 0 before the first
	AttemptStatus boulder.AttemptStatus `json:"attempt_status,omitempty"` // of the newest attempt, as the next two fields
	Turn          int                   `json:"turn,omitempty"`
	SessionID     string                `json:"session_id,omitempty"`

	Waiting    *orchestrator.WaitingAttempt `json:"waiting,omitempty"`  // for a slot: place in line and reason
	Stopped    bool                         `json:"stopped,omitempty"`  // its turn continues after the pause
	Activity   string                       `json:"activity,omitempty"` // last sign of life of the running turn
	Checkpoint *boulder.Checkpoint          `json:"checkpoint,omitempty"`
	Blockers   []boulder.Blocker            `json:"blockers,omitempty"` // oldest first
	ElapsedMS  int64                        `json:"elapsed_ms"`         // of all attempts together, from start to end
	WorkedMS   int64                        `json:"worked_ms"`          // sum of its turns, with the one at work
	Usage      boulder.Usage                `json:"usage"`
	Summary    string                       `json:"summary,omitempty"`
	OutputData string                       `json:"output_data,omitempty"`

	doing
	Now     string           `json:"-"` // what it waits for, or does
	name    string           // of the work, for progress
	attempt *boulder.Attempt // the attempt that has not ended, or nil
	live    bool             // an agent or the judge works on it, or did until it was stopped
	place   int              // among the waiting rows, the soonest first
	replan  bool             // it waits for the new plan that replaces it
}

// rows returns the sub-tasks in plan order. others share the limits; running says whether a process runs the boulder.
func (p *Progress) rows(limits orchestrator.Limits, others []boulder.Snapshot, now time.Time, running bool) []row {
	b := &p.State.Boulder
	attempts := map[string][]*boulder.Attempt{}
	for _, a := range p.State.Attempts {
		attempts[a.SubTaskID] = append(attempts[a.SubTaskID], a)
	}
	done := map[string]bool{}
	for _, t := range p.State.SubTasks {
		done[t.ID] = t.Status == boulder.SubTaskCompleted || t.Status == boulder.SubTaskSkipped
	}
	var waits []orchestrator.WaitingAttempt
	if !p.broken && b.Status == boulder.Running {
		waits = orchestrator.Waiting(p.State, limits, now, heldBy(others))
	}
	place := map[string]int{}
	for i, w := range waits {
		place[w.SubTaskID] = i
	}
	all := []row{}
	for _, t := range p.State.SubTasks {
		r := row{
			ID: t.ID, Position: t.Position, Subject: t.Subject, Status: t.Status, Reason: t.Reason, Priority: t.Priority,
			DependsOn: append([]string{}, t.DependsOn...), Model: t.Model, Effort: t.Effort, Agent: t.Agent, Attempt: t.Attempts,
			Checkpoint: t.Checkpoint, Usage: t.Usage, Summary: t.Summary, OutputData: t.Output, Blockers: t.Blockers,
			WorkedMS: t.Worked.Milliseconds(), doing: p.doing[t.ID], name: cmp.Or(text.OneLine(t.ActiveForm), text.OneLine(t.Subject)), place: len(waits) + 1,
			replan: b.Replan != nil && (b.Replan.SubTaskID == t.ID || slices.Contains(b.Replan.Replaces, t.ID)),
		}
		for _, a := range attempts[t.ID] {
			if r.Effort = t.Effort; a.NoEffort && a.Model == t.Model {
				r.Effort = ""
			}
			r.AttemptStatus, r.Turn, r.SessionID, r.Usage = a.Status, a.Turns, a.SessionID, r.Usage.Add(a.Running())
			end := a.EndedAt
			if !a.Status.Terminal() {
				r.attempt, r.place, r.live, r.Stopped = a, len(waits), a.Status.Live(), stopped(b.Status == boulder.Paused, a)
				if end = now; r.Stopped || !running {
					end = a.UpdatedAt // the clock stopped then
				}
			}
			if !a.StartedAt.IsZero() {
				r.ElapsedMS += end.Sub(a.StartedAt).Milliseconds()
			}
			r.WorkedMS += (a.WorkedBy(end) - a.Worked).Milliseconds()
		}
		if !r.Stopped {
			r.Activity = r.activity
		}
		if at, ok := place[t.ID]; ok {
			r.Waiting, r.place = &waits[at], at
		}
		if r.live && running {
			r.Now = r.activeText(b, onTip(p.State, t.ID), now)
		} else {
			awaited := slices.DeleteFunc(slices.Clone(t.DependsOn), func(id string) bool { return done[id] })
			r.Now = cmp.Or(r.waitText(b.Cooldowns, now), text.Prefixed("after ", strings.Join(awaited, ", ")))
		}
		all = append(all, r)
	}
	return all
}

// stopped reports whether a live attempt of a paused boulder was stopped by the pause, or by a fault before it. An
// attempt that was just resumed after a fault, and whose session is still being looked up, cannot be told apart.
func stopped(paused bool, a *boulder.Attempt) bool {
	return paused && a.Status.Live() && a.RunningSince.IsZero() && a.Delayed()
}

// idle reports whether the sub-task waits, for its first attempt or a further one.
func (r *row) idle() bool {
	return r.Status == boulder.SubTaskPending || r.Status == boulder.SubTaskBlocked || r.attempt != nil && !r.live
}

// unused reports whether the sub-task was dropped before any work.
func (r *row) unused() bool {
	dropped := []boulder.SubTaskStatus{boulder.SubTaskSuperseded, boulder.SubTaskSkipped, boulder.SubTaskCancelled}
	return slices.Contains(dropped, r.Status) && r.ElapsedMS == 0 && r.Usage == boulder.Usage{}
}

// waitText says what the sub-task waits for besides its dependencies, or where its last run left it.
func (r *row) waitText(cooldowns map[string]boulder.Cooldown, now time.Time) string {
	switch w := r.Waiting; {
	case r.Status == boulder.SubTaskBlocked:
		return r.Reason
	case r.replan:
		return "waits for a new plan"
	case r.live && r.Turn == 0:
		return fmt.Sprintf("left before the first turn of attempt %d", r.Attempt)
	case r.live && r.AttemptStatus == boulder.AttemptMonitoring:
		return fmt.Sprintf("left after turn %d of attempt %d", r.Turn, r.Attempt)
	case r.live:
		return fmt.Sprintf("left in turn %d of attempt %d", r.Turn, r.Attempt)
	case w != nil && !w.Until.IsZero(): // the time comes first, since the rest may be cut
		return limitedText(w.Until, cmp.Or(cooldowns[w.Model].Reason, w.Reason), now)
	case w != nil:
		return fmt.Sprintf("#%d in line: %s", w.Position, w.Reason)
	case r.attempt != nil:
		return "is next"
	}
	return ""
}

// limitedText says until when a sub-task waits for its model.
func limitedText(until time.Time, reason string, now time.Time) string {
	if (boulder.Cooldown{Until: until}).Endless() {
		return "its model cannot be used: " + reason
	}
	return fmt.Sprintf("limited until %s: %s", text.Until(until, now), reason)
}

// runs names the model of the sub-task, with its effort.
func (r *row) runs() string { return boulder.WithEffort(r.Model, r.Effort) }

// onTip says where a complete result of an isolated sub-task is on its way to the others; empty if there is none.
func onTip(s *boulder.State, id string) string {
	o := s.Open(id)
	switch {
	case !s.Boulder.Isolated() || o == nil || o.Turn == nil || o.Turn.Verdict == nil || !o.Turn.Verdict.Completed || o.Turn.Conflict != nil:
		return ""
	case slices.Contains(s.Batch(), o):
		return "its result is tested with those of the others"
	}
	return "its result waits to be tested with those of the others"
}

// activeText says what a live sub-task does while a process runs it.
func (r *row) activeText(b *boulder.Boulder, onTip string, now time.Time) string {
	a, what, paused := r.attempt, "waiting for the model", b.Status == boulder.Paused
	model := a.Model
	if a.Status == boulder.AttemptMonitoring {
		model = b.Ledger()
	}
	limited := !b.Cooldowns[model].Until.Before(a.NotBefore)
	switch {
	case limited && a.NotBefore.After(now):
		what = limitedText(a.NotBefore, text.OneLine(a.Reason), now)
	case a.NotBefore.After(now): // the time comes first, since the rest may be cut
		what = fmt.Sprintf("until %s: %s", text.Until(a.NotBefore, now), text.OneLine(a.Reason))
	case r.Stopped:
		what = "stopped, to be taken up again"
	case r.replan:
		what = "a new plan is being made"
	case onTip != "":
		what = onTip
	case a.Status == boulder.AttemptMonitoring && paused:
		what = "its result is to be judged"
	case a.Status == boulder.AttemptMonitoring:
		what = "judging the result"
	case r.activity != "":
		what = text.OneLine(r.activity)
	case a.Status == boulder.AttemptStarting:
		what = "starting a session"
	}
	return text.JoinedBy(" · ", text.If(a.Attempt > 1, fmt.Sprintf("attempt %d", a.Attempt)),
		text.If(a.Turns > 1, fmt.Sprintf("turn %d", a.Turns)),
		text.If(r.todosTotal > 0, fmt.Sprintf("%d of %d todos", r.todosDone, r.todosTotal)), what)
}

// heldBy returns the slots that boulders hold, by their id and by model. A turn that continues although its boulder is paused holds one as well.
func heldBy(others []boulder.Snapshot) map[string]map[string]int {
	all := map[string]map[string]int{}
	for _, d := range others {
		paused, held := d.Boulder.Status == boulder.Paused, map[string]int{}
		for _, a := range d.Attempts {
			if a.Status.Live() && !stopped(paused, a) && (!paused || a.Status != boulder.AttemptMonitoring) {
				held[a.Model]++
			}
		}
		if len(held) > 0 {
			all[d.Boulder.ID] = held
		}
	}
	return all
}
