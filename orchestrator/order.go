package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
)

// order is the user's order on its way to the loop goroutine.
type order struct {
	boulder.Order
	reply Inbox
}

// RunsElsewhere is an error for a boulder that another engine runs: here is a copy of its log alone.
func RunsElsewhere(b *boulder.Boulder) error {
	if b.Engine == "" || b.Status.Terminal() {
		return nil
	}
	return fmt.Errorf("%w: boulder %s runs on %s, and this is a copy of its log: start `manager-%[3]s gateway`, which reaches it", boulder.ErrRefused, b.ID, b.Engine)
}

// Order carries out what the user says: in the loop of the boulder, if this Orchestrator runs it, else as [Obey] does.
// It returns when that is on disk, and with the errors of Obey; a resume is for a boulder that is being run only. If ctx
// ends before, the order may still be carried out.
func (o *Orchestrator) Order(ctx context.Context, boulderID string, what boulder.Order) error {
	for {
		r, err := o.runningOrObey(ctx, boulderID, what)
		if r == nil {
			return err
		}
		reply := o.cfg.Coroutines.NewInbox()
		if !r.inbox.Put(order{what, reply}) {
			continue
		}
		answer, ok := reply.Take(ctx, Forever)
		if !ok {
			return context.Cause(ctx)
		}
		if answer != errNotTaken { //nolint:errorlint // that very one
			err, _ := answer.(error)
			return err
		}
	}
}

// runningOrObey carries an order out at once if nothing runs the boulder. Nothing begins to run it meanwhile.
func (o *Orchestrator) runningOrObey(ctx context.Context, boulderID string, what boulder.Order) (*run, error) {
	o.runs.mu.Lock()
	defer o.runs.mu.Unlock()
	if r := o.runs.byID[boulderID]; r != nil {
		return r, nil
	}
	return nil, Obey(ctx, o.cfg.Store, boulderID, what, o.cfg.Now())
}

// Obey carries an order out on a boulder that nothing runs, and returns when that is on disk. Errors wrap
// [boulder.ErrRefused] for what cannot be done as things are, [boulder.ErrNotFound], [boulder.ErrFinished] for a
// boulder that is over, or say what the store failed with. Nothing may run the boulder meanwhile.
func Obey(ctx context.Context, store Store, boulderID string, what boulder.Order, now time.Time) error {
	s, err := store.Load(ctx, boulderID)
	if err != nil {
		return err
	}
	if what.Do == boulder.OrderResume && !s.Boulder.Status.Terminal() {
		return refusal("nothing runs boulder %s, so there is no pause to take back", boulderID)
	}
	if err := carryOut(s, what, now.UTC(), nil); err != nil {
		return err
	}
	return commitEvents(ctx, store, s)
}

func commitEvents(ctx context.Context, store Store, s *boulder.State) error {
	if events := s.TakeEvents(); len(events) > 0 {
		return store.Commit(ctx, s, events)
	}
	return nil
}

// StopLeft stops the sessions that orders left behind while nothing ran the boulder, see [boulder.SessionLeft], and returns
// when that is on disk. A resume does it by itself; call it for boulders that are over before anything is run
// in the same project.
func (o *Orchestrator) StopLeft(ctx context.Context, boulderID string) error {
	s, err := o.cfg.Store.Load(ctx, boulderID)
	if err != nil {
		return err
	}
	return o.stopLeft(ctx, s)
}

func (o *Orchestrator) stopLeft(ctx context.Context, s *boulder.State) error {
	stopper, can := o.cfg.Runner.(SessionStopper)
	if !can {
		return nil
	}
	for _, left := range s.Boulder.Left {
		if err := stopper.StopSession(ctx, left); err != nil {
			return fmt.Errorf("stop session %s of attempt %d of %q, which may be at work: %w",
				left.SessionID, left.Attempt, left.SubTaskID, err)
		}
		if err := applyTo(s, o.cfg.Now().UTC(), boulder.SessionLeft{LeftSession: left, Stopped: true}); err != nil {
			return err
		}
	}
	return commitEvents(ctx, o.cfg.Store, s)
}

