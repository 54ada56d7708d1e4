package orchestrator

import (
	"context"

	"github.com/bouldermgr/manager/boulder"
)

// Planner is the Task Ledger. Its methods may block for minutes and honour ctx. Their usage is valid with an error too. They
// ask the model that the request names, which is another one of [boulder.Settings].LedgerModel after an error that wraps
// [boulder.ErrNoCredit], [boulder.ErrKey] or [boulder.ErrUnknownModel], or a limit that lasts.
type Planner interface {
	// Plan returns a valid plan with a seal that lacks only the base commit. If a model's answers are unusable, the plan
	// has [boulder.OriginFallback]. An error means that no model could be asked; it wraps [boulder.ErrFatal] if a retry
	// cannot help.
	Plan(ctx context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error)
	// Replan replans what remains of a plan, or adds what is Missing of the request. It may be called again for the same
	// replan after a crash or [boulder.ErrTrouble], or with what a look found that answers its Questions. The new sub-tasks are valid together with the done and the kept ones.
	// An error wraps [boulder.ErrTrouble] or [boulder.ErrFatal] if no model could be asked; any other counts as
	// [boulder.ErrNoNewPlan]: nothing new came.
	Replan(ctx context.Context, req boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error)
}

// Preparer is a [Planner] that can be told what a look at the project found before it splits a task.
type Preparer interface {
	// Prepare returns what is known of the task, and what a look should find out first, by req.Look. Plan gets Known again,
	// with what was found. Otherwise the contract is that of [Planner.Plan].
	Prepare(ctx context.Context, req boulder.PlanRequest) (boulder.Prepared, boulder.Usage, error)
}

// Judge is the Progress Ledger: it says whether an ended turn completed its sub-task. It asks the model that the request
// names, as a [Planner] does.
type Judge interface {
	// Judge returns a normalised verdict. It may block for minutes and honours ctx; it may be called again for the same
	// turn after a crash or [boulder.ErrTrouble]. If the verdict had to be made without a usable answer, it says
	// JudgeUnavailable. An error wraps [boulder.ErrFatal] or [boulder.ErrTrouble]; any other ends the attempt. The usage
	// is valid with an error too.
	Judge(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error)
}

// Checker is a [Judge] that also says whether the whole request is met, once all sub-tasks are done. With any other, a
// boulder is completed when they are.
type Checker interface {
	// Check returns a normalised answer: everything that is not shown to be met is missing. If it had to be made without a
	// usable answer of a model, it says Unchecked. An error that wraps [boulder.ErrTrouble] has it asked again later; any
	// other pauses the run. Otherwise the contract is that of [Judge.Judge].
	Check(ctx context.Context, req boulder.CheckRequest) (boulder.RequestCheck, boulder.Usage, error)
}

// Runner runs turns of attempts in sessions. Turns of different attempts run concurrently, those of one attempt never.
type Runner interface {
	// Run runs one turn to its end, blocking until then, and returns the evidence.
	//
	// The job says how far the turn is. Without Attempt.SessionID: find a session by Attempt.Tag, or create one. Without
	// Turn.MessageID: send the prompt. With it, the prompt may have been sent: find out, and never send it twice. The
	// attempt's model may be another one than when it was sent: what its model refused is then sent to that one.
	//
	// Before a side effect that must not happen twice, Run reports the intent ([boulder.SubTaskStart], [boulder.Nudged],
	// [boulder.TurnSent] with the ToldUpTo of the job's turn), and continues only if report returns nil: the intent is
	// then stored. It returns an error of report unchanged. It also reports [boulder.SubTaskProgress] and, before it
	// returns, every [boulder.BlockerRaised] of the attempt that the job lacks, but nothing else. report may be called
	// from any goroutine until Run returns.
	//
	// While the job awaits an answer ([boulder.Job.Awaits]), Run sends no prompt, and reporting one is refused. A turn at
	// work runs to its end; if it was cut off, Run returns what evidence there is.
	//
	// The evidence needs a run of every gate of the sub-task, NoWorse included (executor.RunCommand runs one); a missing
	// one ends the run of the boulder. With an error it is ignored.
	//
	// Errors wrap [boulder.ErrTrouble], [boulder.ErrSessionLost] or [boulder.ErrFatal]; any other ends the attempt. When
	// ctx is cancelled, Run stops the agent's turn and returns context.Cause(ctx).
	Run(ctx context.Context, job boulder.Job, report func(boulder.Body) error) (boulder.Evidence, error)
}

