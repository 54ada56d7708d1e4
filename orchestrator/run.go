package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
)

// run is one boulder being run. All fields belong to the loop goroutine; others reach it through the inbox only.
type run struct {
	o     *Orchestrator
	req   Request
	state *boulder.State
	yield func(boulder.Event, error) bool
	gone  bool // the consumer stopped ranging

	ctx   context.Context // of the caller
	inbox Inbox           // of message, order and woken; closed when another process may have the boulder

	work          map[boulder.AttemptRef]context.CancelCauseFunc // that was launched and has not handed in its end
	slots         map[boulder.AttemptRef]string                  // that attempts hold, with their models
	shared        sync.Map                                       // by sub-task: [boulder.SubTask.Shared], for workers
	restored      map[boulder.AttemptRef]bool                    // attempts whose work was broken off, here or in an earlier process
	acks          []Inbox                                        // of reports and orders that are applied but not yet stored
	integrates    boulder.AttemptRef                             // whose result is or was being put onto the tip here
	verified      int                                            // attempts that had begun when all gates had run once more; -1 before
	todo          []schedule.Action                              // decided: the work that should be under way when all is stored
	wake          time.Time
	now           time.Time // of this turn of the loop: the wall clock alone, since times of the state pass while the machine sleeps
	looked        time.Time // at the clock, in this turn
	grace         time.Time // ends the patience with running turns after a stop; zero: there was none
	waitsFor      string    // the parked sub-task for which the run ends
	decidedToStop bool      // the scheduler did
	limitsShared  bool      // other boulders have shared the limits
	ended         error     // why the run ends before the boulder does
	aborted       error     // why all work is ended
	broken        error     // what the store failed with: the state is ahead of the disk, nothing more is written
}

func newRun(ctx context.Context, o *Orchestrator, req Request, yield func(boulder.Event, error) bool) *run {
	return &run{
		o: o, req: req, verified: -1, state: boulder.NewState(), yield: yield, ctx: ctx, inbox: o.cfg.Coroutines.NewInbox(),
		work: map[boulder.AttemptRef]context.CancelCauseFunc{}, slots: map[boulder.AttemptRef]string{},
		restored: map[boulder.AttemptRef]bool{},
	}
}

// drive runs the request, ends the workers and waits for them, and yields the error that ended the run, if one did. The
// workers end too if the consumer's loop body panics or ends its goroutine.
func (r *run) drive() {
	err := func() error {
		defer r.o.leave(r)
		defer r.endWorkers()
		begin := r.begin
		if r.req.Resume != "" {
			begin = r.resume
		}
		if err := begin(); err != nil {
			return err
		}
		return r.loop()
	}()
	if err != nil && !r.gone {
		r.yield(boulder.Event{}, err)
	}
}

func (r *run) endWorkers() {
	r.abort(errRunOver)
	for _, ack := range r.acks {
		ack.Put(errRunOver)
	}
	var orders []any
	var ended []boulder.AttemptRef
	for len(r.work) > 0 {
		switch item := r.next(Forever).(type) {
		case message:
			if item.finish != nil {
				r.release(item.ref)
				ended = append(ended, item.ref)
			} else {
				item.ack.Put(errRunOver)
			}
		case order:
			orders = append(orders, item)
		}
	}
	for _, o := range orders { // for [Orchestrator.leave]
		r.inbox.Put(o)
	}
	if len(r.state.Boulder.Left) == 0 || r.broken != nil {
		return
	}
	// The agents of attempts that an order ended have stopped: their workers have ended.
	ctx := context.WithoutCancel(r.ctx)
	s, err := r.o.cfg.Store.Load(ctx, r.state.Boulder.ID)
	if err == nil {
		err = applyTo(s, r.o.cfg.Now().UTC(), stopped(s, ended...)...)
	}
	if err == nil {
		err = commitEvents(ctx, r.o.cfg.Store, s)
	}
	if err != nil { // the next run stops them once more
		r.o.cfg.Logger.Warn("it is not stored that agents have stopped", "boulder", r.state.Boulder.ID, "error", err)
	}
}

// stopped are the events of sessions that orders left behind and that have stopped.
func stopped(s *boulder.State, attempts ...boulder.AttemptRef) (bodies []boulder.Body) {
	for _, left := range s.Boulder.Left {
		if slices.Contains(attempts, left.AttemptRef) {
			bodies = append(bodies, boulder.SessionLeft{LeftSession: left, Stopped: true})
		}
	}
	return bodies
}

var errRunOver = errors.New("the run is over")

