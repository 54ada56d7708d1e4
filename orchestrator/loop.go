package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator/internal/schedule"
)

// loop repeats: decide, commit, act, wait.
func (r *run) loop() error {
	if err := startable(r.state, r.o.limits); err != nil {
		r.end(err)
	}
	for {
		r.checkStop()
		if err := r.decide(); err != nil {
			return err
		}
		if err := r.commit(); err != nil {
			return err
		}
		switch status := r.state.Boulder.Status; {
		case errors.Is(r.ended, ErrDeclined):
			return r.ended
		case status == boulder.Cancelled:
			return ErrCancelled
		case status.Terminal():
			return nil
		}
		r.checkStop() // the consumer of the events may have called Stop
		if !r.halting() {
			r.launch()
		}
		if r.halting() && len(r.work) == 0 {
			return r.pause()
		}
		if err := r.wait(); err != nil {
			return err
		}
	}
}

// startable refuses a plan with a sub-task that could never start and would wait for ever.
func startable(s *boulder.State, l Limits) error {
	if err := schedule.Startable(s, l); err != nil {
		return fmt.Errorf("%w: %w", ErrUnstartable, err)
	}
	return nil
}

// halting reports whether the run is ending before the boulder does: nothing new is launched.
func (r *run) halting() bool { return !r.grace.IsZero() || r.ended != nil }

func (r *run) pause() error {
	err := cmp.Or(r.ended, ErrStopped)
	if r.state.Boulder.Status == boulder.Paused || r.state.Boulder.Waits(r.now) && errors.Is(err, ErrStopped) {
		return err
	}
	notStored := r.apply(boulder.StatusChanged{
		Status: boulder.Paused, Reason: err.Error(), SubTaskID: r.waitsFor, Decided: r.decidedToStop,
	})
	if notStored == nil {
		notStored = r.commit()
	}
	if notStored != nil {
		return errors.Join(err, notStored)
	}
	return err
}

// wait blocks until something arrives, then takes in all that has arrived.
func (r *run) wait() error {
	item := r.next(r.maxWait())
	if err := r.tick(); err != nil {
		return err
	}
	if !r.grace.IsZero() && !r.clockRead.Before(r.grace) {
		r.end(ErrStopped)
	}
	for ; item != nil; item = r.next(0) { // one commit for all
		var err error
		switch item := item.(type) {
		case message:
			err = r.receive(item)
		case order:
			err = r.obey(item)
		}
		if err != nil || r.state.Boulder.Status.Terminal() { // an order ended the boulder: later messages no longer count
			return err
		}
	}
	return nil
}

// next returns what arrives in time, or nil if nothing does or the caller's ctx is done.
func (r *run) next(within time.Duration) any {
	ctx := r.ctx
	if r.ended != nil || r.aborted != nil {
		ctx = context.WithoutCancel(ctx) // already noticed
	}
	item, _ := r.inbox.Take(ctx, within)
	return item
}

// maxWait returns how long the loop may block.
func (r *run) maxWait() time.Duration {
	until := r.wake
	if !r.grace.IsZero() && r.ended == nil && (until.IsZero() || r.grace.Before(until)) {
		until = r.grace
	}
	if until.IsZero() {
		return Forever
	}
	return max(until.Sub(r.o.cfg.Now()), 0)
}

// checkStop notices a stop or a cancelled ctx without blocking, so that nothing is launched afterwards.
func (r *run) checkStop() {
	if r.grace.IsZero() && r.o.stop.Err() != nil {
		r.grace = r.o.cfg.Now().Add(r.o.cfg.StopGrace)
	}
	if r.ctx.Err() != nil {
		r.end(context.Cause(r.ctx))
	}
}

func (r *run) end(cause error) {
	if r.ended == nil {
		r.ended = cause
		r.abort(cause)
	}
}

// abort cancels all work, also what is launched later.
func (r *run) abort(cause error) {
	r.aborted = cmp.Or(r.aborted, cause)
	for _, key := range r.underWay() {
		r.work[key](cause)
	}
}

func (r *run) apply(bodies ...boulder.Body) error {
	for i, b := range bodies {
		if raised, ok := b.(boulder.BlockerRaised); ok {
			raised.Blocker.ID = r.o.cfg.BlockerID(r.state.Boulder.BlockersRaised + 1)
			bodies[i] = raised
		}
		if err := applyTo(r.state, r.now, bodies[i]); err != nil {
			return err
		}
	}
	return nil
}

