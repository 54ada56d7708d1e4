package orchestrator

import (
	"context"

	"github.com/bouldermgr/manager/boulder"
)

// Planner is the Task Ledger: it turns a request into a plan.
type Planner interface {
	// Plan returns a valid plan with a seal that lacks only the base commit. It may block for minutes and honours ctx.
	// Unusable answers of a model are its own business: it returns a plan with [boulder.OriginFallback] rather than an
	// error. An error means that no model could be asked: it wraps [boulder.ErrFatal] where a retry cannot help. The
	// usage is valid with an error too.
	Plan(ctx context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error)
	// Replan makes again what remains of a plan. It may block for minutes and honours ctx; it may be called again for the
	// same replan after a crash or after [boulder.ErrTrouble]. It returns sub-tasks that are valid beside what is done and
	// kept, or an error: one that wraps [boulder.ErrNoNewPlan] if nothing new came, [boulder.ErrTrouble] or
	// [boulder.ErrFatal] if no model could be asked; any other error counts as ErrNoNewPlan. The usage is valid with an
	// error too.
	Replan(ctx context.Context, req boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error)
}

// Judge is the Progress Ledger: it says whether an ended turn completed its sub-task.
type Judge interface {
	// Judge returns a normalised verdict. It may block for minutes and honours ctx; it may be called again for the
	// same turn after a crash or after [boulder.ErrTrouble]. Unusable answers of a model are its own business: the
	// verdict then says JudgeUnavailable. An error means that no model could be asked: it wraps [boulder.ErrFatal] or
	// [boulder.ErrTrouble]; any other error ends the attempt. The usage is valid with an error too.
	Judge(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error)
}

// Runner runs turns of attempts in sessions. The orchestrator never runs two turns of one attempt at once, but turns
// of different attempts side by side.
type Runner interface {
	// Run brings one turn to its end and returns what it left behind. It blocks until then.
	//
	// The job says how far the turn is. Without Attempt.SessionID: find a session by Attempt.Tag, or create one.
	// Without Turn.MessageID: send the prompt. With it: the prompt was sent, perhaps; look, and do not send it twice.
	// [boulder.TurnSent] carries the ToldUpTo of the job's turn.
	// Before every side effect that must not happen twice, Run reports the intent ([boulder.SubTaskStart],
	// [boulder.TurnSent], [boulder.Nudged]) and goes on only when report returns nil: it is then stored. An error from
	// report is returned as it is. [boulder.SubTaskProgress] and, before Run returns, every [boulder.BlockerRaised] of the
	// attempt that the job does not know are reported the same way; nothing else is. report may be
	// called from any goroutine, but not after Run has returned.
	//
	// While the job awaits an answer ([boulder.Job.Awaits]) no prompt is sent: a turn that is at work comes to its end, and of
	// one that was cut off, what is there is the evidence. The report of a prompt is refused then.
	//
	// The evidence has a run of every gate of the sub-task, NoWorse included; one that is missing ends the run of the boulder.
	// executor.RunCommand runs one.
	//
	// Errors wrap [boulder.ErrTrouble], [boulder.ErrSessionLost] or [boulder.ErrFatal]; any other error ends the
	// attempt. When ctx is cancelled, Run stops the agent's turn and returns context.Cause(ctx). The evidence counts
	// only without an error.
	Run(ctx context.Context, job boulder.Job, report func(boulder.Body) error) (boulder.Evidence, error)
}

// Verifier is implemented by a [Runner] that can run gates once more. With another one, the gates of sub-tasks that a fork
// took over never run, so that the fork ends as partial.
type Verifier interface {
	// Verify runs the gates of completed sub-tasks on the files as they are, but for those of which it is known that nothing
	// has changed since they ran, and reports a final [boulder.GateRun] for each. The contract is that of [Runner.Run]; an
	// error that is not the cause of ctx's end ends the run.
	Verify(ctx context.Context, what boulder.Verification, report func(boulder.Body) error) error
}

// Integrator is a [Runner] that works in slots. With another one no isolated boulder runs.
type Integrator interface {
	// Integrate puts a result onto the tip. It reports a [boulder.GateRun] with a Tree for each gate that it runs, then
	// [boulder.Integrated] or [boulder.Conflict], and moves the ref of the tip when the former is stored. It may be called again
	// after a crash at any point: what it comes to depends on its argument only. The contract is that of [Runner.Run]; an
	// error that is not the cause of ctx's end ends the run.
	Integrate(ctx context.Context, what boulder.Integration, report func(boulder.Body) error) error
}

// Trier is an [Integrator] that tries the gates in a slot before the first sub-task starts. With another one, they are
// not tried.
type Trier interface {
	// Try runs each gate in a slot at the base, and one that is red there in the project as well. Then it reports
	// [boulder.Isolated]: the sub-tasks work in slots, or, with [boulder.IsolationAuto] and a gate that is green in the
	// project alone, in place. In the latter case with another isolation the error wraps [boulder.ErrSlots]. It may be
	// called again after a crash at any point. The contract is that of [Runner.Run]; an error that is not the cause of
	// ctx's end ends the run.
	Try(ctx context.Context, what boulder.Trial, report func(boulder.Body) error) error
}

// SessionStopper is a [Runner] that can stop what an order left behind while no process ran the boulder.
type SessionStopper interface {
	// StopSession ends the turn of a session, if one is at work, and returns when nothing is. A session that does not exist is
	// stopped. It may be called again for the same session.
	StopSession(ctx context.Context, left boulder.LeftSession) error
}

// Store keeps boulders. Every method may be called from any goroutine.
type Store interface {
	// Commit adds events to the log of a boulder, all of them or none, and returns when they are on disk. After an error the
	// disk is as it was. s is the state that they lead to, of which a store may keep what it likes; it belongs to the caller
	// again when Commit returns.
	Commit(ctx context.Context, s *boulder.State, events []boulder.Event) error
	// Load returns the state that the log leads to ([boulder.State.Replay]), or an error that wraps [boulder.ErrNotFound].
	Load(ctx context.Context, boulderID string) (*boulder.State, error)
}
