package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/store"
)

// Progress follows a boulder by its events. It has the same state as the run, because it applies the same events, and
// beside it what the agents are doing right now, which is no part of the state. It belongs to one goroutine at a time.
type Progress struct {
	State *boulder.State // nil before the first event

	load   loader
	broken bool                       // the stored records contradict each other: there are no indexes over them
	began  time.Time                  // time of the first event seen
	doing  map[string]doing           // by sub-task
	raised map[string]boulder.Blocker // as they were when they were raised; settled ones are not in it
	news   bool                       // the newest event is a notice that its turn has not given before
}

// doing is what is known of a sub-task that the state does not keep.
type doing struct {
	activity              string // newest sign of life of the running turn; as the next three
	todosDone, todosTotal int
	usage                 boulder.Usage
	notice                string // the newest one: a wait may be reported more than once
	why                   string // the reason for this turn, or attempt, which is not the first
	gate                  string // the gate that was red last, and its last line
	alone                 bool   // the last verdict came from the gates alone, without a judge
}

// loader reads a boulder that was begun by an earlier process; a *store.DB is one.
type loader interface {
	Load(ctx context.Context, boulderID string) (*boulder.State, error)
}

// NewProgress follows a run; db has what its events do not carry.
func NewProgress(db loader) *Progress {
	return &Progress{load: db, doing: map[string]doing{}, raised: map[string]boulder.Blocker{}}
}

// ProgressOf is the progress of a boulder as it is stored. With an error, which says that its records contradict each
// other, it can be shown as well.
func ProgressOf(db loader, d store.Detail, recent []boulder.Event, raised []boulder.Blocker) (*Progress, error) {
	p := NewProgress(db)
	p.began = d.Boulder.CreatedAt
	for _, e := range recent {
		if e.Seq <= d.Boulder.Seq {
			p.watch(e)
		}
	}
	for _, k := range raised {
		if !k.Status.Settled() {
			p.raised[k.ID] = k
		}
	}
	var err error
	if p.State, err = Restore(d); err != nil {
		p.State, p.broken = &boulder.State{Boulder: d.Boulder}, true
		for i := range d.SubTasks {
			p.State.SubTasks = append(p.State.SubTasks, &d.SubTasks[i])
		}
		for i := range d.Attempts {
			p.State.Attempts = append(p.State.Attempts, &d.Attempts[i])
		}
	}
	return p, err
}

// Restore makes the state of a boulder for looking at it. The turns are not read: they hold whole transcripts of
// evidence, so the state has stand-ins that say no more than that there is one.
func Restore(d store.Detail) (*boulder.State, error) {
	snap := boulder.Snapshot{Boulder: d.Boulder, Revision: d.Revision}
	for i := range d.SubTasks {
		snap.SubTasks = append(snap.SubTasks, &d.SubTasks[i])
	}
	for i := range d.Attempts {
		a := &d.Attempts[i]
		snap.Attempts = append(snap.Attempts, a)
		if a.Turns > 0 && !a.Status.Terminal() {
			turn := &boulder.Turn{AttemptRef: a.AttemptRef, Number: a.Turns}
			if a.Status == boulder.AttemptMonitoring {
				turn.Evidence = &boulder.Evidence{}
			}
			snap.Turns = append(snap.Turns, turn)
		}
	}
	return boulder.Restore(snap)
}

// Take follows one event. An error means that the state could not be read; what is shown is then out of date.
func (p *Progress) Take(e boulder.Event) error {
	if p.began.IsZero() {
		p.began = e.Time
	}
	p.watch(e)
	if _, first := e.Body.(boulder.Created); first {
		p.State = boulder.NewState()
	}
	if p.State != nil && (e.Seq <= p.State.Boulder.Seq || p.State.Replay(e) == nil) {
		return nil
	}
	// The beginning was not seen. Events are stored before they are shown, so what is stored holds the one at hand.
	state, err := p.load.Load(context.Background(), e.BoulderID)
	if err == nil {
		p.State = state
	}
	return err
}