// begin creates the boulder, with its sub-tasks if it has a plan already.
func (r *run) begin() error {
	head := boulder.Boulder{ID: r.o.cfg.NewID(), Task: r.req.Task, Project: r.o.cfg.Project, Settings: r.req.Settings}
	_, tries := r.o.cfg.Runner.(Trier)
	head.Line = boulder.Line{
		Base: r.req.SlotBase, Tip: r.req.SlotBase, Trial: tries && r.req.SlotBase != "", InPlace: r.req.InPlace,
	}
	given := Approval{Plan: r.req.Plan, Gates: r.req.GatesApproved}
	if given.Plan != nil {
		head.Task = given.Plan.Task
	}
	var results map[string]boulder.Inherited
	if r.req.Fork != nil {
		var err error
		if given.Plan, results, err = r.fork(&head); err != nil {
			return err
		}
		given.Gates = true
	}
	if err := r.o.enter(head.ID, r); err != nil {
		return err
	}
	if err := r.tick(); err != nil {
		return err
	}
	created := boulder.Created{Boulder: head, Limits: r.o.encodedLimits()}
	_, err := r.state.Apply(boulder.Event{Time: r.now, BoulderID: head.ID, Body: created})
	if err != nil || given.Plan == nil {
		return err
	}
	if err := r.propose(given.Plan); err != nil || head.AskPlan && r.req.Fork == nil {
		return err
	}
	return r.adopt(given, results)
}

// resume takes a stored boulder up where it was, with the budgets that it may have got.
func (r *run) resume() error {
	id := r.req.Resume
	if err := r.o.enter(id, r); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	stored, err := r.o.cfg.Store.Load(r.ctx, id)
	if err == nil && r.o.local {
		err = RunsElsewhere(&stored.Boulder)
	}
	if err == nil {
		err = r.o.stopLeft(r.ctx, stored)
	}
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	b := &stored.Boulder
	switch {
	case b.Status.Terminal():
		return fmt.Errorf("boulder %s is %s: %w", id, b.Status, boulder.ErrFinished)
	case b.Project != r.o.cfg.Project:
		return fmt.Errorf("boulder %s works on %s, not on %s: run resume there, or with -C", id, b.Project, r.o.cfg.Project)
	}
	if plan := r.req.Plan; plan != nil {
		agreed := Approval{Plan: plan, Gates: r.req.GatesApproved, Model: r.req.Model}
		r.req.Approve = func(context.Context, *boulder.Plan) (Approval, error) { return agreed, nil }
	}
	r.state, r.req.GatesApproved = stored, false
	for _, o := range r.state.Live() {
		r.restored[o.Attempt.AttemptRef] = true
	}
	if err := r.tick(); err != nil {
		return err
	}
	bodies := []boulder.Body{boulder.TakenUp{
		LedgerModel: r.req.LedgerModel, Diverted: r.req.Diverted, Iterations: r.req.Iterations, Limits: r.o.encodedLimits(),
	}}
	if b.Status == boulder.Paused || b.Status == boulder.Synthesizing {
		bodies = append(bodies, resumed(r.state))
	}
	if r.req.Budget != nil {
		bodies = append(bodies, boulder.BudgetSet{Budget: *r.req.Budget})
	}
	if err := r.apply(bodies...); err != nil {
		return err
	}
	if len(r.state.SubTasks) > 0 {
		if err := r.setBudgets(); err != nil {
			return fmt.Errorf("resume: %w", err)
		}
	}
	return r.unparkAffordable()
}

// unparkAffordable lets sub-tasks go on that wait for the user, unless it is for a larger budget, more turns, an answer, or a
// program that is still not there: an agent's turn would end at the same gate.
func (r *run) unparkAffordable() error {
	for _, t := range r.state.SubTasks {
		if !t.Parked || t.Program != "" && r.o.cfg.Lacks(r.ctx, r.state.Boulder.Project, t.Program) {
			continue
		}
		if unparked, can := schedule.Unpark(r.state, t); can {
			if err := r.apply(unparked); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) setBudgets() error {
	for _, id := range slices.Sorted(maps.Keys(r.req.SubTaskBudgets)) {
		if r.state.SubTask(id) == nil {
			return fmt.Errorf("%w: the plan has no sub-task %q to give a budget to", boulder.ErrFatal, id)
		}
		if err := r.apply(boulder.BudgetSet{SubTaskID: id, Budget: r.req.SubTaskBudgets[id]}); err != nil {
			return err
		}
	}
	return nil
}
