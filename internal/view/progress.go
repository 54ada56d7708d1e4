package view

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/text"
)

// progress follows a run by its events. It has the same state as the run, because it applies the same events, and
// beside it what the agents are doing right now, which is no part of the state. An event costs the same in a plan of 5
// as in one of 5,000. It belongs to one goroutine at a time.
type progress struct {
	load  loader
	State *boulder.State // nil before the first event
	began time.Time      // time of the first event seen

	Doing  map[string]doing           // by sub-task: of the turn that runs
	spent  map[string]time.Duration   // by sub-task: on attempts that are over
	alone  map[string]bool            // sub-tasks whose last verdict came from the gates alone, without a judge
	last   map[string]lastTurn        // by sub-task: what its last turn came to, if that was not the end
	raised map[string]boulder.Blocker // as they were when they were raised; settled ones are not in it
	news   bool                       // the newest event is a notice that its turn has not given before
}

// doing is the newest sign of life of a turn.
type doing struct {
	activity              string
	todosDone, todosTotal int
	usage                 boulder.Usage // of the turn so far
	notice                string        // the newest one: a wait may be reported more than once
}

// lastTurn is what a turn came to that was not the last.
type lastTurn struct {
	why  string // the reason for the next turn, or the next attempt
	gate string // the gate that was red last, and its last line
}

// loader reads a boulder that was begun by an earlier process; a *store.DB is one.
type loader interface {
	Load(ctx context.Context, boulderID string) (*boulder.State, error)
}

// NewProgress follows a run; db has what its events do not carry.
func NewProgress(db loader) *progress {
	return &progress{
		load: db, spent: map[string]time.Duration{}, Doing: map[string]doing{}, last: map[string]lastTurn{},
		raised: map[string]boulder.Blocker{},
	}
}

// Take follows one event. An error means that the state could not be read; what is shown is then out of date.
func (p *progress) Take(e boulder.Event) error {
	if p.began.IsZero() {
		p.began = e.Time
	}
	p.watch(e)
	if _, first := e.Body.(boulder.Created); first {
		p.State = boulder.NewState()
	}
	if p.State != nil {
		if e.Seq <= p.State.Boulder.Seq {
			return nil // was in what was loaded
		}
		if p.State.Replay(e) == nil {
			return nil
		}
	}
	return p.reload(e.BoulderID)
}

// reload reads the state of a boulder whose beginning was not seen. Events are stored before they are shown, so it
// holds the one at hand, and perhaps the next ones.
func (p *progress) reload(id string) error {
	state, err := p.load.Load(context.Background(), id)
	if err != nil {
		return err
	}
	p.State = state
	return nil
}

// watch takes in what the state does not keep. It looks at the state before the event.
func (p *progress) watch(e boulder.Event) {
	p.news = false
	switch b := e.Body.(type) {
	case boulder.SubTaskProgress:
		d := p.Doing[b.SubTaskID]
		if b.Notice {
			p.news, d.notice = b.Activity != d.notice, b.Activity
		}
		d.activity = cmp.Or(b.Activity, d.activity)
		if b.TodosTotal > 0 {
			d.todosDone, d.todosTotal = b.TodosDone, b.TodosTotal
		}
		if b.Usage != (boulder.Usage{}) {
			d.usage = b.Usage
		}
		p.Doing[b.SubTaskID] = d
	case boulder.TurnEnded:
		delete(p.Doing, b.SubTaskID)
		delete(p.last, b.SubTaskID)
	case boulder.GateRun:
		if !b.Passed && b.NoWorse == "" {
			last := p.last[b.SubTaskID]
			last.gate = JoinedBy(": ", "✗ "+b.Command, lastLines(strings.TrimSpace(text.Safe(b.Output)), 1))
			p.last[b.SubTaskID] = last
		}
	case boulder.Continuation:
		p.because(b.SubTaskID, joined(b.Reason, strings.Join(b.Remaining, "; ")))
	case boulder.BlockerRaised:
		p.raised[b.Blocker.ID] = b.Blocker
	case boulder.BlockerSettled:
		delete(p.raised, b.BlockerID)
	case boulder.Judged:
		if p.alone == nil {
			p.alone = map[string]bool{}
		}
		p.alone[b.SubTaskID] = b.Verdict.JudgeUnavailable
	case boulder.Retry:
		p.over(b.AttemptRef, e.Time)
		p.because(b.SubTaskID, b.Reason)
	case boulder.SubTaskDone:
		p.over(b.AttemptRef, e.Time)
		delete(p.last, b.SubTaskID)
	}
}

// because keeps the reason why a sub-task is not over.
func (p *progress) because(subTask, why string) {
	last := p.last[subTask]
	last.why = Prefixed("because: ", why)
	p.last[subTask] = last
}

// Ended reports whether the boulder is over.
func (p *progress) Ended() bool { return p.State != nil && p.State.Boulder.Status.Terminal() }

