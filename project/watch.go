package project

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/watch"
	"github.com/bouldermgr/manager/opencode"
)

// watchCall bounds a call of a watch to OpenCode. Meanwhile it takes no orders.
const watchCall = 10 * time.Second

// Watch fills in what a watch of the sessions at an OpenCode server needs of the project: it diverts, runs and judges as a
// run does. It ends with the project.
func (p *Project) Watch(ctx context.Context, c *watch.Config, address string) error {
	env, err := p.environ()
	if err != nil {
		return err
	}
	if p.diverter, err = p.newDiverter(); err != nil {
		return err
	}
	c.Project, c.Diverter, c.Redact, c.Logger = p.dir, p.diverter, p.secrets.Text, p.log
	c.Attach = func(ctx context.Context) (*opencode.Client, error) { return p.attach(ctx, address, watchCall) }
	c.Run = func(ctx context.Context, command string) boulder.Gate {
		return executor.RunCommand(ctx, p.dir, env, command, cmp.Or(p.cfg.GateTimeout, executor.DefaultGateTimeout), c.Redact)
	}
	if slices.Contains(c.DoneWhen, boulder.DoneJudge) {
		c.Judge, err = p.sessionJudge(ctx, address)
	}
	return err
}

// sessionJudge prepares the judge of sessions at an OpenCode server: it asks the Progress Ledger about one as it would about
// a sub-task that has the user's request for content, and gives what is missing; nothing: the work is complete. It may be
// asked from any goroutine. A server that is not there yet is no fault: the watch waits for it.
func (p *Project) sessionJudge(ctx context.Context, address string) (
	ask func(ctx context.Context, request string, e *boulder.Evidence) (missing []string, err error), err error,
) {
	opts := p.opts
	opts.Attach = address
	connect := func(ctx context.Context) (*Project, error) {
		j, err := Open(p.dir, opts)
		if err != nil {
			return nil, err
		}
		if err = j.Connect(ctx); err != nil {
			j.Close()
		}
		return j, err
	}
	first, err := connect(ctx)
	if err != nil && !errors.Is(err, opencode.ErrUnavailable) {
		return nil, err
	}
	first.Close()
	return func(ctx context.Context, request string, e *boulder.Evidence) ([]string, error) {
		j, err := connect(ctx)
		if err != nil {
			return nil, err
		}
		defer j.Close()
		now, err := j.work.Snapshot(ctx)
		if err != nil {
			return nil, err
		}
		// Against the commit that was there when the watch began: what the agent commits is its work as well.
		if e.Diff, err = j.work.Diff(ctx, first.base, now, nil); err != nil {
			return nil, err
		}
		verdict, _, err := j.judge().Judge(ctx, judgeRequest(request, e))
		switch {
		case err != nil || verdict.Completed:
			return nil, err
		case len(verdict.Remaining) > 0:
			return verdict.Remaining, nil
		}
		return []string{"the judge does not agree: " + verdict.Summary}, nil
	}, nil
}

func judgeRequest(request string, e *boulder.Evidence) boulder.JudgeRequest {
	t := boulder.SubTask{
		ID: "session", Subject: text.Clip(request, 200), Description: request,
		SuccessCriteria: []string{"What was asked for is done"}, DoneWhen: []string{boulder.DoneJudge},
	}
	return boulder.JudgeRequest{Goal: request, SubTask: t, Turn: boulder.Turn{
		AttemptRef: boulder.AttemptRef{SubTaskID: t.ID, Attempt: 1}, Number: 1, Evidence: e,
	}}
}
