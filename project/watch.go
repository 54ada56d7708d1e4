package project

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// Diverter stands in for the user in watched sessions while they are away. It ends with the project.
func (p *Project) Diverter() (session.Diverter, error) {
	d, err := p.newDiverter()
	p.diverter = d
	return d, err
}

// RunCommand runs a command of a criterion as the gates of a run are run.
func (p *Project) RunCommand(ctx context.Context, command string) boulder.Gate {
	env, err := p.environ()
	if err != nil {
		p.log.Warn("what a killed manager leaves behind will not be found", "error", err)
		env = p.opts.Environ
	}
	timeout := cmp.Or(p.cfg.GateTimeout, executor.DefaultGateTimeout)
	return executor.RunCommand(ctx, p.dir, env, command, timeout, p.secrets.Text)
}

// SessionJudge asks the Progress Ledger about a session as it would about a sub-task that has the person's request for
// content. It may be asked from any goroutine.
type SessionJudge struct {
	dir  string
	opts Options

	mu    sync.Mutex
	wired *Project
}

// SessionJudge prepares the judge of sessions at an OpenCode server. One that is not there yet is no fault: the watch waits
// for it. The caller closes it.
func (p *Project) SessionJudge(ctx context.Context, address string) (*SessionJudge, error) {
	j := &SessionJudge{dir: p.dir, opts: p.opts}
	j.opts.Attach = address
	if err := j.connect(ctx); err != nil && !errors.Is(err, opencode.ErrUnavailable) {
		return nil, err
	}
	return j, nil
}

func (j *SessionJudge) connect(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.wired != nil {
		return nil
	}
	p, err := Open(j.dir, j.opts)
	if err != nil {
		return err
	}
	if err := p.Connect(ctx); err != nil {
		p.Close()
		return err
	}
	j.wired = p
	return nil
}

// Ask gives what is missing; nothing: the work is complete.
func (j *SessionJudge) Ask(ctx context.Context, request string, e *boulder.Evidence) (missing []string, err error) {
	if err := j.connect(ctx); err != nil {
		return nil, err
	}
	d := j.wired
	now, err := d.work.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	// Against the commit that was there when the watch began: what the agent commits is its work as well.
	e.Diff, err = d.work.Diff(ctx, d.Base(), now, nil)
	if err != nil {
		return nil, err
	}
	verdict, _, err := d.judge().Judge(ctx, judgeRequest(request, e))
	switch {
	case err != nil || verdict.Completed:
		return nil, err
	case len(verdict.Remaining) > 0:
		return verdict.Remaining, nil
	}
	return []string{"the judge does not agree: " + verdict.Summary}, nil
}

// Close ends what the judge has opened.
func (j *SessionJudge) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.wired != nil {
		j.wired.Close()
	}
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