// Looker is a [Runner] that can look something up in the project, in a session that may read and not change it. With any
// other, and with a Planner that is no [Preparer], plans are made without looks.
type Looker interface {
	// Look brings one look to its end, and returns what it found and the usage of the whole session.
	//
	// The job says how far the look is. Before the session gets a prompt, Look reports the [boulder.LookSession] that it will
	// be in then, and continues only if report returns nil: it is stored. So there is never a second session, and no prompt
	// is sent twice. A look after which the project's files differ is void, and so is one that gave no usable answer.
	//
	// An error that wraps [boulder.ErrTrouble] has it called again; any other makes the look void. When ctx is cancelled,
	// Look stops the session's turn and returns context.Cause(ctx).
	Look(ctx context.Context, job boulder.LookJob, report func(boulder.Body) error) (boulder.Looked, boulder.Usage, error)
}

// Verifier is a [Runner] that can rerun gates. With any other, gates of sub-tasks that a fork took over never run, so
// the fork ends as partial.
type Verifier interface {
	// Verify runs the gates of completed sub-tasks on the current files, except those known to have run on the same files,
	// and reports a final [boulder.GateRun] for each. The contract is that of [Runner.Run], except that any error but the
	// cause of ctx ends the run.
	Verify(ctx context.Context, what boulder.Verification, report func(boulder.Body) error) error
}

// Integrator is a [Runner] that works in slots. With any other, isolated boulders do not run.
type Integrator interface {
	// Integrate adds a result to the tip. It reports a [boulder.GateRun] with a Tree for each gate that it runs, then
	// [boulder.Integrated] or [boulder.Conflict], and moves the tip's ref once Integrated is stored. It may be called
	// again after a crash at any point, so the outcome must depend on its argument only. Otherwise the contract is that of
	// [Verifier].
	Integrate(ctx context.Context, what boulder.Integration, report func(boulder.Body) error) error
}

// Trier is an [Integrator] that tries the gates in a slot before the first sub-task starts.
type Trier interface {
	// Try runs each gate in a slot at the base, and a red one in a copy with the project's ignored files as well, but
	// nothing in the project. Then it reports [boulder.Isolated]: the sub-tasks work in slots, or, with
	// [boulder.IsolationAuto] and a gate that is green only with those files, in place. With any other isolation, such a gate is an error that wraps [boulder.ErrSlots]. It may be called again after
	// a crash at any point. Otherwise the contract is that of [Verifier].
	Try(ctx context.Context, what boulder.Trial, report func(boulder.Body) error) error
}

// SessionStopper is a [Runner] that can stop sessions that an order left at work while no process ran the boulder.
type SessionStopper interface {
	// StopSession ends the session's turn, if any, and returns when it has ended; a missing session is no error. It may be
	// called again for the same session.
	StopSession(ctx context.Context, left boulder.LeftSession) error
}

// Store keeps boulders. Its methods may be called from any goroutine.
type Store interface {
	// Commit appends events to the log of a boulder, all or none, and returns when they are on disk. After an error the
	// disk is unchanged. s is the resulting state; the store may save what it likes of it, but must not retain it.
	Commit(ctx context.Context, s *boulder.State, events []boulder.Event) error
	// Load returns the state that the log leads to ([boulder.State.Replay]). A missing boulder is [boulder.ErrNotFound].
	Load(ctx context.Context, boulderID string) (*boulder.State, error)
}
