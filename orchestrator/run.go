package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
)

// run is one boulder being run. All fields belong to the loop goroutine; workers reach it through msgs only, others through
// orders and nudge.
type run struct {
	o     *Orchestrator
	id    string // of the boulder, once it is known; guarded by o.runs.mu
	state *boulder.State
	yield func(boulder.Event, error) bool
	gone  bool // the consumer stopped ranging

	ctx     context.Context // of the caller
	workCtx context.Context // of the workers
	abort   context.CancelCauseFunc
	workers errgroup.Group
	msgs    chan message
	orders  chan order
	nudge   chan struct{} // other boulders hold or wait for something else now
	done    chan struct{} // closed when the loop does not listen any more
	over    chan struct{} // closed when all work has ended, and somebody else may have the boulder

	approveReplan ApproveReplan
	budgets       map[string]boulder.Budget                      // of sub-tasks, to be set when they are there
	cancels       map[boulder.AttemptRef]context.CancelCauseFunc // of turns that are at work

	inflight map[boulder.AttemptRef]bool           // work that was launched and has not handed in its result
	shared   map[string]*atomic.Bool               // by sub-task, see shareFlags
	leftover map[boulder.AttemptRef]bool           // of inflight: its attempt was ended by an order
	restored map[boulder.AttemptRef]bool           // attempts whose work was broken off, here or in an earlier process
	files    map[boulder.AttemptRef][]boulder.File // of briefs that were decided on and not launched yet
	acks     []chan<- error                        // of reports that are applied but not yet stored
	wake     time.Time
	looked   time.Time // at the clock, with the newest event
	stopping bool
	grace    <-chan time.Time // ends the patience with running turns after a stop
	ended    error            // why the run ends before the boulder does
	broken   error            // what the store failed with: the state is ahead of the disk, nothing more is written
}

func newRun(ctx context.Context, o *Orchestrator, yield func(boulder.Event, error) bool) *run {
	r := &run{
		o: o, state: boulder.NewState(), yield: yield, ctx: ctx, msgs: make(chan message, 64),
		orders: make(chan order), nudge: make(chan struct{}, 1), done: make(chan struct{}), over: make(chan struct{}),
		inflight: map[boulder.AttemptRef]bool{}, leftover: map[boulder.AttemptRef]bool{},
		restored: map[boulder.AttemptRef]bool{},
		files:    map[boulder.AttemptRef][]boulder.File{}, cancels: map[boulder.AttemptRef]context.CancelCauseFunc{},
	}
	r.workCtx, r.abort = context.WithCancelCause(context.WithoutCancel(ctx))
	return r
}

// drive runs body, ends the workers and waits for them, and yields the error that ended the run, if one did. The
// workers end too if the consumer's loop body panics or ends its goroutine.
func (r *run) drive(body func() error) {
	err := func() error {
		defer r.o.leave(r)
		defer r.endWorkers()
		return body()
	}()
	if err != nil && !r.gone {
		r.yield(boulder.Event{}, err)
	}
}

func (r *run) endWorkers() {
	r.abort(errRunOver)
	close(r.done)
	_ = r.workers.Wait() // workers hand in their errors as messages
}

var errRunOver = errors.New("the run is over")

// begin creates the boulder, plans it if it has no plan, and runs it.
func (r *run) begin(req Request) error {
	r.approveReplan, r.budgets = req.ApproveReplan, req.SubTaskBudgets
	if req.Fork != nil {
		return r.beginFork(req)
	}
	if err := r.create(r.head(req)); err != nil {
		return err
	}
	if req.Plan == nil {
		return r.planAndLoop(req.Approve, req.GatesApproved)
	}
	if err := r.propose(req.Plan); err != nil {
		return err
	}
	if err := r.adopt(Approval{Plan: req.Plan, Gates: req.GatesApproved}); err != nil {
		return err
	}
	return r.loop()
}

// head is the head record of a request.
func (r *run) head(req Request) boulder.Boulder {
	task := req.Task
	if req.Plan != nil {
		task = req.Plan.Task
	}
	return boulder.Boulder{
		ID: r.o.cfg.NewID(), Task: task, Project: r.o.cfg.Project, Base: req.Base, Model: req.Model,
		LedgerModel: req.LedgerModel, Constraints: req.Constraints, PlanMode: req.Mode, Budget: req.Budget,
		Gates: req.Gates, NoWorse: req.NoWorse, AskReplans: req.AskReplans,
	}
}

func (r *run) create(head boulder.Boulder) error {
	if err := r.o.enter(head.ID, r); err != nil {
		return err
	}
	return r.applyFor(head.ID, boulder.Created{Boulder: head})
}