// applyTo applies events. Before one that ends an attempt it books the usage seen of the running turn, which is not
// resumed.
func applyTo(s *boulder.State, now time.Time, bodies ...boulder.Body) error {
	apply := func(b boulder.Body) error {
		_, err := s.Apply(boulder.Event{Time: now, BoulderID: s.Boulder.ID, Body: b})
		return err
	}
	for _, b := range bodies {
		switch b.(type) {
		case boulder.Retry, boulder.Parked, boulder.SubTaskDone:
			ref := boulder.AttemptOf(b)
			if o := s.Open(ref.SubTaskID); o != nil && o.Attempt.AttemptRef == ref && o.Attempt.Running() != (boulder.Usage{}) {
				used := boulder.UsageReport{
					SubTaskID: ref.SubTaskID, Attempt: ref.Attempt, Source: boulder.UsageAttempt, Model: o.Attempt.Model, Usage: o.Attempt.Running(),
				}
				if err := apply(used); err != nil {
					return err
				}
			}
		}
		if err := apply(b); err != nil {
			return err
		}
	}
	return nil
}

// tick begins a turn of the loop: it reads the clock, and records first whether it was set or the machine slept. All
// events until the next tick carry its time, so a log shows which came together.
func (r *run) tick() error {
	now := r.o.cfg.Now()
	moved := clockMoved(r.clockRead, now)
	r.clockRead, r.now = now, now.UTC().Round(0)
	if b := &r.state.Boulder; moved == 0 || b.ID == "" || b.Status.Terminal() {
		return nil
	}
	return r.apply(boulder.ClockMoved{By: moved})
}

// clockSlack is how far the wall clock may deviate from the monotonic clock between two ticks before it counts as
// moved: more than a time server corrects.
const clockSlack = 10 * time.Second

// clockMoved returns how far the wall clock moved beyond the elapsed time: it was set, or the machine slept, during
// which the monotonic clock stands still (Linux, macOS).
func clockMoved(before, now time.Time) time.Duration {
	if before.IsZero() {
		return 0
	}
	moved := now.Round(0).Sub(before.Round(0)) - now.Sub(before)
	if moved.Abs() < clockSlack {
		return 0
	}
	return moved
}

// commit writes the applied events, answers their reports, and yields them. An error leaves the state ahead of the
// disk, so it ends the run.
func (r *run) commit() error {
	events := r.state.TakeEvents()
	if len(events) == 0 {
		return nil
	}
	err := r.o.cfg.Store.Commit(context.WithoutCancel(r.ctx), r.state, events)
	if err != nil {
		r.storeErr = fmt.Errorf("store: %w", err)
		r.abort(r.storeErr) // first: an answered worker must see that the run is over, and end its agent's turn
	}
	if err == nil {
		for _, o := range r.state.Live() {
			r.raised.Store(o.SubTask.ID, o.SubTask.Blockers)
		}
	}
	for _, a := range r.acks {
		a.Put(err)
	}
	r.acks = nil
	if err != nil {
		return r.storeErr
	}
	for _, e := range events {
		if _, left := e.Body.(boulder.SessionLeft); left && r.state.Boulder.Status.Terminal() {
			continue // TaskComplete is the last event yielded
		}
		if !r.consumerGone && !r.yield(e, nil) {
			r.consumerGone = true
			r.end(errors.New("the events are not read any more"))
		}
	}
	return nil
}

// decide applies decisions until only work is left, which goes into todo. The lock stops other boulders of this
// Orchestrator from deciding meanwhile, so that no slot is given out twice.
func (r *run) decide() error {
	if err := r.adoptUnasked(); err != nil {
		return err
	}
	r.o.runs.mu.Lock()
	defer r.o.runs.mu.Unlock()
	shares := r.o.runs.shares
	others := []schedule.Share{{Cooling: r.o.runs.left}}
	for other, share := range shares {
		if other != r {
			others = append(others, share)
		}
	}
	r.limitsShared = r.limitsShared || len(others) > 1
	err := r.decideWith(others)
	mine := schedule.Hold(r.state, r.o.limits, r.now, r.slots, r.atWork, r.todo, others, err != nil || r.halting())
	if !reflect.DeepEqual(mine, shares[r]) {
		shares[r] = mine
		r.o.runs.wake(r)
	}
	return err
}

func (r *run) decideWith(others []schedule.Share) error {
	for {
		r.wake, r.todo = time.Time{}, schedule.Compute(r.state, r.o.limits, r.now, others...)
		decided := false
		for _, action := range r.todo {
			bodies := r.events(action)
			if err := r.apply(bodies...); err != nil {
				return fmt.Errorf("the scheduler decided what the state refuses: %w", err)
			}
			decided = decided || len(bodies) > 0
			if stop, ok := action.(schedule.Stop); ok {
				if r.ended == nil {
					r.waitsFor, r.decidedToStop = stop.SubTaskID, true
				}
				r.end(stopError(stop))
				return nil
			}
		}
		if !decided {
			return nil
		}
	}
}

func stopError(a schedule.Stop) error {
	switch {
	case a.Budget:
		return fmt.Errorf("%w: %w", ErrWaiting, &BudgetError{SubTaskID: a.SubTaskID, Reason: a.Reason})
	case a.AtLimit:
		return fmt.Errorf("%w: %s", ErrLoopLimit, a.Reason)
	}
	return fmt.Errorf("%w: %s", ErrWaiting, a.Reason)
}
