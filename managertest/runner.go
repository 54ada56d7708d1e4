package managertest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/orchestrator"
)

var (
	_ orchestrator.Runner = (*Runner)(nil)
	_ orchestrator.Judge  = JudgeFunc(nil)
)

// Runner is an [orchestrator.Runner] without sessions: the function Turn is the agent. Gates run for real.
type Runner struct {
	// Turn acts on a prompt (job.Turn.Prompt), usually on files below job.Project, and returns the evidence, in which
	// gates are optional. It must honour ctx. Defaults to doing nothing, successfully.
	Turn func(ctx context.Context, job boulder.Job) (boulder.Evidence, error)
	// Gate runs a gate. Defaults to a shell in the project, with a time limit of one minute.
	Gate func(ctx context.Context, job boulder.Job, command string) boulder.Gate
}

// Run plays one turn, with the reports of a runner with sessions. A prompt is sent once, but its turn may be replayed.
func (r *Runner) Run(ctx context.Context, job boulder.Job, report func(boulder.Body) error) (e boulder.Evidence, err error) {
	ref := job.Attempt.AttemptRef
	name := fmt.Sprintf("%s/%s#%d", job.BoulderID, ref.SubTaskID, ref.Attempt)
	if job.Attempt.SessionID == "" {
		start := boulder.SubTaskStart{AttemptRef: ref, SessionID: name, Model: job.Attempt.Model, Effort: job.Attempt.Effort}
		if ref.Attempt == 1 {
			start.Baseline = r.gates(ctx, job, job.SubTask.NoWorse, nil)
		}
		if err := report(start); err != nil {
			return e, err
		}
	}
	if job.Turn.MessageID == "" && !job.Awaits() {
		sent := boulder.TurnSent{
			AttemptRef: ref, Turn: job.Turn.Number, MessageID: fmt.Sprintf("%s.%d", name, job.Turn.Number), ToldUpTo: job.Turn.ToldUpTo,
		}
		if err := report(sent); err != nil {
			return e, err
		}
	}
	e.FinalMessage = "done"
	if r.Turn != nil {
		if e, err = r.Turn(ctx, job); err != nil {
			return e, err
		}
	}
	e.Gates = append(e.Gates, r.gates(ctx, job, slices.Concat(job.SubTask.Gates, job.SubTask.NoWorse), e.Gates)...)
	return e, context.Cause(ctx)
}

// gates runs the commands that are not in ran.
func (r *Runner) gates(ctx context.Context, job boulder.Job, commands []string, ran []boulder.Gate) (gates []boulder.Gate) {
	run := r.Gate
	if run == nil {
		run = func(ctx context.Context, job boulder.Job, command string) boulder.Gate {
			return executor.RunGate(ctx, job.Project, nil, command, time.Minute, func(s string) string { return s })
		}
	}
	for _, command := range commands {
		if boulder.GateOf(ran, command) == nil {
			gates = append(gates, run(ctx, job, command))
		}
	}
	return gates
}

// JudgeFunc is an [orchestrator.Judge].
type JudgeFunc func(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error)

// Judge calls f.
func (f JudgeFunc) Judge(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	return f(ctx, req)
}

// Believe is a judge that finds every turn complete, as far as gates allow. The last message becomes the output.
func Believe(_ context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	said := req.Turn.Evidence.FinalMessage
	return boulder.Verdict{Completed: true, Summary: said, OutputData: said}, boulder.Usage{}, nil
}
