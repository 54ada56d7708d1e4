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

// watchCall bounds a watch's call to OpenCode, during which the watch takes no orders.
const watchCall = 10 * time.Second

// Watch completes the configuration of a watch with diverter, commands and judge as in runs; [Project.Close] ends them.
// An empty address means [DefaultServer], or else the background service of OpenCode 2.
func (p *Project) Watch(ctx context.Context, c *watch.Config, address string) (err error) {
	p.tryService = address == ""
	address = cmp.Or(address, DefaultServer)
	p.diverter = p.newDiverter()
	c.Project, c.Diverter, c.Redact, c.Logger = p.dir, p.diverter, p.secrets.Text, p.log
	known := address
	c.Attach = func(ctx context.Context) (*opencode.Client, error) {
		client, err := p.attach(ctx, address, watchCall)
		if err == nil && p.tryService && client.Address() != known {
			known = client.Address()
			c.Note("The background service of OpenCode is at " + known + ".")
		}
		if err != nil || !slices.Contains(c.DoneWhen, boulder.DoneDiagnostics) {
			return client, err
		}
		if why := executor.NoDiagnostics(client.Caps(), c.Lint); why != "" {
			client.Close()
			return nil, noDiagnostics("--done-when or the configuration", why)
		}
		return client, nil
	}
	c.Run = func(ctx context.Context, command string) boulder.Gate {
		return p.runCommand(ctx, p.dir, nil, command)
	}
	if slices.Contains(c.DoneWhen, boulder.DoneJudge) {
		c.Judge, err = p.sessionJudge(ctx, address)
	}
	return err
}

// sessionJudge returns a function, safe for any goroutine, that judges a session as a sub-task with the user's request
// and returns what is missing. A server that is not available yet is no error, since the watch waits for it.
func (p *Project) sessionJudge(ctx context.Context, address string) (
	ask func(ctx context.Context, request string, e *boulder.Evidence) (missing []string, err error), err error,
) {
	opts := p.opts
	opts.Attach = address
	attached := func() *Project {
		j := prepare(p.dir, opts)
		j.cfg, j.tryService = p.cfg, p.tryService
		return j
	}
	first := attached()
	err = first.Connect(ctx)
	first.Close()
	if err != nil && !errors.Is(err, opencode.ErrUnavailable) {
		return nil, err
	}
	return func(ctx context.Context, request string, e *boulder.Evidence) ([]string, error) {
		j := attached()
		defer j.Close()
		if err := j.Connect(ctx); err != nil {
			return nil, err
		}
		now, err := j.work.Snapshot(ctx)
		if err != nil {
			return nil, err
		}
		// Since the watch began, not since HEAD: the agent's commits are its work, too.
		if e.Diff, err = j.work.Diff(ctx, first.base, now, func(string) bool { return true }); err != nil {
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
