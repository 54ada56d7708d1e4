// Package orchestrator runs boulders: it is the embedding API of manager, and the one loop that everything passes
// through.
//
// A run is a straight line: plan, then again and again: ask [schedule.Compute] what to do, write the decisions as one
// transaction, act. One goroutine owns the state; the workers that run and judge turns send it messages. Planning, judging,
// running and storing are behind four small interfaces, each of which an embedder can replace.
package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/internal/schedule"
)

// Limits bounds what runs at once and how often something is tried. Start from [DefaultLimits].
type Limits = schedule.Limits

// ModelLimit is a limit for the models that a pattern matches.
type ModelLimit = schedule.ModelLimit

// DefaultLimits returns the documented defaults.
func DefaultLimits() Limits { return schedule.DefaultLimits() }

// Config is what an Orchestrator works with. Project, Store, Judge and Runner are required; Planner is, to run a task
// that has no plan.
type Config struct {
	// Project is the directory that the sub-tasks work on.
	Project string
	Planner Planner
	Judge   Judge
	Runner  Runner
	Store   Store

	// Limits defaults to [DefaultLimits].
	Limits *Limits
	// Diversion is how the agents of a boulder report what only the user can answer. It is asked whenever a brief is
	// written; zero: they cannot now. Defaults to that.
	Diversion func(b boulder.Boulder) boulder.Diversion
	// RaiseBlocker records a hard blocker that the verdict on a turn calls for, and returns it with its id. It is called
	// again for the same turn after a crash, and gives the same one then. Without it, or with its error, the sub-task is
	// parked for the judge's words alone, and the next resume tries it again.
	RaiseBlocker func(ctx context.Context, b boulder.Blocker, turn int) (boulder.Blocker, error)
	// StopGrace is how long running turns may take to end after [Orchestrator.Stop]; then they are aborted. Defaults to
	// 10 minutes.
	StopGrace time.Duration
	// Logger defaults to none.
	Logger *slog.Logger
	// Now defaults to time.Now.
	Now func() time.Time
	// NewID makes the id of a boulder. Defaults to a ULID in lower case.
	NewID func() string
	// Coroutines is what runs run on. Defaults to goroutines.
	Coroutines Coroutines
	// Lacks reports whether the first word of a command is a program that is not there. Defaults to asking the shell.
	Lacks func(ctx context.Context, project, command string) bool
}

// Orchestrator plans, runs and resumes boulders. Its methods may be called from any goroutine, also to run several
// boulders at the same time: these share the limits, and the one that has waited longer for a slot goes first. A boulder
// may be run by one of them only.
type Orchestrator struct {
	cfg    Config
	limits Limits
	local  bool            // it runs boulders here, and none of another engine
	stop   context.Context // done when Stop was called
	cancel context.CancelFunc
	runs   runs
}

