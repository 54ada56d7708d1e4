package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/command"
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

	approve       Approve // nil: a plan is adopted, and its gates run if gates says so
	gates         bool
	approveReplan ApproveReplan
	budgets       map[string]boulder.Budget // of sub-tasks, to be set when they are there

	work     map[boulder.AttemptRef]context.CancelCauseFunc // that was launched and has not handed in its end
	slots    map[boulder.AttemptRef]string                  // that attempts hold, with their models
	shared   sync.Map                                       // by sub-task: [boulder.SubTask.Shared], for workers
	leftover map[boulder.AttemptRef]bool                    // of work: its attempt was ended by an order
	restored map[boulder.AttemptRef]bool                    // attempts whose work was broken off, here or in an earlier process
	acks     []chan<- error                                 // of reports that are applied but not yet stored
	verified int                                            // attempts that had begun when all gates had run once more; -1 before
	todo     []schedule.Action                              // decided: the work that should be under way when all is stored
	wake     time.Time
	looked   time.Time // at the clock, with the newest event
	stopping bool
	grace    <-chan time.Time // ends the patience with running turns after a stop
	waitsFor string           // the parked sub-task for which the run ends
	ended    error            // why the run ends before the boulder does
	broken   error            // what the store failed with: the state is ahead of the disk, nothing more is written
}

func newRun(ctx context.Context, o *Orchestrator, yield func(boulder.Event, error) bool) *run {
	r := &run{
		o: o, verified: -1, state: boulder.NewState(), yield: yield, ctx: ctx, msgs: make(chan message, 64),
		orders: make(chan order), nudge: make(chan struct{}, 1), done: make(chan struct{}), over: make(chan struct{}),
		work: map[boulder.AttemptRef]context.CancelCauseFunc{}, slots: map[boulder.AttemptRef]string{},
		leftover: map[boulder.AttemptRef]bool{}, restored: map[boulder.AttemptRef]bool{},
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
	if len(r.leftover) == 0 || r.broken != nil {
		return
	}
	if err := r.noteStopped(context.WithoutCancel(r.ctx)); err != nil { // the next run stops them once more
		r.o.cfg.Logger.Warn("it is not stored that agents have stopped", "boulder", r.state.Boulder.ID, "error", err)
	}
}

// noteStopped stores that the agents of attempts that an order ended have stopped: their workers have ended.
func (r *run) noteStopped(ctx context.Context) error {
	s, err := r.o.cfg.Store.Load(ctx, r.state.Boulder.ID)
	if err != nil {
		return err
	}
	for _, left := range s.Boulder.Left {
		if r.leftover[left.AttemptRef] {
			stopped := boulder.SessionLeft{AttemptRef: left.AttemptRef, SessionID: left.SessionID, Stopped: true}
			if err := applyTo(s, r.now(), stopped); err != nil {
				return err
			}
		}
	}
	return commitEvents(ctx, r.o.cfg.Store, s)
}

var errRunOver = errors.New("the run is over")

// begin creates the boulder, plans it if it has no plan, and runs it.
func (r *run) begin(req Request) error {
	r.approve, r.gates, r.approveReplan, r.budgets = req.Approve, req.GatesApproved, req.ApproveReplan, req.SubTaskBudgets
	if req.Fork != nil {
		return r.beginFork(req)
	}
	if err := r.create(r.head(req)); err != nil {
		return err
	}
	if req.Plan != nil {
		if err := r.propose(req.Plan); err != nil {
			return err
		}
		if err := r.adopt(Approval{Plan: req.Plan, Gates: req.GatesApproved}, nil); err != nil {
			return err
		}
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
		Gates: req.Gates, NoWorse: req.NoWorse, AskReplans: req.AskReplans, Diverted: req.Diverted,
		DoneWhen: req.DoneWhen, Checks: req.Checks, Loop: req.Loop,
	}
}

func (r *run) create(head boulder.Boulder) error {
	if err := r.o.enter(head.ID, r); err != nil {
		return err
	}
	_, err := r.state.Apply(boulder.Event{Time: r.now(), BoulderID: head.ID, Body: boulder.Created{Boulder: head}})
	return err
}

// resume takes a stored boulder up where it was.
func (r *run) resume(id string, req Request) error {
	if err := r.o.enter(id, r); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	stored, err := r.o.cfg.Store.Load(r.ctx, id)
	if err == nil {
		err = r.o.stopLeft(r.ctx, stored)
	}
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	if stored.Boulder.Status.Terminal() {
		return fmt.Errorf("boulder %s is %s: %w", id, stored.Boulder.Status, ErrFinished)
	}
	if stored.Boulder.Project != r.o.cfg.Project {
		return fmt.Errorf("boulder %s works on %s, not on %s: run resume there, or with -C",
			id, stored.Boulder.Project, r.o.cfg.Project)
	}
	r.state = stored
	for _, o := range r.state.Live() {
		r.restored[o.Attempt.AttemptRef] = true
	}
	r.approve, r.approveReplan = req.Approve, req.ApproveReplan
	if r.approveReplan == nil && r.state.Boulder.AskReplans {
		r.approveReplan = nobodyToAsk
	}
	if err := r.takeUp(req); err != nil {
		return err
	}
	return r.loop()
}

// nobodyToAsk is for a boulder whose replans a person wants to see, where there is none: in a server.
func nobodyToAsk(context.Context, ReplanProposal) (bool, error) {
	return false, fmt.Errorf("%w: a new plan has to be approved (--approve-replans), and nobody is here to ask: go on with"+
		" `manager resume` on a terminal, without a server", ErrWaiting)
}

// takeUp brings a stored boulder to where it goes on, with the budgets that it may have got.
func (r *run) takeUp(req Request) error {
	if err := r.apply(boulder.TakenUp{LedgerModel: req.LedgerModel, Diverted: req.Diverted, Iterations: req.Iterations}); err != nil {
		return err
	}
	if s := r.state.Boulder.Status; s == boulder.Paused || s == boulder.Synthesizing {
		if err := r.apply(resumed(r.state)); err != nil {
			return err
		}
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

// unparkAffordable lets sub-tasks go on that wait for a person, unless it is for a larger budget, more turns, an answer, or a
// program that is still not there: an agent's turn would end at the same gate.
func (r *run) unparkAffordable() error {
	for _, t := range r.state.SubTasks {
		if !t.Parked || command.Missing(r.ctx, r.state.Boulder.Project, nil, t.Program) != "" {
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
