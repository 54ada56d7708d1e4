// Package orchestrator is the embedding API of manager: it plans, runs and resumes boulders.
//
// A run makes a plan and then repeats: ask [schedule.Compute] what to do, write the decisions as one transaction, act.
// One goroutine owns the state; the workers that run and judge turns send it messages. An embedder can replace
// planning, judging, running and storing, which are four small interfaces.
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
	"github.com/bouldermgr/manager/orchestrator/internal/schedule"
)

// Limits bounds concurrency and retries. Start from [DefaultLimits].
type Limits = schedule.Limits

// ModelLimit is a limit for the models that a pattern matches.
type ModelLimit = schedule.ModelLimit

// DefaultLimits returns the documented defaults.
func DefaultLimits() Limits { return schedule.DefaultLimits() }

// WaitingAttempt is an attempt that waits for a slot.
type WaitingAttempt = schedule.WaitingAttempt

// Waiting lists the attempts of a boulder that wait for a slot, the soonest of each model first. held are the slots that
// other boulders under the same limits hold, by their id and by model.
func Waiting(s *boulder.State, l Limits, now time.Time, held map[string]map[string]int) []WaitingAttempt {
	others := map[string]schedule.Share{}
	for id, models := range held {
		others[id] = schedule.Share{Held: models}
	}
	return schedule.Waiting(s, l, now, others)
}

// ModelUse is a model in use, or in a list of one, and what is known of it.
type ModelUse = schedule.ModelUse

// ModelUses lists the models that a boulder uses, or would use.
func ModelUses(s *boulder.State, now time.Time) []ModelUse { return schedule.ModelUses(s, now) }

// Config configures an Orchestrator. Required are Project, Store, Judge, Runner and, for tasks without a plan, Planner.
type Config struct {
	Project string // the directory that the sub-tasks work on
	Planner Planner
	Judge   Judge
	Runner  Runner
	Store   Store

	Limits *Limits // defaults to [DefaultLimits]
	// Diversion says how agents report what only the user can answer; zero, the default: they cannot. It is called for
	// every brief and continuation.
	Diversion func(b boulder.Boulder) boulder.Diversion
	// BlockerID makes the id of a boulder's nth blocker, from 1. Defaults to B and n, which is unique in the boulder only.
	BlockerID func(nth int) string
	// StopGrace bounds how long turns take to end after [Orchestrator.Stop], before an abort. Defaults to 10 minutes.
	StopGrace  time.Duration
	Logger     *slog.Logger     // defaults to none
	Now        func() time.Time // defaults to time.Now
	NewID      func() string    // makes the id of a boulder; defaults to a ULID in lower case
	Coroutines Coroutines       // what runs run on; defaults to goroutines
	// Lacks reports whether the program that a command begins with is missing. Defaults to asking the shell.
	Lacks func(ctx context.Context, project, command string) bool
}

// Orchestrator plans, runs and resumes boulders. Its methods may be called from any goroutine. Boulders that run at the
// same time share the limits: the one that has waited longer for a slot goes first. No other Orchestrator may run them.
type Orchestrator struct {
	cfg    Config
	limits Limits
	local  bool            // runs boulders in this process, not on another engine
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
	if cfg.BlockerID == nil {
		cfg.BlockerID = func(nth int) string { return fmt.Sprint("B", nth) }
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
		o.limits.Replans, o.limits.Extensions, o.limits.LookTime = 0, 0, 0
	}
	_, checks := cfg.Judge.(Checker)
	o.limits.Unchecked = !checks
	if _, looks := cfg.Runner.(Looker); !looks {
		o.limits.LookTime = 0
	}
	if err := o.limits.Validate(); err != nil {
		return nil, fmt.Errorf("orchestrator: Config.Limits: %w", err)
	}
	return o, nil
}