// resume takes a stored boulder up where it was.
func (r *run) resume(id string, req ResumeRequest) error {
	if err := r.o.enter(id, r); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	records, err := r.o.cfg.Store.Load(r.ctx, id)
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	if records.Boulder.Status.Terminal() {
		return fmt.Errorf("boulder %s is %s: %w", id, records.Boulder.Status, ErrFinished)
	}
	if records.Boulder.Project != r.o.cfg.Project {
		return fmt.Errorf("boulder %s works on %s, not on %s: run resume there, or with -C",
			id, records.Boulder.Project, r.o.cfg.Project)
	}
	if r.state, err = boulder.Restore(records); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	for _, o := range r.state.Live() {
		r.restored[o.Attempt.AttemptRef] = true
	}
	r.approveReplan = req.ApproveReplan
	if err := r.takeUp(req); err != nil {
		return err
	}
	if len(r.state.SubTasks) == 0 {
		return r.planAndLoop(req.Approve, false)
	}
	return r.loop()
}

// takeUp brings a stored boulder to where it goes on, with the budgets that it may have got.
func (r *run) takeUp(req ResumeRequest) error {
	if err := r.apply(boulder.TakenUp{LedgerModel: req.LedgerModel}); err != nil {
		return err
	}
	if err := r.unpause(); err != nil {
		return err
	}
	if req.Budget != nil {
		if err := r.apply(boulder.BudgetSet{Budget: *req.Budget}); err != nil {
			return err
		}
	}
	r.budgets = req.SubTaskBudgets
	if len(r.state.SubTasks) > 0 {
		if err := r.setBudgets(); err != nil {
			return fmt.Errorf("resume: %w", err)
		}
	}
	return r.unparkAffordable()
}

// unparkAffordable lets sub-tasks go on that wait for a person, unless it is for a larger budget.
func (r *run) unparkAffordable() error {
	for _, t := range r.state.SubTasks {
		if t.Parked && schedule.Affordable(r.state, t) {
			if err := r.apply(boulder.Unparked{SubTaskID: t.ID, Reason: "resumed"}); err != nil {
				return err
			}
		}
	}
	return nil
}

// unpause brings a paused boulder back to where it was when it was paused.
func (r *run) unpause() error {
	if s := r.state.Boulder.Status; s != boulder.Paused && s != boulder.Synthesizing {
		return nil
	}
	return resumed(r.state, r.apply)
}

// setBudgets gives sub-tasks the budgets that the request has for them.
func (r *run) setBudgets() error {
	for _, id := range slices.Sorted(maps.Keys(r.budgets)) {
		if r.state.SubTask(id) == nil {
			return fmt.Errorf("there is no sub-task %q to give a budget to", id)
		}
		if err := r.apply(boulder.BudgetSet{SubTaskID: id, Budget: r.budgets[id]}); err != nil {
			return err
		}
	}
	return nil
}

// loop is the one loop: decide, commit, act, wait.
func (r *run) loop() error {
	r.startable()
	for {
		r.notice()
		if err := r.decide(); err != nil {
			return err
		}
		if arrived, err := r.judgeAhead(); err != nil {
			return err
		} else if arrived {
			continue
		}
		if err := r.commit(); err != nil {
			return err
		}
		switch status := r.state.Boulder.Status; {
		case status == boulder.Cancelled:
			return ErrCancelled
		case status.Terminal():
			return nil
		}
		r.notice() // whoever read the events may have asked for a stop
		if !r.halting() {
			r.launch()
		}
		if r.halting() && len(r.inflight) == 0 {
			return r.pause()
		}
		if err := r.wait(); err != nil {
			return err
		}
	}
}

// startable ends the run if a sub-task could never start: it would wait for ever.
func (r *run) startable() {
	if err := schedule.Startable(r.state, r.o.limits); err != nil {
		r.end(fmt.Errorf("%w: %w", boulder.ErrFatal, err))
	}
}

// halting reports whether the run ends before the boulder does: nothing new is launched.
func (r *run) halting() bool { return r.stopping || r.ended != nil }

// pause ends the run at a boundary, with everything stored.
func (r *run) pause() error {
	err := r.ended
	if err == nil {
		err = ErrStopped
	}
	if r.state.Boulder.Status == boulder.Running {
		if applyErr := r.apply(boulder.StatusChanged{Status: boulder.Paused, Reason: err.Error()}); applyErr != nil {
			return errors.Join(err, applyErr)
		}
		if commitErr := r.commit(); commitErr != nil {
			return errors.Join(err, commitErr)
		}
	}
	return err
}

// wait blocks until something arrives, then takes in everything else that has arrived.
func (r *run) wait() error {
	var timer <-chan time.Time
	if !r.wake.IsZero() {
		t := time.NewTimer(r.wake.Sub(r.o.cfg.Now()))
		defer t.Stop()
		timer = t.C
	}
	var stop, cancelled <-chan struct{}
	if !r.stopping {
		stop = r.o.stop.Done()
	}
	if r.ended == nil {
		cancelled = r.ctx.Done()
	}
	select {
	case m := <-r.msgs:
		if err := r.receive(m); err != nil {
			return err
		}
	case o := <-r.orders:
		if err := r.obey(o); err != nil {
			return err
		}
	case <-r.nudge:
	case <-timer:
	case <-stop:
	case <-cancelled:
	case <-r.grace:
		r.end(ErrStopped)
	}
	_, err := r.drain()
	return err
}