// New checks the configuration and fills in the defaults.
func New(cfg Config) (*Orchestrator, error) {
	switch {
	case cfg.Project == "":
		return nil, errors.New("orchestrator: Config.Project is empty")
	case cfg.Store == nil:
		return nil, errors.New("orchestrator: Config.Store is nil")
	case cfg.Judge == nil:
		return nil, errors.New("orchestrator: Config.Judge is nil")
	case cfg.Runner == nil:
		return nil, errors.New("orchestrator: Config.Runner is nil")
	}
	project, err := filepath.Abs(cfg.Project)
	if err != nil {
		return nil, fmt.Errorf("orchestrator: project %s: %w", cfg.Project, err)
	}
	cfg.Project = project
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	cfg.StopGrace = cmp.Or(cfg.StopGrace, 10*time.Minute)
	if cfg.Diversion == nil {
		cfg.Diversion = func(boulder.Boulder) boulder.Diversion { return boulder.Diversion{} }
	}
	if cfg.RaiseBlocker == nil {
		cfg.RaiseBlocker = func(context.Context, boulder.Blocker, int) (boulder.Blocker, error) {
			return boulder.Blocker{}, errors.New("nothing records blockers here")
		}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.NewID == nil {
		cfg.NewID = func() string { return strings.ToLower(ulid.Make().String()) }
	}
	local := cfg.Coroutines == nil
	if local {
		cfg.Coroutines = goroutines{}
	}
	if cfg.Lacks == nil {
		cfg.Lacks = func(ctx context.Context, project, line string) bool {
			return command.Missing(ctx, project, nil, line) != ""
		}
	}
	o := &Orchestrator{cfg: cfg, local: local, limits: *cmp.Or(cfg.Limits, new(DefaultLimits()))}
	o.runs.byID, o.runs.shares = map[string]*run{}, map[*run]schedule.Share{}
	o.runs.left = map[string]boulder.Cooldown{}
	o.stop, o.cancel = context.WithCancel(context.Background())
	if cfg.Planner == nil {
		o.limits.Replans = 0
	}
	if err := o.limits.Validate(); err != nil {
		return nil, fmt.Errorf("orchestrator: Config.Limits: %w", err)
	}
	return o, nil
}

// Request is what to run: with Resume a boulder to continue, else a new one. Of that either Plan is given, or Fork, or the
// Planner makes a plan from Task. As JSON it is handed to another process, which cannot ask the user.
type Request struct {
	// Resume is the id of a boulder that goes on after a crash, a stop or a fatal fault; what is finished is not done
	// again. Then Approve, ApproveReplan and ReplanGates count and, where they are not empty, LedgerModel, Diverted,
	// Iterations, Budget and SubTaskBudgets, from now on. Plan, GatesApproved and Model are then what the user agreed
	// to in another process, if the plan waits for that.
	Resume string

	Task string
	// Plan is run exactly as it is written.
	Plan *boulder.Plan
	// Fork runs the plan of another boulder of this project again, from a sub-task on: that one, what depends on it and
	// what was not completed is done again; the rest is taken over with its outputs. The files of the project stay as they
	// are. Task, Constraints, PlanMode and Plan do not count then; DoneWhen, Checks and Loop are those of the original, as is a
	// Model that is empty. An error wraps [ErrNoFork] or [boulder.ErrNotFound], and no boulder is made.
	Fork *boulder.Fork

	// SlotBase is the commit at which slots begin. Where it is set the boulder is isolated, for which the Runner has to be an
	// [Integrator]; if it is a [Trier] the gates are tried first, and with [boulder.IsolationAuto] it may turn out otherwise.
	SlotBase string
	InPlace  string // why there are no slots although they were asked for

	boulder.Settings     // recorded as they are
	Iterations       int // of a loop that is resumed: its bound

	// SubTaskBudgets replaces those that the plan gives to sub-tasks, by id. A run whose plan has no such sub-task ends
	// before it begins. A sub-task that was parked because its budget was used up goes on if the new one leaves something.
	SubTaskBudgets map[string]boulder.Budget
	// Approve is shown a plan that the Planner made. Defaults to going ahead, with its gates as GatesApproved says.
	Approve Approve `json:"-"`
	// GatesApproved lets the gates of a given Plan run, and those of a made one without Approve. It is not stored:
	// after a crash before the plan is adopted, a Resume without an Approve does not run them.
	GatesApproved bool
	// ApproveReplan is asked about every replan of a boulder with AskReplans. Nil: the run ends with [ErrWaiting] at the first.
	ApproveReplan ApproveReplan `json:"-"`
	ReplanGates   bool          // gates of replans that nobody is asked about may run. It is not stored
}

// ApproveReplan asks the user about a replan, which is stored. [ErrDeclined] refuses it: the sub-task fails. Any other
// error leaves it open, ends the run and is its error; a resume asks about it again, unless an order has answered.
// gates says whether the gates that the model wrote may run. ctx is done when the run is to end, also after
// [Orchestrator.Stop].
type ApproveReplan func(ctx context.Context, p ReplanProposal) (gates bool, err error)

// ReplanProposal is a replan as the user sees it, before it is adopted.
type ReplanProposal struct {
	Number              int               // of the replan within the run, from 1
	Reason              string            // why
	Replaced            []boulder.SubTask // what it does away with, in plan order
	boulder.Replacement                   // what comes instead
}

// Approve asks the user about a plan; the plan is a copy of its own. [ErrDeclined] cancels the boulder; any other error
// pauses it, and a resume asks again. ctx is done when the run is to end, also after [Orchestrator.Stop].
type Approve func(ctx context.Context, plan *boulder.Plan) (Approval, error)

// Approval is the go-ahead for a plan.
type Approval struct {
	Plan  *boulder.Plan // to run, changed or not
	Gates bool          // its gates may run
	// Model is used for sub-tasks for which neither they nor the plan name one. Defaults to [Request].Model.
	Model string
}

var (
	// ErrDeclined is returned by an [Approve] that said no, and by the run that asked.
	ErrDeclined = errors.New("the plan was declined")
	// ErrStopped ends a run that [Orchestrator.Stop] asked to stop: the boulder is paused and can be resumed.
	ErrStopped = errors.New("stopped")
	// ErrCancelled ends a run whose boulder the user cancelled ([Orchestrator.Order]).
	ErrCancelled = errors.New("cancelled by the user")
	// ErrWaiting ends a run that cannot go on without the user: a budget is used up, everything that is left waits for an
	// answer, or the judge cannot be used (then it is a [boulder.ErrFatal] as well). The boulder is paused and can be resumed.
	ErrWaiting = errors.New("waiting for the user")
	// ErrLoopLimit is an ErrWaiting of a loop that has had all its turns: it goes on when it gets more
	// ([Request].Iterations).
	ErrLoopLimit = fmt.Errorf("%w", ErrWaiting)
	// ErrUnstartable refuses a plan with a sub-task whose model, or its provider, has a limit of 0. It is an
	// [boulder.ErrFatal].
	ErrUnstartable = fmt.Errorf("%w: the plan has sub-tasks that could never start", boulder.ErrFatal)
)

// BudgetError is in the chain of an [ErrWaiting] for a budget that is used up.
type BudgetError struct {
	SubTaskID string // whose budget it is; empty: the run's
	Reason    string
}

func (e *BudgetError) Error() string { return e.Reason }

// Plan makes a plan without running it, and seals it with the commit base that the project is at.
func (o *Orchestrator) Plan(
	ctx context.Context, req boulder.PlanRequest, base string,
) (*boulder.Plan, boulder.Usage, error) {
	if o.cfg.Planner == nil {
		return nil, boulder.Usage{}, errors.New("orchestrator: Config.Planner is nil")
	}
	req.Project = cmp.Or(req.Project, o.cfg.Project)
	plan, usage, err := o.cfg.Planner.Plan(ctx, req)
	if err != nil {
		return nil, usage, fmt.Errorf("plan: %w", err)
	}
	if plan == nil {
		return nil, usage, errors.New("plan: the planner returned neither a plan nor an error")
	}
	if plan.Seal != nil {
		plan.Seal.Base = base
	}
	return plan, usage, nil
}

// Run runs a request to its end, on the caller's goroutine, while the caller ranges over its events. Each event is on
// disk before it is yielded. The last one of a run that came to an end is a [boulder.TaskComplete]; a run that did not
// yields an error last: [ErrStopped], [ErrDeclined], [ErrWaiting], an error that wraps [boulder.ErrFatal], what a
// cancelled ctx gives, or what the Store failed with. In every case the boulder can be resumed unless it is over.
//
// Cancelling ctx aborts the turns that are running; [Orchestrator.Stop] lets them end. Breaking out of the loop is the
// same as cancelling ctx. When the loop ends, however it does, all work has ended.
func (o *Orchestrator) Run(ctx context.Context, req Request) iter.Seq2[boulder.Event, error] {
	return func(yield func(boulder.Event, error) bool) { newRun(ctx, o, req, yield).drive() }
}

// Stop asks all runs of this Orchestrator to end at the next boundary: no new turn is started, those that run may end,
// their evidence is stored; planning is cut short. It returns at once, may be called more than once, and cannot be
// taken back.
func (o *Orchestrator) Stop() {
	o.cancel()
	o.runs.mu.Lock()
	defer o.runs.mu.Unlock()
	o.runs.wake(nil)
}

// encodedLimits are the limits as the log has them, so that its decisions can be made again.
func (o *Orchestrator) encodedLimits() json.RawMessage {
	b, err := json.Marshal(o.limits)
	if err != nil {
		panic(err) // numbers always marshal
	}
	return b
}