// Request is what to run: the boulder that Resume names, or a new one with the plan of Plan or Fork, or else one that
// the Planner makes from Task. As JSON it goes to another process, which cannot ask the user.
type Request struct {
	// Resume is the id of a boulder to continue after a crash, a stop or a fatal fault; finished work is not repeated.
	// Ask, Approve, ApproveReplan and ReplanGates apply, and where set LedgerModel, Diverted, Iterations, Budget and
	// SubTaskBudgets from now on. Plan, GatesApproved and Model are what the user approved in another process, if the plan
	// awaits approval.
	Resume string

	Task string
	Plan *boulder.Plan // run as written
	// Fork reruns the plan of another boulder of this project: some sub-tasks, what depends on them, and what was not
	// completed. Other results are taken over, and files stay as they are. Plan, if set, is that plan with the user's edits
	// of the sub-tasks that are redone. Task, Constraints and PlanMode are ignored; DoneWhen, Checks, Loop and a missing
	// Model come from the original. If no fork is possible, the error wraps [ErrNoFork] or [boulder.ErrNotFound], and no
	// boulder is created.
	Fork *boulder.Fork
	Note string // of the user, for each of the sub-tasks that Fork names

	// SlotBase is the commit at which slots begin. If set, the boulder is isolated and the Runner must be an [Integrator].
	// A [Trier] tries the gates first, after which a boulder with [boulder.IsolationAuto] may work in place.
	SlotBase string
	InPlace  string // why there are no slots although they were requested

	boulder.Settings     // recorded as given
	Iterations       int // new bound of a resumed loop

	// SubTaskBudgets replaces budgets of the plan's sub-tasks, by id; an unknown id ends the run before it starts. A
	// sub-task that was parked for its budget continues if the new one leaves something.
	SubTaskBudgets map[string]boulder.Budget
	// Ask asks the user what the Planner asks. If nil, the Planner's defaults are taken, and each is a soft blocker, which the
	// user may answer later.
	Ask Ask `json:"-"`
	// Approve is shown a plan that the Planner made. If nil, the plan is adopted with its gates as GatesApproved says, or,
	// with AskPlan, the run ends with [ErrWaiting].
	Approve Approve `json:"-"`
	// AskInPlace asks the user whether sub-tasks that could be at work at once may share the project's files, since slots lack
	// something. An error ends the run; a resume asks again. If nil, they do.
	AskInPlace func(ctx context.Context, reason string) error `json:"-"`
	// GatesAsHints keeps the gates of a given Plan from running: agents are told of them. Otherwise who hands a plan over has
	// approved them.
	GatesAsHints bool
	// GatesApproved lets the gates of a made plan run if Approve is nil, and those of a plan that the user approved in another
	// process, see Resume. It is not stored: after a crash before the plan is adopted, a Resume without Approve does not run
	// them.
	GatesApproved bool
	// ApproveReplan is asked about every replan if AskReplans is set. If nil, the run ends with [ErrWaiting] at the first.
	ApproveReplan ApproveReplan `json:"-"`
	ReplanGates   bool          // lets the gates of replans that need no approval run; not stored
}

// ApproveReplan asks the user about a stored replan. gates says whether the gates that the model wrote may run.
// [ErrDeclined] refuses the replan: the sub-task fails; a [ReviseError] has it revised. Any other error ends the run and is its error; a resume asks
// again, unless an order has answered. ctx is done when the run is to end, also after [Orchestrator.Stop].
type ApproveReplan func(ctx context.Context, p ReplanProposal) (gates bool, err error)

// ReplanProposal is a replan as shown to the user before it is adopted.
type ReplanProposal struct {
	Number              int // of the replan within the run, from 1
	Reason              string
	Missing             []string             // of the request: an extension, which only adds, with a number of its own
	Replaced            []boulder.SubTask    // sub-tasks that it removes, in plan order
	boulder.Replacement                      // what takes their place
	Was                 *boulder.Replacement // the proposal that the user had revised; nil: none
}

// Approve asks the user about a plan, which it may change: it gets a copy. [ErrDeclined] cancels the boulder; a
// [ReviseError] has the plan revised, and then asks again; any other
// error pauses it, and a resume asks again. ctx is done when the run is to end, also after [Orchestrator.Stop].
type Approve func(ctx context.Context, plan *boulder.Plan) (Approval, error)