func refusal(format string, args ...any) error {
	return fmt.Errorf("%w: %w", boulder.ErrRefused, fmt.Errorf(format, args...))
}

// carryOut applies the events that an order comes to. An order that cannot be carried out changes nothing, and its
// error wraps [boulder.ErrRefused] or [boulder.ErrFinished]; any other error is a fault of ours. The sessions of
// attempts that it ends are noted if they may be at work, until they are stopped; busy says of which attempts that is
// known, nil: of all.
func carryOut(s *boulder.State, what boulder.Order, now time.Time, busy func(boulder.AttemptRef) bool) error {
	bodies, err := ordered(s, what, now)
	if err != nil {
		return err
	}
	atWork := slices.DeleteFunc(s.Live(), func(o *boulder.Open) bool {
		return o.Attempt.Status != boulder.AttemptExecuting || o.Turn.MessageID == "" || busy != nil && !busy(o.Attempt.AttemptRef)
	})
	if err := applyTo(s, now, bodies...); err != nil {
		return err
	}
	if what.Do == boulder.OrderCancel && s.Boulder.Status == boulder.Synthesizing { // it was the whole boulder
		if err := applyTo(s, now, synthesize(s, boulder.Cancelled)); err != nil {
			return err
		}
	}
	for _, o := range atWork {
		if s.Open(o.SubTask.ID) == o {
			continue
		}
		left := boulder.LeftSession{AttemptRef: o.Attempt.AttemptRef, SessionID: o.Attempt.SessionID, Server: o.Attempt.Server}
		if err := applyTo(s, now, boulder.SessionLeft{LeftSession: left}); err != nil {
			return err
		}
	}
	return nil
}

const (
	pausedByUser    = "paused by the user"
	cancelledByUser = "cancelled by the user"
	triedAgain      = "retried by the user"
)

// ordered are the events that an order comes to. What [boulder.State.Apply] refuses with the first of them is not looked at
// here.
func ordered(s *boulder.State, o boulder.Order, now time.Time) ([]boulder.Body, error) {
	if err := o.Validate(); err != nil {
		return nil, refusal("%w", err)
	}
	b := &s.Boulder
	switch {
	case o.Do == boulder.OrderArchive, o.Do == boulder.OrderUnarchive:
		return []boulder.Body{boulder.Archived{Archived: o.Do == boulder.OrderArchive}}, nil
	case o.Do == boulder.OrderLanded:
		return []boulder.Body{*o.Landed}, nil
	case o.Do == boulder.OrderKeep:
		return []boulder.Body{*o.Kept}, nil
	case o.Do == boulder.OrderRedo:
		bodies := []boulder.Body{*o.Redone}
		for _, id := range o.Redone.SubTasks {
			if o.Text != "" {
				bodies = append(bodies, boulder.Noted{SubTaskID: id, Text: o.Text})
			}
		}
		return bodies, nil
	case b.Status.Terminal():
		return nil, fmt.Errorf("boulder %s is %s: %w", b.ID, b.Status, boulder.ErrFinished)
	case o.Do == boulder.OrderApprove, o.Do == boulder.OrderDecline:
		return answered(s, o, now)
	case o.Do == boulder.OrderPause && b.Status == boulder.Paused:
		return nil, refusal("boulder %s is paused already", b.ID)
	case o.Do == boulder.OrderPause:
		return []boulder.Body{boulder.StatusChanged{Status: boulder.Paused, Reason: pausedByUser}}, nil
	case o.Do == boulder.OrderResume && b.Status != boulder.Paused:
		return nil, refusal("boulder %s is not paused: it is %s", b.ID, b.Status)
	case o.Do == boulder.OrderResume:
		return []boulder.Body{resumed(s)}, nil
	case o.Do == boulder.OrderCancel && o.SubTaskID == "":
		return cancelAll(s), nil
	}
	t := s.SubTask(o.SubTaskID)
	switch {
	case o.SubTaskID != "" && t == nil:
		return nil, refusal("boulder %s has no sub-task %q", b.ID, o.SubTaskID)
	case o.Do == boulder.OrderNote:
		return []boulder.Body{boulder.Noted{SubTaskID: o.SubTaskID, Text: o.Text}}, nil
	case o.Do == boulder.OrderSettle:
		status := boulder.BlockerAnswered
		if o.Text == "" && !o.Allowed {
			status = boulder.BlockerSkipped
		}
		return []boulder.Body{boulder.BlockerSettled{
			SubTaskID: t.ID, BlockerID: o.BlockerID, Status: status, Answer: o.Text, Allowed: o.Allowed,
		}}, nil
	}
	if r := b.Replan; r != nil &&
		(slices.Contains(r.Replaces, t.ID) || t.Status.Terminal() || t.Status == boulder.SubTaskBlocked) {
		return nil, refusal("a new plan is being made, and %q may be part of what it replaces: try again when it is there", t.ID)
	}
	switch o.Do {
	case boulder.OrderCancel:
		return []boulder.Body{drop(s, t, boulder.SubTaskCancelled, cancelledByUser)}, nil
	case boulder.OrderSkip:
		return []boulder.Body{drop(s, t, boulder.SubTaskSkipped, "skipped by the user")}, nil
	}
	return retry(s, t, now)
}

