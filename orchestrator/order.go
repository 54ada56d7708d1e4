package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator/internal/schedule"
)

// order is a user's order on its way to the loop goroutine.
type order struct {
	boulder.Order
	reply Inbox
}

// RunsElsewhere returns an error if another engine runs the boulder: this is only a copy of its log.
func RunsElsewhere(b *boulder.Boulder) error {
	if b.Engine == "" || b.Status.Terminal() {
		return nil
	}
	return fmt.Errorf("%w: boulder %s runs on %s, and this is a copy of its log: start `manager-%[3]s gateway`, which reaches it", boulder.ErrRefused, boulder.ShortID(b.ID), b.Engine)
}

// Order carries out an order: in the boulder's loop if this Orchestrator runs it, otherwise as [Obey] does, with the
// same errors. It returns when the result is on disk. If ctx ends first, the order may still be carried out. A resume
// order is only for a boulder that is being run.
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

// runningOrObey obeys at once if nothing runs the boulder. The lock keeps a run from starting meanwhile.
func (o *Orchestrator) runningOrObey(ctx context.Context, boulderID string, what boulder.Order) (*run, error) {
	o.runs.mu.Lock()
	defer o.runs.mu.Unlock()
	if r := o.runs.byID[boulderID]; r != nil {
		return r, nil
	}
	return nil, Obey(ctx, o.cfg.Store, boulderID, what, o.cfg.Now())
}