// drain takes in everything that has arrived, and reports whether anything had. Workers that are ready to hand something in
// get their turn first, so that one commit serves them all.
func (r *run) drain() (arrived bool, err error) {
	for yielded := false; ; {
		select {
		case m := <-r.msgs:
			arrived, yielded = true, false
			if err := r.receive(m); err != nil {
				return arrived, err
			}
		default:
			if yielded {
				return arrived, nil
			}
			yielded = true
			runtime.Gosched()
		}
	}
}

// judgeAhead begins to judge turns whose evidence is about to be committed. A judgement is nothing that must not happen
// twice: after a crash the session is asked again for what the turn left behind. It reports whether more is there to be
// written now; a judge that answers at once costs no commit of its own.
func (r *run) judgeAhead() (arrived bool, err error) {
	if r.halting() {
		return false, nil
	}
	begun := false
	for _, action := range schedule.Compute(r.state, r.o.limits, r.o.cfg.Now()) {
		if j, ok := action.(schedule.Judge); ok && !r.inflight[j.Open.Attempt.AttemptRef] {
			r.start(j.Open, workJudge)
			begun = true
		}
	}
	if !begun {
		return false, nil
	}
	return r.drain()
}

// notice takes in a stop and a cancelled ctx without waiting for them, so that nothing is launched after either.
func (r *run) notice() {
	if !r.stopping && r.o.stop.Err() != nil {
		r.stopping = true
		r.grace = time.After(r.o.cfg.StopGrace)
	}
	if r.ctx.Err() != nil {
		r.end(context.Cause(r.ctx))
	}
}

// end makes the run end now: the workers are told to stop their turns.
func (r *run) end(cause error) {
	if r.ended == nil {
		r.ended = cause
		r.abort(cause)
	}
}

// apply makes an event of the body and applies it.
func (r *run) apply(b boulder.Body) error { return r.applyFor(r.state.Boulder.ID, b) }

func (r *run) applyFor(id string, b boulder.Body) error {
	now := r.o.cfg.Now()
	if moved := clockMoved(r.looked, now); moved != 0 && r.state.Boulder.ID == id && !r.state.Boulder.Status.Terminal() {
		e := boulder.Event{Time: now.UTC(), BoulderID: id, Body: boulder.ClockMoved{By: moved}}
		if _, err := r.state.Apply(e); err != nil {
			return err
		}
	}
	r.looked = now
	_, err := r.state.Apply(boulder.Event{Time: now.UTC(), BoulderID: id, Body: b})
	return err
}

// clockSlack is how far the wall clock may run apart from the monotonic one between two events before it counts as moved:
// more than a time server corrects.
const clockSlack = 10 * time.Second

// clockMoved is by how much the wall clock went on without time passing: while the machine slept, the monotonic clock
// stands still (Linux, macOS).
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

// commit writes what the applied events touched, answers the reports among them, and yields the events. An error leaves
// the state ahead of the disk, so it ends the run.
func (r *run) commit() error {
	changes, touched := r.state.TakeChanges()
	if !touched {
		return nil
	}
	err := r.o.cfg.Store.Commit(context.WithoutCancel(r.ctx), changes)
	for _, a := range r.acks {
		a <- err
	}
	r.acks = nil
	if err != nil {
		r.broken = fmt.Errorf("store: %w", err)
		return r.broken
	}
	for _, e := range changes.Events {
		if !r.gone && !r.yield(e, nil) {
			r.gone = true
			r.end(errAbandoned)
		}
	}
	return nil
}

var errAbandoned = errors.New("the events are not read any more")

// decide applies what schedule.Compute decides until only work is left to do, and remembers when to wake up.
func (r *run) decide() error { return r.beside(r.decideBeside) }

func (r *run) decideBeside(others []schedule.Share) error {
	for {
		decided := false
		r.wake = time.Time{}
		for _, action := range schedule.ComputeBeside(r.state, r.o.limits, r.o.cfg.Now(), others) {
			bodies := r.decision(action)
			for _, body := range bodies {
				if err := r.apply(body); err != nil {
					return fmt.Errorf("the scheduler decided what the state refuses: %w", err)
				}
			}
			decided = decided || len(bodies) > 0
			switch a := action.(type) {
			case schedule.Finish:
				return r.apply(synthesize(r.state, a.Status))
			case schedule.Stop:
				r.end(stopError(a))
				return nil
			case schedule.Await:
				r.end(awaitError(a))
				return nil
			}
		}
		if !decided {
			return nil
		}
	}
}

func awaitError(a schedule.Await) error {
	if a.Budget {
		return fmt.Errorf("%w: %w", ErrWaiting, &BudgetError{SubTaskID: a.SubTaskID, Reason: a.Reason})
	}
	return fmt.Errorf("%w: %s", ErrWaiting, a.Reason)
}

func stopError(a schedule.Stop) error {
	if a.Budget {
		return fmt.Errorf("%w: %w", ErrWaiting, &BudgetError{Reason: a.Reason})
	}
	return fmt.Errorf("%w: %s", boulder.ErrFatal, a.Reason)
}