// answered is what the user says to the plan or the replan that waits. Who agrees agrees to its gates.
func answered(s *boulder.State, o boulder.Order, now time.Time) ([]boulder.Body, error) {
	b, snapshot := &s.Boulder, s.Snapshot()
	switch asked := snapshot.Asked(); {
	case asked == "":
		return nil, refusal("nothing of boulder %s waits for your approval", b.ID)
	case asked != o.Hash:
		return nil, refusal("what waits for your approval is not what you were shown: look again")
	case b.Replan == nil && o.Do == boulder.OrderDecline:
		return nil, refusal("a plan is declined by cancelling its boulder: `manager cancel -b %s`", b.ID)
	case b.Replan == nil:
		plan := cmp.Or(o.Plan, &s.Revision.Plan)
		return []boulder.Body{decomposed(s, Approval{Plan: plan, Gates: true}, nil, now)}, nil
	case o.Do == boulder.OrderDecline:
		return schedule.RefuseReplan(s, declined), nil
	case o.Plan != nil:
		return nil, refusal("a replan cannot be edited: decline it, and tell the agents why with a note")
	}
	return []boulder.Body{replanned(s, *b.Replan.Proposed, true, now)}, nil
}

const declined = "the new plan was declined"

// resumed brings a boulder back to where it was when it was paused.
func resumed(s *boulder.State) boulder.Body {
	to := boulder.Running
	switch {
	case len(s.SubTasks) > 0:
	case s.Revision != nil:
		to = boulder.AwaitingApproval
	default:
		to = boulder.Planning
	}
	return boulder.StatusChanged{Status: to, Reason: "resumed"}
}

func drop(s *boulder.State, t *boulder.SubTask, status boulder.SubTaskStatus, why string) boulder.Body {
	done := boulder.SubTaskDone{
		AttemptRef: boulder.AttemptRef{SubTaskID: t.ID}, Summary: why, Status: status,
		AttemptStatus: boulder.AttemptCancelled, ByPerson: true,
	}
	if open := s.Open(t.ID); open != nil {
		done.AttemptRef = open.Attempt.AttemptRef
	}
	return done
}

// cancelAll ends everything that is not over, what depends on something before that, and the boulder.
func cancelAll(s *boulder.State) (bodies []boulder.Body) {
	if len(s.SubTasks) == 0 {
		return []boulder.Body{boulder.StatusChanged{Status: boulder.Cancelled, Reason: cancelledByUser}}
	}
	if r := s.Boulder.Replan; r != nil {
		bodies = append(bodies, boulder.ReplanRefused{AttemptRef: r.AttemptRef, Reason: cancelledByUser})
	}
	for _, t := range slices.Backward(s.SubTasks) {
		if !t.Status.Terminal() {
			bodies = append(bodies, drop(s, t, boulder.SubTaskCancelled, cancelledByUser))
		}
	}
	return append(bodies, boulder.StatusChanged{Status: boulder.Synthesizing})
}

