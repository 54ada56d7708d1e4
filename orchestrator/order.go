package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// order is a person's order on its way to the loop goroutine.
type order struct {
	boulder.Order
	reply chan<- error
}

// Order carries out what a person says: in the loop of the boulder, if this Orchestrator runs it, else as [Obey] does.
// It returns when that is on disk, and with the errors of Obey; a resume is for a boulder that is being run only. If ctx
// ends before, the order may still be carried out.
func (o *Orchestrator) Order(ctx context.Context, boulderID string, what boulder.Order) error {
	for {
		r, err := o.runningOrObey(ctx, boulderID, what)
		if r == nil {
			return err
		}
		reply := make(chan error, 1)
		select {
		case r.orders <- order{what, reply}:
		case <-r.done:
			if err := r.awaitOver(ctx); err != nil {
				return err
			}
			continue
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		select {
		case err := <-reply:
			return err
		case <-r.done:
			select {
			case err := <-reply: // it was the last thing that the run did
				return err
			default: // the loop broke before: no answer comes any more
			}
			if err := r.awaitOver(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// awaitOver returns when all work of a run has ended: turns that are being stopped may take their time.
func (r *run) awaitOver(ctx context.Context) error {
	select {
	case <-r.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// runningOrObey carries an order out at once if nothing runs the boulder. Nothing begins to run it meanwhile, and no two
// orders are carried out so at the same time: the second one has to see what the first did.
func (o *Orchestrator) runningOrObey(ctx context.Context, boulderID string, what boulder.Order) (*run, error) {
	o.runs.idle.Lock()
	defer o.runs.idle.Unlock()
	if r := o.running(boulderID); r != nil {
		return r, nil
	}
	return nil, Obey(ctx, o.cfg.Store, boulderID, what, o.cfg.Now())
}

// Obey carries an order out on a boulder that nothing runs, and returns when that is on disk. Errors wrap
// [boulder.ErrRefused] for what cannot be done as things are, [boulder.ErrNotFound], [ErrFinished] for a boulder that is
// over, or say what the store failed with. Nothing may run the boulder meanwhile.
func Obey(ctx context.Context, store Store, boulderID string, what boulder.Order, now time.Time) error {
	s, err := store.Load(ctx, boulderID)
	if err != nil {
		return err
	}
	if what.Do == boulder.OrderResume && !s.Boulder.Status.Terminal() {
		return refusal("nothing runs boulder %s, so there is no pause to take back", boulderID)
	}
	apply := func(b boulder.Body) error {
		_, err := s.Apply(boulder.Event{Time: now.UTC(), BoulderID: boulderID, Body: b})
		return err
	}
	followed := followedSessions(s)
	if err := carryOut(s, what, apply); err != nil {
		return err
	}
	if err := leave(s, followed, apply); err != nil {
		return err
	}
	if events := s.TakeEvents(); len(events) > 0 {
		return store.Commit(ctx, s, events)
	}
	return nil
}

// followedSessions are those in which an agent may be at work.
func followedSessions(s *boulder.State) []boulder.LeftSession {
	var all []boulder.LeftSession
	for _, o := range s.Live() {
		if o.Attempt.Status == boulder.AttemptExecuting && o.Turn.MessageID != "" {
			all = append(all, boulder.LeftSession{AttemptRef: o.Attempt.AttemptRef, SessionID: o.Attempt.SessionID})
		}
	}
	return all
}

// leave notes the sessions of attempts that an order has ended: their agents may be at work until they are stopped.
func leave(s *boulder.State, followed []boulder.LeftSession, apply func(boulder.Body) error) error {
	for _, left := range followed {
		if o := s.Open(left.SubTaskID); o != nil && o.Attempt.AttemptRef == left.AttemptRef {
			continue
		}
		if err := apply(boulder.SessionLeft{AttemptRef: left.AttemptRef, SessionID: left.SessionID}); err != nil {
			return err
		}
	}
	return nil
}

// StopLeft stops the sessions that orders left behind while nothing ran the boulder, see [boulder.SessionLeft], and returns
// when that is on disk. [Orchestrator.Resume] does it by itself; call it for boulders that are over before anything is run
// in the same project.
func (o *Orchestrator) StopLeft(ctx context.Context, boulderID string) error {
	stopper, can := o.cfg.Runner.(SessionStopper)
	if !can {
		return nil
	}
	return o.noteStopped(ctx, boulderID, func(left boulder.LeftSession) (bool, error) {
		if err := stopper.StopSession(ctx, left.SessionID); err != nil {
			return false, fmt.Errorf("stop session %s of attempt %d of %q, which may be at work: %w",
				left.SessionID, left.Attempt, left.SubTaskID, err)
		}
		return true, nil
	})
}

// noteStopped stores which of the sessions that were left behind have stopped.
func (o *Orchestrator) noteStopped(
	ctx context.Context, boulderID string, stopped func(boulder.LeftSession) (bool, error),
) error {
	s, err := o.cfg.Store.Load(ctx, boulderID)
	if err != nil {
		return err
	}
	for _, left := range s.Boulder.Left {
		if yes, err := stopped(left); err != nil {
			return err
		} else if !yes {
			continue
		}
		body := boulder.SessionLeft{AttemptRef: left.AttemptRef, SessionID: left.SessionID, Stopped: true}
		if _, err := s.Apply(boulder.Event{Time: o.cfg.Now().UTC(), BoulderID: boulderID, Body: body}); err != nil {
			return err
		}
	}
	events := s.TakeEvents()
	if len(events) == 0 {
		return nil
	}
	return o.cfg.Store.Commit(ctx, s, events)
}

func refusal(format string, args ...any) error {
	return fmt.Errorf("%w: %w", boulder.ErrRefused, fmt.Errorf(format, args...))
}

// carryOut applies the events that an order comes to. An order that cannot be carried out changes nothing, and its error
// wraps [boulder.ErrRefused] or [ErrFinished]; any other error is a fault of ours.
func carryOut(s *boulder.State, o boulder.Order, apply func(boulder.Body) error) error {
	if err := o.Validate(); err != nil {
		return refusal("%w", err)
	}
	b := &s.Boulder
	if o.Do == boulder.OrderArchive || o.Do == boulder.OrderUnarchive {
		return archive(b, o.Do == boulder.OrderArchive, apply)
	}
	if b.Status.Terminal() {
		return fmt.Errorf("boulder %s is %s: %w", b.ID, b.Status, ErrFinished)
	}
	switch o.Do {
	case boulder.OrderPause:
		if b.Status == boulder.Paused {
			return refusal("boulder %s is paused already", b.ID)
		}
		return apply(boulder.StatusChanged{Status: boulder.Paused, Reason: pausedByPerson})
	case boulder.OrderResume:
		if b.Status != boulder.Paused {
			return refusal("boulder %s is not paused: it is %s", b.ID, b.Status)
		}
		return resumed(s, apply)
	case boulder.OrderNote:
		return apply(boulder.Noted{SubTaskID: o.SubTaskID, Text: o.Text})
	case boulder.OrderCancel:
		if o.SubTaskID == "" {
			return cancelAll(s, apply)
		}
		return drop(s, o.SubTaskID, boulder.SubTaskCancelled, cancelledByPerson, apply)
	case boulder.OrderSettle:
		return answerBlocker(s, o, apply)
	case boulder.OrderSkip:
		return drop(s, o.SubTaskID, boulder.SubTaskSkipped, "skipped by a person", apply)
	}
	return retry(s, o.SubTaskID, apply)
}

// archive puts a boulder out of sight, or brings it back.
func archive(b *boulder.Boulder, archived bool, apply func(boulder.Body) error) error {
	switch {
	case !b.Status.Terminal():
		return refusal("boulder %s is %s, and only what is over can be archived", b.ID, b.Status)
	case archived && !b.ArchivedAt.IsZero():
		return refusal("boulder %s is archived already", b.ID)
	case !archived && b.ArchivedAt.IsZero():
		return refusal("boulder %s is not archived", b.ID)
	}
	return apply(boulder.Archived{Archived: archived})
}

const pausedByPerson = "paused by a person"

// resumed brings a paused boulder back to where it was when it was paused.
func resumed(s *boulder.State, apply func(boulder.Body) error) error {
	to := boulder.Running
	switch {
	case len(s.SubTasks) > 0:
	case s.Revision != nil:
		to = boulder.AwaitingApproval
	default:
		to = boulder.Planning
	}
	return apply(boulder.StatusChanged{Status: to, Reason: "resumed"})
}

// drop ends a sub-task without success.
func drop(
	s *boulder.State, id string, status boulder.SubTaskStatus, why string, apply func(boulder.Body) error,
) error {
	if err := movable(s, id); err != nil {
		return err
	}
	t, open := s.SubTask(id), s.Open(id)
	undo := status == boulder.SubTaskSkipped && (t.Status == boulder.SubTaskFailed || t.Status == boulder.SubTaskCancelled)
	if t.Status.Terminal() && !undo {
		return refusal("sub-task %q is %s", id, t.Status)
	}
	done := boulder.SubTaskDone{
		AttemptRef: boulder.AttemptRef{SubTaskID: id}, Summary: why, Status: status,
		AttemptStatus: boulder.AttemptCancelled, ByPerson: true,
	}
	if open != nil {
		done.AttemptRef = open.Attempt.AttemptRef
	}
	return applyEach(append(brokenOff(open), done), apply)
}

// answerBlocker hands a person's answer to the sub-task that has the blocker.
func answerBlocker(s *boulder.State, o boulder.Order, apply func(boulder.Body) error) error {
	t := s.SubTask(o.SubTaskID)
	switch {
	case t == nil:
		return refusal("boulder %s has no sub-task %q", s.Boulder.ID, o.SubTaskID)
	case t.Status.Terminal():
		return refusal("sub-task %q is %s: nothing of it goes on with an answer", t.ID, t.Status)
	}
	i := slices.IndexFunc(t.Blockers, func(b boulder.RaisedBlocker) bool { return b.ID == o.BlockerID })
	if i < 0 {
		return refusal("sub-task %q has no blocker %s", t.ID, o.BlockerID)
	}
	if b := t.Blockers[i]; b.Status.Settled() {
		return refusal("blocker %s of sub-task %q is %s already", b.ID, t.ID, b.Status)
	}
	status := boulder.BlockerAnswered
	if o.Text == "" && !o.Allowed {
		status = boulder.BlockerSkipped
	}
	return apply(boulder.BlockerSettled{
		SubTaskID: t.ID, BlockerID: o.BlockerID, Status: status, Answer: o.Text, Allowed: o.Allowed,
	})
}

// movable refuses a sub-task that is not there, or that a replan is about to replace.
func movable(s *boulder.State, id string) error {
	t, r := s.SubTask(id), s.Boulder.Replan
	switch {
	case t == nil:
		return refusal("boulder %s has no sub-task %q", s.Boulder.ID, id)
	case r != nil && (slices.Contains(r.Replaces, id) || t.Status.Terminal() || t.Status == boulder.SubTaskBlocked):
		return refusal("a new plan is being made, and %q may be part of what it replaces: try again when it is there", id)
	}
	return nil
}

// retry gives a sub-task a fresh session.
func retry(s *boulder.State, id string, apply func(boulder.Body) error) error {
	if err := movable(s, id); err != nil {
		return err
	}
	t, open := s.SubTask(id), s.Open(id)
	switch {
	case t.Parked, t.Status == boulder.SubTaskFailed, t.Status == boulder.SubTaskCancelled:
		return apply(boulder.Reopened{SubTaskID: id, Reason: triedAgain})
	case open != nil && open.Attempt.Status.Live():
		return applyEach(append(brokenOff(open), boulder.Retry{
			AttemptRef: open.Attempt.AttemptRef, Reason: triedAgain, Status: boulder.AttemptCancelled, Uncounted: true,
			Next: open.Attempt.Attempt + 1,
		}), apply)
	case open != nil:
		return refusal("sub-task %q waits for a free slot: it begins by itself", id)
	case t.Status == boulder.SubTaskPending:
		return refusal("sub-task %q has not begun: it waits for what it depends on", id)
	case t.Status == boulder.SubTaskBlocked:
		return refusal("sub-task %q is blocked: it %s; retry or skip that", id, t.Reason)
	}
	return refusal("sub-task %q is %s, and others may have built on that: `manager run --fork %s --from %s` "+
		"does it and what follows from it again", id, t.Status, s.Boulder.ID, id)
}

const triedAgain = "a person wants it tried again"

// cancelAll ends everything that is not over, and the boulder.
func cancelAll(s *boulder.State, apply func(boulder.Body) error) error {
	if r := s.Boulder.Replan; r != nil {
		if err := apply(boulder.ReplanRefused{AttemptRef: r.AttemptRef, Reason: cancelledByPerson}); err != nil {
			return err
		}
	}
	for i := len(s.SubTasks) - 1; i >= 0; i-- {
		t := s.SubTasks[i]
		if t.Status.Terminal() {
			continue
		}
		if err := drop(s, t.ID, boulder.SubTaskCancelled, cancelledByPerson, apply); err != nil {
			return err
		}
	}
	if len(s.SubTasks) == 0 {
		return apply(boulder.StatusChanged{Status: boulder.Cancelled, Reason: cancelledByPerson})
	}
	if err := apply(boulder.StatusChanged{Status: boulder.Synthesizing}); err != nil {
		return err
	}
	return apply(synthesize(s, boulder.Cancelled))
}

const cancelledByPerson = "cancelled by a person"

func applyEach(bodies []boulder.Body, apply func(boulder.Body) error) error {
	for _, b := range bodies {
		if err := apply(b); err != nil {
			return err
		}
	}
	return nil
}

// obey carries an order out on the loop goroutine. It is answered when it is on disk.
func (r *run) obey(o order) error {
	if o.Do == boulder.OrderPause && o.Now && r.state.Boulder.Status == boulder.Paused && len(r.work) > 0 {
		r.suspend() // it was paused, and what is at work shall stop all the same
		o.reply <- nil
		return nil
	}
	if err := r.noteClock(); err != nil {
		return err
	}
	before := r.state.Boulder.Seq
	followed := slices.DeleteFunc(followedSessions(r.state), func(l boulder.LeftSession) bool { return !r.busy(l.AttemptRef) })
	err := carryOut(r.state, o.Order, r.apply)
	if err == nil { // until the runner has stopped them: this process may be killed before
		err = leave(r.state, followed, r.apply)
	}
	if err != nil {
		o.reply <- err
		if r.state.Boulder.Seq != before {
			return fmt.Errorf("an order was carried out by half: %w", err) // the disk has nothing of it
		}
		return nil // nothing changed: that is for whoever gave the order
	}
	r.acks = append(r.acks, o.reply)
	r.takeAway()
	if o.Do == boulder.OrderPause && (o.Now || r.busy(planRef)) { // no turn is at work while there is no plan
		r.suspend()
	}
	if o.Do == boulder.OrderResume {
		return r.unparkAffordable()
	}
	return nil
}

// takeAway stops work whose attempt an order ended. What it still hands in is not taken.
func (r *run) takeAway() {
	for ref, stop := range r.work {
		open := r.state.Open(ref.SubTaskID)
		if ref.Attempt > 0 && (open == nil || open.Attempt.AttemptRef != ref) {
			r.leftover[ref] = true
			stop(errTakenAway)
		}
	}
}

var errTakenAway = errors.New("a person ended it")

// suspend stops the turns that are at work. They are taken up again when the pause is over.
func (r *run) suspend() {
	for ref, stop := range r.work {
		if !r.leftover[ref] {
			stop(errSuspended)
		}
	}
}

var errSuspended = errors.New(pausedByPerson)