// Obey carries out an order on a boulder that nothing runs, now or meanwhile, and returns when the result is on disk.
// Errors wrap [boulder.ErrRefused] if the state does not allow it, [boulder.ErrFinished] if the boulder is over,
// [boulder.ErrNotFound], or the store's error.
func Obey(ctx context.Context, store Store, boulderID string, what boulder.Order, now time.Time) error {
	s, err := store.Load(ctx, boulderID)
	if err != nil {
		return err
	}
	if what.Do == boulder.OrderResume && !s.Boulder.Status.Terminal() {
		return refusal("nothing runs boulder %s, so there is no pause to take back", boulder.ShortID(boulderID))
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

// StopLeft stops the sessions that orders left at work while nothing ran the boulder ([boulder.SessionLeft]), and
// returns when that is on disk. Resume does so too; call it for finished boulders before anything runs in the project.
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
	for _, left := range s.Boulder.LeftSessions {
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

// carryOut applies the events of an order. A refused order changes nothing; its error wraps [boulder.ErrRefused] or
// [boulder.ErrFinished], any other error is a bug. Sessions of attempts that it ends are recorded if they may be at
// work, until they are stopped. busy tells which attempts are; nil: all may be.
func carryOut(s *boulder.State, what boulder.Order, now time.Time, busy func(boulder.AttemptRef) bool) error {
	bodies, err := orderEvents(s, what, now, busy)
	if err != nil {
		return err
	}
	atWork := slices.DeleteFunc(s.Live(), func(o *boulder.Open) bool {
		return o.Attempt.Status != boulder.AttemptExecuting || o.Turn.MessageID == "" || busy != nil && !busy(o.Attempt.AttemptRef)
	})
	if err := applyTo(s, now, bodies...); err != nil {
		return err
	}
	if what.Do == boulder.OrderCancel && s.Boulder.Status == boulder.Synthesizing { // of the whole boulder: it ends
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

// orderEvents returns the events of an order. What [boulder.State.Apply] refuses in the first is not checked here.
func orderEvents(s *boulder.State, o boulder.Order, now time.Time, busy func(boulder.AttemptRef) bool) ([]boulder.Body, error) {
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
	case b.Status.Terminal() && (o.Do != boulder.OrderSettle || o.SubTaskID != ""):
		return nil, fmt.Errorf("boulder %s is %s: %w", boulder.ShortID(b.ID), b.Status, boulder.ErrFinished)
	case o.Do == boulder.OrderApprove, o.Do == boulder.OrderDecline, o.Do == boulder.OrderRevise:
		return approvalEvents(s, o, now)
	case o.Do == boulder.OrderPause && b.Status == boulder.Paused:
		return nil, refusal("boulder %s is paused already", boulder.ShortID(b.ID))
	case o.Do == boulder.OrderPause:
		return []boulder.Body{boulder.StatusChanged{Status: boulder.Paused, Reason: pausedByUser}}, nil
	case o.Do == boulder.OrderResume && b.Status != boulder.Paused:
		return nil, refusal("boulder %s is not paused: it is %s", boulder.ShortID(b.ID), b.Status)
	case o.Do == boulder.OrderResume:
		return append([]boulder.Body{resumed(s)}, schedule.LiftOutages(s, now)...), nil
	case o.Do == boulder.OrderCancel && o.SubTaskID == "":
		return cancelAll(s), nil
	case o.Do == boulder.OrderEdit:
		return editEvents(s, o, now, busy)
	}
	t := s.SubTask(o.SubTaskID)
	switch {
	case o.SubTaskID != "" && t == nil:
		return nil, refusal("boulder %s has no sub-task %q", boulder.ShortID(b.ID), o.SubTaskID)
	case o.Do == boulder.OrderNote:
		return []boulder.Body{boulder.Noted{SubTaskID: o.SubTaskID, Text: o.Text}}, nil
	case o.Do == boulder.OrderSettle:
		status := boulder.BlockerAnswered
		if o.Text == "" && !o.Allowed {
			status = boulder.BlockerSkipped
		}
		return []boulder.Body{boulder.BlockerSettled{
			SubTaskID: o.SubTaskID, BlockerID: o.BlockerID, Status: status, Answer: o.Text, Allowed: o.Allowed,
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
	edits, err := editEvents(s, o, now, busy)
	if err != nil {
		return nil, err
	}
	bodies, err := retry(s, t, now) // first, as it may be refused
	return append(bodies, edits...), err
}

// approvalEvents returns the events of the user's answer to a plan or replan. Approval includes its gates.
func approvalEvents(s *boulder.State, o boulder.Order, now time.Time) ([]boulder.Body, error) {
	b, snapshot := &s.Boulder, s.Snapshot()
	switch asked := snapshot.Asked(); {
	case asked == "":
		return nil, refusal("nothing of boulder %s waits for your approval", boulder.ShortID(b.ID))
	case asked != o.Hash:
		return nil, refusal("what waits for your approval is not what you were shown: look again")
	case b.Replan == nil && o.Do == boulder.OrderRevise:
		return []boulder.Body{revisionAsked(s, &ReviseError{Comment: o.Text, Plan: o.Plan}, now)}, nil
	case b.Replan == nil && o.Do == boulder.OrderDecline:
		return nil, refusal("a plan is declined by cancelling its boulder: `manager cancel -b %s`", boulder.ShortID(b.ID))
	case b.Replan == nil:
		plan := cmp.Or(o.Plan, &s.Revision.Plan)
		return []boulder.Body{decomposed(s, Approval{Plan: plan, Gates: true}, nil, now)}, nil
	case o.Do == boulder.OrderDecline:
		return schedule.RefuseReplan(s, declined), nil
	case o.Plan != nil:
		return nil, refusal("a replan cannot be edited: say with revise what should be different, or decline it")
	case o.Do == boulder.OrderRevise:
		return []boulder.Body{boulder.RevisionAsked{Comment: o.Text}}, nil
	}
	return []boulder.Body{replanned(s, *b.Replan.Proposed, true, now)}, nil
}

const declined = "the new plan was declined"

// resumed returns a paused boulder to the status it had before.
func resumed(s *boulder.State) boulder.Body {
	to := boulder.Running
	switch {
	case len(s.SubTasks) > 0:
	case s.Revision != nil && s.Boulder.Comment == "":
		to = boulder.AwaitingApproval
	default:
		to = boulder.Planning
	}
	return boulder.StatusChanged{Status: to, Reason: "resumed"}
}

func drop(s *boulder.State, t *boulder.SubTask, status boulder.SubTaskStatus, why string) boulder.Body {
	done := boulder.SubTaskDone{
		AttemptRef: boulder.AttemptRef{SubTaskID: t.ID}, Summary: why, Status: status,
		AttemptStatus: boulder.AttemptCancelled, ByUser: true,
	}
	if open := s.Open(t.ID); open != nil {
		done.AttemptRef = open.Attempt.AttemptRef
	}
	return done
}

// cancelAll ends every sub-task that is not over, dependents before their dependencies, and then the boulder.
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
			Next: open.Attempt.Attempt + 1, ByUser: true,
		}}, nil
	case open != nil:
		return nil, refusal("sub-task %q waits for a free slot: it begins by itself", t.ID)
	case t.Status == boulder.SubTaskPending:
		return nil, refusal("sub-task %q has not begun: it waits for what it depends on", t.ID)
	case t.Status == boulder.SubTaskBlocked:
		return nil, refusal("sub-task %q is blocked: it %s; retry or skip that", t.ID, t.Reason)
	case t.Status == boulder.SubTaskSkipped:
		return nil, refusal("sub-task %q is skipped, and others may have built on that: once the boulder is over, `manager redo %[1]s`"+
			" does it, in a new boulder", t.ID)
	}
	return nil, refusal("sub-task %q is %s, and others may have built on that: `manager redo %[1]s` does it again, and what "+
		"follows from it where it has to", t.ID, t.Status)
}

// obey carries out an order on the loop goroutine. The answer is sent once the result is on disk.
func (r *run) obey(o order) error {
	if o.Do == boulder.OrderPause && o.Now && r.state.Boulder.Status == boulder.Paused && len(r.work) > 0 {
		r.suspend() // paused before, but turns are still at work
		o.reply.Put(nil)
		return nil
	}
	if o.Do == boulder.OrderRedo { // which moves the tip's ref
		switch {
		case r.busy(integrateWork):
			o.reply.Put(refusal("a result is being integrated: try again in a moment"))
			return nil
		case r.busy(verifyWork) && r.state.Boulder.Isolated():
			o.reply.Put(refusal("the gates run on the results: try again when they have ended"))
			return nil
		}
	}
	if o.Do == boulder.OrderEdit || o.Do == boulder.OrderRetry {
		if err := r.usable(o.Order); err != nil {
			o.reply.Put(err)
			return nil
		}
	}
	before, planned := r.state.Boulder.Seq, len(r.state.SubTasks) == 0
	err := carryOut(r.state, o.Order, r.now, r.atWork)
	if err != nil {
		o.reply.Put(err)
		if r.state.Boulder.Seq != before {
			return fmt.Errorf("an order was carried out by half: %w", err) // nothing of it is on disk
		}
		return nil // nothing changed: the error concerns the sender only
	}
	r.acks = append(r.acks, o.reply)
	for _, key := range r.underWay() {
		if r.attemptOver(key) { // its result will be ignored
			r.work[key](errors.New("the user ended it"))
		}
	}
	switch o.Do {
	case boulder.OrderApprove, boulder.OrderDecline, boulder.OrderRevise:
		for _, key := range []workKey{planWork, replanWork} { // ends a question at a terminal
			if stop := r.work[key]; stop != nil {
				stop(errSuspended)
			}
		}
		if o.Do == boulder.OrderRevise {
			return nil
		}
		err := startable(r.state, r.o.limits)
		if err == nil && planned {
			err = r.setBudgets()
		}
		if err != nil {
			r.end(err)
		}
	}
	if o.Do == boulder.OrderPause && (o.Now || r.busy(planWork)) { // during planning a pause always stops the work
		r.suspend()
	}
	if o.Do == boulder.OrderResume || o.Do == boulder.OrderEdit && r.state.Boulder.Status == boulder.Running {
		return r.unparkAffordable() // after an edit, what they wait for may have been corrected
	}
	return nil
}

// attemptOver reports whether work is that of an attempt that has ended; while it is busy, only an order does that.
func (r *run) attemptOver(key workKey) bool {
	open := r.state.Open(key.attempt.SubTaskID)
	return key == workOf(key.attempt) && (open == nil || open.Attempt.AttemptRef != key.attempt)
}

// suspend stops the turns at work. They are resumed when the pause ends.
func (r *run) suspend() {
	for _, key := range r.underWay() {
		r.work[key](errSuspended)
	}
}

var errSuspended = errors.New(pausedByUser)