// watch takes in what the state does not keep.
func (p *Progress) watch(e boulder.Event) {
	p.news = false
	id, _ := Describe(e.Body)
	d := p.doing[id]
	switch b := e.Body.(type) {
	case boulder.SubTaskProgress:
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
	case boulder.TurnEnded, boulder.SubTaskDone:
		d = doing{alone: d.alone}
	case boulder.GateRun:
		if !b.Passed && b.NoWorse == "" {
			out := strings.TrimSpace(text.Safe(b.Output))
			d.gate = JoinedBy(": ", "✗ "+b.Command, out[strings.LastIndex(out, "\n")+1:])
		}
	case boulder.Judged:
		d.alone = b.Verdict.JudgeUnavailable
	case boulder.Continuation:
		d.why = report.Prefixed("because: ", joined(b.Reason, strings.Join(b.Remaining, "; ")))
	case boulder.Retry:
		d = doing{why: report.Prefixed("because: ", b.Reason), gate: d.gate}
	case boulder.BlockerRaised:
		p.raised[b.Blocker.ID] = b.Blocker
	case boulder.BlockerSettled:
		delete(p.raised, b.BlockerID)
	}
	p.doing[id] = d
}

// Ended reports whether the boulder is over.
func (p *Progress) Ended() bool { return p.State != nil && p.State.Boulder.Status.Terminal() }

// row is a sub-task as tables show it.
type row struct {
	doing
	task    *boulder.SubTask
	now     time.Time        // up to which it is at work
	attempt *boulder.Attempt // the one that is not over, or nil
	newest  *boulder.Attempt // whether it is over or not
	spent   time.Duration    // on attempts that are over
	wait    *schedule.Wait   // why it does not start, or nil
	place   int              // among those that wait: the soonest first
	after   string           // what it waits for, if it has not begun
	cooling string           // why the model that it waits for cools down
	paused  bool             // the boulder is
	replan  bool             // it waits for a new plan, which stands in its place
}

// rows are the sub-tasks in plan order, beside the boulders that share their limits.
func (p *Progress) rows(limits schedule.Limits, beside []Neighbour, now time.Time) []row {
	b := &p.State.Boulder
	attempts := map[string][]*boulder.Attempt{}
	for _, a := range p.State.Attempts {
		attempts[a.SubTaskID] = append(attempts[a.SubTaskID], a)
	}
	undone := map[string]bool{}
	for _, t := range p.State.SubTasks {
		undone[t.ID] = t.Status != boulder.SubTaskCompleted && t.Status != boulder.SubTaskSkipped
	}
	var waits []schedule.Wait
	if !p.broken && b.Status == boulder.Running {
		waits = waitsBeside(schedule.Waiting(p.State, limits, now), p.State, limits, beside)
	}
	place := map[string]int{}
	for i, w := range waits {
		place[w.SubTaskID] = i
	}
	all := make([]row, len(p.State.SubTasks))
	for i, t := range p.State.SubTasks {
		r := row{doing: p.doing[t.ID], task: t, now: now, paused: b.Status == boulder.Paused, place: len(waits) + 1}
		r.replan = b.Replan != nil && (b.Replan.SubTaskID == t.ID || slices.Contains(b.Replan.Replaces, t.ID))
		for _, a := range attempts[t.ID] {
			r.newest = a
			if !a.Status.Terminal() {
				r.attempt, r.place = a, len(waits)
			} else if !a.StartedAt.IsZero() {
				r.spent += a.EndedAt.Sub(a.StartedAt)
			}
		}
		if at, ok := place[t.ID]; ok {
			r.wait, r.place = &waits[at], at
			if !r.wait.Until.IsZero() {
				r.cooling = b.Cooldowns[r.wait.Model].Reason
			}
		}
		awaited := slices.DeleteFunc(slices.Clone(t.DependsOn), func(id string) bool { return !undone[id] })
		r.after = report.Prefixed("after ", strings.Join(awaited, ", "))
		all[i] = r
	}
	return all
}

// live reports whether an agent or the judge is at work on it.
func (r row) live() bool { return r.attempt != nil && r.attempt.Status.Live() }

// working reports whether one is in fact: its turn was not broken off by a pause.
func (r row) working() bool { return r.live() && !stopped(r.paused, r.attempt) }

// stopped reports whether a live attempt of a paused boulder rests: it was stopped with the pause, or by a fault before,
// and nothing takes it up meanwhile. Only of an attempt that was taken up after a fault, and whose session is just being
// looked for, the record does not tell.
func stopped(paused bool, a *boulder.Attempt) bool {
	return paused && a.Status.Live() && a.TakenAt.IsZero() && a.TurnedAway()
}

// idle reports whether it waits, be it for its first attempt or for a further one.
func (r row) idle() bool {
	return r.task.Status == boulder.SubTaskPending || r.task.Status == boulder.SubTaskBlocked || r.attempt != nil && !r.live()
}

