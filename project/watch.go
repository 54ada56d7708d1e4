package project

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/watch"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/progressledger"
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
	env, err := p.Environ()
	if err != nil {
		p.log.Warn("what a killed manager leaves behind will not be found", "error", err)
		env = p.opts.Environ
	}
	timeout := time.Duration(p.cfg.GateTimeout)
	if timeout == 0 {
		timeout = executor.DefaultGateTimeout
	}
	return executor.RunCommand(ctx, p.dir, env, command, timeout, p.secrets.Text)
}

// SessionJudge asks the Progress Ledger about a session as it would about a sub-task that has the person's request for
// content. It may be asked from any goroutine.
type SessionJudge struct {
	open func(ctx context.Context) (*Project, error)

	mu    sync.Mutex
	wired *Project
	judge cleanJudge // once it is wired
}

// SessionJudge prepares the judge of sessions at an OpenCode server. One that is not there yet is no fault: the watch waits
// for it. The caller closes it.
func (p *Project) SessionJudge(ctx context.Context, address string) (*SessionJudge, error) {
	j := &SessionJudge{open: func(ctx context.Context) (*Project, error) {
		o := p.opts
		o.Attach = address
		wired, err := Open(p.dir, o)
		if err != nil {
			return nil, err
		}
		return wired, wired.Connect(ctx)
	}}
	if _, _, err := j.connect(ctx); err != nil && !errors.Is(err, opencode.ErrUnavailable) {
		return nil, err
	}
	return j, nil
}

func (j *SessionJudge) connect(ctx context.Context) (*Project, cleanJudge, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.wired != nil {
		return j.wired, j.judge, nil
	}
	d, err := j.open(ctx)
	if err != nil {
		if d != nil {
			d.Close()
		}
		return nil, cleanJudge{}, err
	}
	judge, err := progressledger.New(progressledger.Config{Completer: d.completer, Logger: d.log})
	if err != nil {
		d.Close()
		return nil, cleanJudge{}, err
	}
	j.wired, j.judge = d, cleanJudge{judge, d.secrets}
	return j.wired, j.judge, nil
}

// Ask gives what is missing; nothing: the work is complete.
func (j *SessionJudge) Ask(ctx context.Context, q watch.Question) (missing []string, err error) {
	d, judge, err := j.connect(ctx)
	if err != nil {
		return nil, err
	}
	now, err := d.work.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	// Against the commit that was there when the watch began: what the agent commits is its work as well.
	changes, err := d.work.Diff(ctx, d.Base(), now, nil)
	if err != nil {
		return nil, err
	}
	verdict, _, err := judge.Judge(ctx, judgeRequest(q, changes))
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

func judgeRequest(q watch.Question, changes boulder.Diff) boulder.JudgeRequest {
	t := boulder.SubTask{
		ID: "session", Subject: text.Clip(q.Request, 200), Description: q.Request,
		SuccessCriteria: []string{"What was asked for is done"}, DoneWhen: []string{boulder.DoneJudge},
	}
	return boulder.JudgeRequest{
		Goal: q.Request, SubTask: t,
		Turn: boulder.Turn{AttemptRef: boulder.AttemptRef{SubTaskID: t.ID, Attempt: 1}, Number: 1, Evidence: &boulder.Evidence{
			Ended: boulder.Ended{Finish: q.Finish}, FinalMessage: q.Answer, Todos: q.Todos, Gates: q.Gates,
			ToolCalls: q.Tools, ToolCount: q.Called, Diff: changes,
		}},
	}
}
