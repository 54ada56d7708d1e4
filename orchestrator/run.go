package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator/internal/schedule"
)

// run is one boulder being run. All fields belong to the loop goroutine; others reach it only through the inbox.
type run struct {
	o            *Orchestrator
	req          Request
	state        *boulder.State
	yield        func(boulder.Event, error) bool
	consumerGone bool

	ctx   context.Context // of the caller
	inbox Inbox           // of message, order and woken; closed when another run may take the boulder

	work            map[workKey]context.CancelCauseFunc // cancels launched work that has not ended
	slots           map[boulder.AttemptRef]string       // held slots, with their models
	shared          sync.Map                            // [boulder.SubTask.Shared] by sub-task, for workers
	raised          sync.Map                            // [boulder.SubTask.Blockers] by sub-task, for workers
	interrupted     map[boulder.AttemptRef]bool         // interrupted here or in an earlier process
	acks            []Inbox                             // of reports and orders that are applied but not stored
	integrates      *boulder.Integrating                // what is, or was last, being integrated here, and the slots that its results are from
	integratesSlots []int
	verified        int               // attempts begun when all gates had rerun; -1 before
	todo            []schedule.Action // the work that should be under way once all is stored
	wake            time.Time
	now             time.Time // time of this loop turn, without a monotonic reading, which would stop while the machine sleeps
	clockRead       time.Time // the clock reading of this loop turn, with its monotonic part
	grace           time.Time // when running turns are aborted after a stop; zero: no stop
	waitsFor        string    // the parked sub-task for which the run ends
	decidedToStop   bool      // the scheduler ended the run
	limitsShared    bool      // other boulders have shared the limits
	looked          bool      // a look has begun, here or in an earlier process
	ended           error     // why the run ends before the boulder does
	aborted         error     // why all work was cancelled
	storeErr        error     // the Store's error: the state is ahead of the disk, and nothing more is written
}

func newRun(ctx context.Context, o *Orchestrator, req Request, yield func(boulder.Event, error) bool) *run {
	return &run{
		o: o, req: req, verified: -1, state: boulder.NewState(), yield: yield, ctx: ctx, inbox: o.cfg.Coroutines.NewInbox(),
		work: map[workKey]context.CancelCauseFunc{}, slots: map[boulder.AttemptRef]string{},
		interrupted: map[boulder.AttemptRef]bool{},
	}
}

// drive yields the error that ended the run after all workers have ended. They end too if the consumer's loop body
// panics or ends its goroutine.
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
	if err != nil && !r.consumerGone {
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
				r.release(item.from)
				ended = append(ended, item.from.attempt)
			} else {
				item.ack.Put(errRunOver)
			}
		case order:
			orders = append(orders, item)
		}
	}
	for _, o := range orders { // [Orchestrator.leave] answers them
		r.inbox.Put(o)
	}
	if len(r.state.Boulder.LeftSessions) == 0 || r.storeErr != nil {
		return
	}
	// The workers of attempts that an order ended have returned, so their agents have stopped.
	ctx := context.WithoutCancel(r.ctx)
	s, err := r.o.cfg.Store.Load(ctx, r.state.Boulder.ID)
	if err == nil {
		err = applyTo(s, r.o.cfg.Now().UTC(), stopped(s, ended...)...)
	}
	if err == nil {
		err = commitEvents(ctx, r.o.cfg.Store, s)
	}
	if err != nil { // the next run stops them again
		r.o.cfg.Logger.Warn("it is not stored that agents have stopped", "boulder", r.state.Boulder.ID, "error", err)
	}
}

// stopped returns the events that say that the left sessions of these attempts have stopped.
func stopped(s *boulder.State, attempts ...boulder.AttemptRef) (bodies []boulder.Body) {
	for _, left := range s.Boulder.LeftSessions {
		if slices.Contains(attempts, left.AttemptRef) {
			bodies = append(bodies, boulder.SessionLeft{LeftSession: left, Stopped: true})
		}
	}
	return bodies
}

var errRunOver = errors.New("the run is over")

// begin creates the boulder, with its sub-tasks if it has a plan.
func (r *run) begin() error {
	head := boulder.Boulder{ID: r.o.cfg.NewID(), Task: r.req.Task, Project: r.o.cfg.Project, Settings: r.req.Settings}
	_, tries := r.o.cfg.Runner.(Trier)
	head.Trunk = boulder.Trunk{
		Base: r.req.SlotBase, Tip: r.req.SlotBase, Trial: tries && r.req.SlotBase != "", InPlace: r.req.InPlace,
	}
	given := Approval{Plan: r.req.Plan, Gates: !r.req.GatesAsHints}
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
	if given.Plan == nil && strings.TrimSpace(head.Task) == "" {
		return errors.New("there is no task: say what to do")
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
	if err := r.propose(given.Plan, nil); err != nil || head.AskPlan && r.req.Fork == nil {
		return err
	}
	if err := r.adopt(given, results); err != nil || r.req.Fork == nil || r.req.Note == "" {
		return err
	}
	for _, id := range r.req.Fork.SubTasks {
		if err := r.apply(boulder.Noted{SubTaskID: id, Text: r.req.Note}); err != nil {
			return err
		}
	}
	return nil
}

// resume continues a stored boulder, with the budgets of the request.
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
		return fmt.Errorf("boulder %s is %s: %w", boulder.ShortID(id), b.Status, boulder.ErrFinished)
	case b.Project != r.o.cfg.Project:
		return fmt.Errorf("boulder %s works on %s, not on %s: run resume there, or with -C", boulder.ShortID(id), b.Project, r.o.cfg.Project)
	}
	if plan := r.req.Plan; plan != nil {
		agreed := Approval{Plan: plan, Gates: r.req.GatesApproved, Model: r.req.Model}
		r.req.Approve = func(context.Context, *boulder.Plan) (Approval, error) { return agreed, nil }
	}
	r.state, r.req.GatesApproved, r.looked = stored, false, b.Look != nil
	for _, o := range r.state.Live() {
		r.interrupted[o.Attempt.AttemptRef] = true
	}
	if err := r.tick(); err != nil {
		return err
	}
	bodies := []boulder.Body{boulder.Resumed{
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
	if err := r.apply(schedule.LiftLongLimits(r.state, r.o.limits, r.now)...); err != nil {
		return err
	}
	if len(r.state.SubTasks) > 0 {
		if err := r.setBudgets(); err != nil {
			return fmt.Errorf("resume: %w", err)
		}
	}
	return r.unparkAffordable()
}

// unparkAffordable continues parked sub-tasks unless they need a larger budget, more turns, an answer, or a program
// that is still missing: the next turn would end at the same gate.
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