func retry(s *boulder.State, t *boulder.SubTask, now time.Time) ([]boulder.Body, error) {
	open := s.Open(t.ID)
	if open != nil {
		if lifted := schedule.LiftLimit(s, open, now); len(lifted) > 0 {
			return lifted, nil
		}
	}
	switch {
	case t.Parked, t.Status == boulder.SubTaskFailed, t.Status == boulder.SubTaskCancelled:
		return []boulder.Body{boulder.Reopened{SubTaskID: t.ID, Reason: triedAgain}}, nil
	case open != nil && open.Attempt.Status.Live():
		return []boulder.Body{boulder.Retry{
			AttemptRef: open.Attempt.AttemptRef, Reason: triedAgain, Status: boulder.AttemptCancelled, Uncounted: true,
			Next: open.Attempt.Attempt + 1, ByPerson: true,
		}}, nil
	case open != nil:
		return nil, refusal("sub-task %q waits for a free slot: it begins by itself", t.ID)
	case t.Status == boulder.SubTaskPending:
		return nil, refusal("sub-task %q has not begun: it waits for what it depends on", t.ID)
	case t.Status == boulder.SubTaskBlocked:
		return nil, refusal("sub-task %q is blocked: it %s; retry or skip that", t.ID, t.Reason)
	}
	return nil, refusal("sub-task %q is %s, and others may have built on that: `manager redo %[1]s` does it again, and what "+
		"follows from it where it has to", t.ID, t.Status)
}

// obey carries an order out on the loop goroutine. It is answered when it is on disk.
func (r *run) obey(o order) error {
	if o.Do == boulder.OrderPause && o.Now && r.state.Boulder.Status == boulder.Paused && len(r.work) > 0 {
		r.suspend() // it was paused, and what is at work shall stop all the same
		o.reply.Put(nil)
		return nil
	}
	if o.Do == boulder.OrderRedo && r.busy(integrateRef) { // the ref of the tip may be moving
		o.reply.Put(refusal("a result is being integrated: try again in a moment"))
		return nil
	}
	before, planned := r.state.Boulder.Seq, len(r.state.SubTasks) == 0
	err := carryOut(r.state, o.Order, r.now, r.busy)
	if err != nil {
		o.reply.Put(err)
		if r.state.Boulder.Seq != before {
			return fmt.Errorf("an order was carried out by half: %w", err) // the disk has nothing of it
		}
		return nil // nothing changed: that is for whoever gave the order
	}
	r.acks = append(r.acks, o.reply)
	for _, ref := range r.underWay() {
		if r.over(ref) { // what its worker still hands in is not taken
			r.work[ref](errors.New("the user ended it"))
		}
	}
	if o.Do == boulder.OrderApprove || o.Do == boulder.OrderDecline {
		for _, ref := range []boulder.AttemptRef{planRef, replanRef} { // who is asked at a terminal need not answer any more
			if stop := r.work[ref]; stop != nil {
				stop(errSuspended)
			}
		}
		err := startable(r.state, r.o.limits)
		if err == nil && planned {
			err = r.setBudgets()
		}
		if err != nil {
			r.end(err)
		}
	}
	if o.Do == boulder.OrderPause && (o.Now || r.busy(planRef)) { // no turn is at work while there is no plan
		r.suspend()
	}
	if o.Do == boulder.OrderResume {
		return r.unparkAffordable()
	}
	return nil
}

// over reports whether work is of an attempt that has ended, which an order alone does to one with work under way.
func (r *run) over(ref boulder.AttemptRef) bool {
	open := r.state.Open(ref.SubTaskID)
	return ref.Attempt > 0 && (open == nil || open.Attempt.AttemptRef != ref)
}

// suspend stops the turns that are at work. They are taken up again when the pause is over.
func (r *run) suspend() {
	for _, ref := range r.underWay() {
		r.work[ref](errSuspended)
	}
}

var errSuspended = errors.New(pausedByUser)