// Approval is the user's consent to a plan.
type Approval struct {
	Plan  *boulder.Plan // to run, edited or not
	Gates bool          // its gates may run
	// Model is used for sub-tasks for which neither they nor the plan name one. Defaults to [Request].Model.
	Model boulder.Models
}

var (
	// ErrDeclined is what an [Approve] returns if the user refuses, and then the error of the run.
	ErrDeclined = errors.New("the plan was declined")
	// ErrStopped ends a run after [Orchestrator.Stop]: the boulder is paused and can be resumed.
	ErrStopped = errors.New("stopped")
	// ErrCancelled ends a run if the user cancels the boulder ([Orchestrator.Order]).
	ErrCancelled = errors.New("cancelled by the user")
	// ErrWaiting ends a run that cannot continue without the user: a budget is used up, what is left waits for an answer,
	// or the judge cannot be used (then also a [boulder.ErrFatal]). The boulder is paused and can be resumed.
	ErrWaiting = errors.New("waiting for the user")
	// ErrLoopLimit is the ErrWaiting of a loop that has had all its turns ([Request].Iterations).
	ErrLoopLimit = fmt.Errorf("%w", ErrWaiting)
	// ErrUnplanned is the ErrWaiting of a plan with [boulder.OriginFallback] about which the user cannot be asked.
	ErrUnplanned = fmt.Errorf("%w: the model gave no usable plan, so the whole task is one sub-task, which does not run"+
		" unasked: `manager resume` on a terminal asks about it; or cancel it, and plan with another --ledger-model", ErrWaiting)
	// ErrUnowned is the ErrWaiting of a plan that leaves out a part of the task ([boulder.Plan.Unowned]), about which the
	// user cannot be asked.
	ErrUnowned = fmt.Errorf("%w: the plan leaves out what the task asks for", ErrWaiting)
	// ErrUnstartable refuses a plan with a sub-task whose model or provider has a limit of 0: a [boulder.ErrFatal].
	ErrUnstartable = fmt.Errorf("%w: the plan has sub-tasks that could never start", boulder.ErrFatal)
)

// ReviseError is the answer of a user who wants another plan.
type ReviseError struct {
	Comment string        // what should be different
	Plan    *boulder.Plan // the present plan with the user's edits; nil: as it was shown
}

func (e *ReviseError) Error() string { return "the plan is to be revised: " + e.Comment }

// BudgetError is in the chain of an [ErrWaiting] for a used-up budget.
type BudgetError struct {
	SubTaskID string // owner of the budget; empty: the run
	Reason    string
}

func (e *BudgetError) Error() string { return e.Reason }

// Plan makes a plan without running it, and seals it with base, the project's current commit.
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

// Run runs a request to its end on the caller's goroutine, while the caller ranges over its events. Each event is on
// disk before it is yielded. A completed run yields a [boulder.TaskComplete] last; any other yields an error last:
// [ErrStopped], [ErrDeclined], [ErrCancelled], [ErrWaiting], one that wraps [boulder.ErrFatal], the cause of a
// cancelled ctx, or that of the Store. The boulder can then be resumed unless it is over.
//
// Cancelling ctx, or breaking out of the loop, aborts running turns; [Orchestrator.Stop] lets them end. All work has
// ended when the iteration ends.
func (o *Orchestrator) Run(ctx context.Context, req Request) iter.Seq2[boulder.Event, error] {
	return func(yield func(boulder.Event, error) bool) { newRun(ctx, o, req, yield).drive() }
}

// Stop asks all runs to end at the next boundary: planning is aborted, no turn is started, running turns end and their
// evidence is stored. It returns at once, may be called again, and cannot be undone.
func (o *Orchestrator) Stop() {
	o.cancel()
	o.runs.mu.Lock()
	defer o.runs.mu.Unlock()
	o.runs.wake(nil)
}

// encodedLimits returns the limits as the log records them, so that decisions can be replayed.
func (o *Orchestrator) encodedLimits() json.RawMessage {
	b, err := json.Marshal(o.limits)
	if err != nil {
		panic(err) // numbers always marshal
	}
	return b
}
