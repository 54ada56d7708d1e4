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
// run does. It ends with the project. Without an address it is the server at [DefaultServer], or else the background service
// of OpenCode 2.
func (p *Project) Watch(ctx context.Context, c *watch.Config, address string) (err error) {
	p.near = address == ""
	address = cmp.Or(address, DefaultServer)
	p.diverter = p.newDiverter()
	c.Project, c.Diverter, c.Redact, c.Logger = p.dir, p.diverter, p.secrets.Text, p.log
	known := address
	c.Attach = func(ctx context.Context) (*opencode.Client, error) {
		client, err := p.attach(ctx, address, watchCall)
		if err == nil && p.near && client.Address() != known {
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

// sessionJudge prepares the judge of sessions at an OpenCode server: it asks the Progress Ledger about one as it would about
// a sub-task that has the user's request for content, and gives what is missing; nothing: the work is complete. It may be
// asked from any goroutine. A server that is not there yet is no fault: the watch waits for it.
func (p *Project) sessionJudge(ctx context.Context, address string) (
	ask func(ctx context.Context, request string, e *boulder.Evidence) (missing []string, err error), err error,
) {
	opts := p.opts
	opts.Attach = address
	attached := func() *Project {
		j := prepare(p.dir, opts)
		j.cfg, j.near = p.cfg, p.near
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
		// Against the commit that was there when the watch began: what the agent commits is its work as well.
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