// over adds up the time of an attempt that ends.
func (p *progress) over(ref boulder.AttemptRef, at time.Time) {
	delete(p.Doing, ref.SubTaskID)
	if p.State == nil {
		return
	}
	if o := p.State.Open(ref.SubTaskID); o != nil && !o.Attempt.StartedAt.IsZero() {
		p.spent[ref.SubTaskID] += at.Sub(o.Attempt.StartedAt)
	}
}

// total is how many sub-tasks there are.
func (p *progress) total() int {
	if p.State == nil {
		return 0
	}
	return len(p.State.SubTasks)
}

// usage is that of the whole boulder, running turns included.
func (p *progress) usage() boulder.Usage {
	u := p.State.Boulder.Usage
	for _, d := range p.Doing {
		u = u.Add(d.usage)
	}
	return u
}

// row is what there is to show of a sub-task.
func (p *progress) row(t *boulder.SubTask) row {
	r := row{task: t, doing: p.Doing[t.ID], spent: p.spent[t.ID], replan: inReplan(&p.State.Boulder, t.ID)}
	r.paused = p.State.Boulder.Status == boulder.Paused
	if o := p.State.Open(t.ID); o != nil {
		r.attempt = o.Attempt
	}
	return r
}

// inReplan reports whether a new plan is being made that takes the place of the sub-task.
func inReplan(b *boulder.Boulder, subTask string) bool {
	return b.Replan != nil && (b.Replan.SubTaskID == subTask || slices.Contains(b.Replan.Replaces, subTask))
}

// waiting lists those that wait, the soonest first, but no more than limit: the ones in line for a slot, then the ones
// whose dependencies are not done.
func (p *progress) waiting(limits schedule.Limits, now time.Time, limit int) []row {
	var rows []row
	for _, w := range schedule.Waiting(p.State, limits, now) {
		if len(rows) == limit {
			return rows
		}
		r := p.row(p.State.SubTask(w.SubTaskID))
		r.waits(&p.State.Boulder, w)
		rows = append(rows, r)
	}
	listed := map[string]bool{}
	for _, r := range rows {
		listed[r.task.ID] = true
	}
	for _, queued := range []bool{true, false} {
		for _, t := range p.State.SubTasks {
			if len(rows) == limit {
				return rows
			}
			o := p.State.Open(t.ID)
			if (o != nil) != queued || listed[t.ID] {
				continue
			}
			if t.Status == boulder.SubTaskPending || queued && !o.Attempt.Status.Live() {
				rows = append(rows, p.row(t))
			}
		}
	}
	return rows
}

// row is a sub-task as tables show it.
type row struct {
	task    *boulder.SubTask
	attempt *boulder.Attempt // the one that is not over, or nil
	newest  *boulder.Attempt // whether it is over or not; nil where only live ones are known
	wait    *schedule.Wait   // why it does not start, or nil
	cooling string           // why the model that it waits for cools down
	paused  bool             // the boulder is
	replan  bool             // it waits for a new plan, which stands in its place
	doing   doing
	spent   time.Duration // on attempts that are over
}

// waits notes what it waits for.
func (r *row) waits(b *boulder.Boulder, w schedule.Wait) {
	r.wait = &w
	if !w.Until.IsZero() {
		r.cooling = b.Cooldowns[w.Model].Reason
	}
}

// live reports whether an agent or the judge is at work on it.
func (r row) live() bool { return r.attempt != nil && r.attempt.Status.Live() }

// stopped reports whether its turn was broken off and stays that until the pause is over.
func (r row) stopped() bool { return r.attempt != nil && stopped(r.paused, r.attempt) }

// stopped reports whether nobody is at work on a live attempt of a boulder that is paused: it was stopped with the
// pause, or by a fault before, and nothing takes it up meanwhile. Only of an attempt that was taken up after a fault,
// and whose session is just being looked for, the record does not tell.
func stopped(paused bool, a *boulder.Attempt) bool {
	return paused && a.Status.Live() && a.TakenAt.IsZero() && a.TurnedAway()
}

// idle reports whether it waits, be it for its first attempt or for a further one.
func (r row) idle() bool {
	switch r.task.Status {
	case boulder.SubTaskPending, boulder.SubTaskBlocked:
		return true
	}
	return r.attempt != nil && !r.live()
}

// name is what is done, or is to be done.
func (r row) name() string {
	if r.live() && !r.stopped() {
		return cmp.Or(r.task.ActiveForm, r.task.Subject)
	}
	return r.task.Subject
}

// unused reports whether it is over without anything having been done for it.
func (r row) unused() bool {
	switch r.task.Status {
	case boulder.SubTaskSuperseded, boulder.SubTaskSkipped, boulder.SubTaskCancelled:
		return r.spent == 0 && r.usage() == boulder.Usage{}
	}
	return false
}

// took is how long its attempts ran.
func (r row) took(now time.Time) time.Duration {
	switch {
	case !r.live() || r.attempt.StartedAt.IsZero():
		return r.spent
	case r.stopped():
		now = r.attempt.UpdatedAt // since then the clock stands still
	}
	return r.spent + now.Sub(r.attempt.StartedAt)
}

func (r row) usage() boulder.Usage { return r.task.Usage.Add(r.doing.usage) }