// unused reports whether it is over without anything having been done for it.
func (r row) unused() bool {
	switch r.task.Status {
	case boulder.SubTaskSuperseded, boulder.SubTaskSkipped, boulder.SubTaskCancelled:
		return r.spent == 0 && r.used() == boulder.Usage{}
	}
	return false
}

// took is how long its attempts ran.
func (r row) took() time.Duration {
	switch {
	case !r.live() || r.attempt.StartedAt.IsZero():
		return r.spent
	case !r.working():
		r.now = r.attempt.UpdatedAt // since then the clock stands still
	}
	return r.spent + r.now.Sub(r.attempt.StartedAt)
}

func (r row) used() boulder.Usage { return r.task.Usage.Add(r.usage) }

// waitsFor says what an idle one waits for.
func (r row) waitsFor() string {
	switch {
	case r.task.Status == boulder.SubTaskBlocked:
		return r.task.Reason
	case r.replan:
		return "waits for a new plan"
	case r.wait != nil && !r.wait.Until.IsZero(): // the end first: the rest may be cut
		return fmt.Sprintf("until %s: %s", Clock(r.wait.Until), cmp.Or(r.cooling, r.wait.Reason))
	case r.wait != nil:
		return fmt.Sprintf("#%d in line: %s", r.wait.Position, r.wait.Reason)
	case r.attempt != nil:
		return "is next"
	}
	return r.after
}

// does says what goes on in one that is live.
func (r row) does() string {
	a := r.attempt
	var parts []string
	if a.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", a.Attempt))
	}
	if a.Turns > 1 {
		parts = append(parts, fmt.Sprintf("turn %d", a.Turns))
	}
	if r.todosTotal > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d todos", r.todosDone, r.todosTotal))
	}
	what := "waiting for the model"
	switch {
	case a.NotBefore.After(r.now):
		what = fmt.Sprintf("until %s: %s", Clock(a.NotBefore), text.OneLine(a.Reason)) // the end first: the rest may be cut
	case !r.working():
		what = "stopped, to be taken up again"
	case r.replan:
		what = "a new plan is being made"
	case a.Status == boulder.AttemptMonitoring && r.paused:
		what = "its result is to be judged"
	case a.Status == boulder.AttemptMonitoring:
		what = "judging the result"
	case r.activity != "":
		what = text.OneLine(r.activity)
	case a.Status == boulder.AttemptStarting:
		what = "starting a session"
	}
	return strings.Join(append(parts, what), " · ")
}

// Neighbour is a boulder that the same process runs, under the same limits.
type Neighbour struct {
	BoulderID string
	Held      map[string]int // slots, by model
}

// HeldBy counts the slots of a boulder by model. A turn that goes on although its boulder is paused has one as well.
func HeldBy(d store.Detail) map[string]int {
	held, paused := map[string]int{}, d.Boulder.Status == boulder.Paused
	for _, a := range d.Attempts {
		ended := paused && a.Status == boulder.AttemptMonitoring
		if a.Status.Live() && !ended && !stopped(paused, &a) {
			held[a.Model]++
		}
	}
	return held
}

// waitsBeside adds to waits what waits only because of other boulders: alone, it could start.
func waitsBeside(waits []schedule.Wait, s *boulder.State, l schedule.Limits, beside []Neighbour) []schedule.Wait {
	if len(beside) == 0 {
		return waits
	}
	own := schedule.Share{Held: map[string]int{}}
	for _, o := range s.Live() {
		own.Held[o.Attempt.Model]++
	}
	shares, ids := []schedule.Share{own}, []string{}
	for _, n := range beside {
		shares, ids = append(shares, schedule.Share{Held: n.Held}), append(ids, n.BoulderID)
	}
	reason := fmt.Sprintf("boulders %s have the slots", strings.Join(ids, ", "))
	if len(ids) == 1 {
		reason = fmt.Sprintf("boulder %s has the slots", ids[0])
	}
	for model, queue := range s.Queues() {
		if schedule.Room(l, model, shares...) {
			continue
		}
		for i, o := range queue {
			id := o.SubTask.ID
			if !slices.ContainsFunc(waits, func(w schedule.Wait) bool { return w.SubTaskID == id }) {
				waits = append(waits, schedule.Wait{SubTaskID: id, Model: model, Position: i + 1, Reason: reason})
			}
		}
	}
	return waits
}
