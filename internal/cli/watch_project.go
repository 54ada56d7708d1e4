package cli

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/internal/unixsock"
	"github.com/bouldermgr/manager/internal/watch"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/progressledger"
	"github.com/bouldermgr/manager/store"
)

// watchProject is what the commands of `manager watch` know of a project. No server is needed for it.
type watchProject struct {
	deps    *deps
	project string
	dir     string // of the state
	log     *slog.Logger
}

func (a *app) watchProject() (*watchProject, error) {
	project, err := a.project()
	if err != nil {
		return nil, err
	}
	d := &deps{app: a, project: project, log: a.logger()}
	if d.config, err = a.loadConfig(project); err != nil {
		return nil, err
	}
	if err := a.learnSecrets(d.config); err != nil {
		return nil, err
	}
	return &watchProject{deps: d, project: project, dir: filepath.Join(project, store.DirName), log: d.log}, nil
}

// hold opens the state for a watch. While another one has it, the error says who.
func (p *watchProject) hold(ctx context.Context) (*watch.Store, error) {
	if _, err := store.EnsureDir(p.project); err != nil {
		return nil, err
	}
	db, err := watch.OpenStore(p.path(), false, lockWait)
	if errors.Is(err, store.ErrHeld) {
		return nil, p.heldBy(ctx)
	}
	if err != nil {
		return nil, err
	}
	db.Clean = p.deps.app.secrets.JSON
	return db, nil
}

// read gives what is known of the sessions, by the process that watches or from the file. Without either there is
// nothing. The report has no holder if nobody watches.
func (p *watchProject) read(ctx context.Context) (watch.Report, error) {
	client, err := watch.Dial(ctx, p.socket())
	if err == nil {
		return client.Report(ctx)
	}
	if !errors.Is(err, unixsock.ErrNotServed) {
		return watch.Report{}, err
	}
	db, err := watch.OpenStore(p.path(), true, lockWait)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return watch.Report{}, nil
	case errors.Is(err, store.ErrHeld):
		return watch.Report{}, p.heldBy(ctx)
	case err != nil:
		return watch.Report{}, err
	}
	defer closeStore(db, p.log)
	all, err := watch.Stored(db)
	return watch.Report{Sessions: all}, err
}

func (p *watchProject) records(ctx context.Context) ([]watch.Record, error) {
	report, err := p.read(ctx)
	var records []watch.Record
	for _, s := range report.Sessions {
		records = append(records, s.Record)
	}
	return records, err
}

// history gives the decisions about a session, the oldest first.
func (p *watchProject) history(ctx context.Context, sessionID string) ([]watch.Entry, error) {
	client, err := watch.Dial(ctx, p.socket())
	if err == nil {
		return client.History(ctx, sessionID)
	}
	if !errors.Is(err, unixsock.ErrNotServed) {
		return nil, err
	}
	db, err := watch.OpenStore(p.path(), true, lockWait)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer closeStore(db, p.log)
	return db.History(sessionID)
}

// order has the process that watches carry an order out, or does so itself.
func (p *watchProject) order(ctx context.Context, order watch.Order, ref string) ([]string, error) {
	client, err := watch.Dial(ctx, p.socket())
	if err == nil {
		return client.Order(ctx, ref, order)
	}
	if !errors.Is(err, unixsock.ErrNotServed) {
		return nil, err
	}
	db, err := p.hold(ctx)
	if err != nil {
		return nil, err
	}
	defer closeStore(db, p.log)
	return watch.Steer(db, ref, order, time.Now())
}

// run runs a command of the criterion tests.
func (p *watchProject) run(ctx context.Context, command string) boulder.Gate {
	env, err := p.deps.app.marked(p.project)
	if err != nil {
		p.log.Warn("what a killed manager leaves behind will not be found", "error", err)
		env = p.deps.app.Environ
	}
	timeout := time.Duration(p.deps.config.GateTimeout)
	if timeout == 0 {
		timeout = executor.DefaultGateTimeout
	}
	return executor.RunCommand(ctx, p.project, env, command, timeout, p.deps.app.secrets.Text)
}

// sessionJudge asks the Progress Ledger about a session as it would about a sub-task that has the person's request for
// content. It may be asked from any goroutine.
type sessionJudge struct {
	project *watchProject
	address string

	mu    sync.Mutex
	wired *deps
	judge cleanJudge // once it is wired
}

// judge prepares the judge. A server that is not there yet is no fault: the watch waits for it.
func (p *watchProject) judge(ctx context.Context, address string) (*sessionJudge, error) {
	j := &sessionJudge{project: p, address: address}
	if _, _, err := j.connect(ctx); err != nil && !errors.Is(err, opencode.ErrUnavailable) {
		return nil, err
	}
	return j, nil
}

func (j *sessionJudge) connect(ctx context.Context) (*deps, cleanJudge, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.wired != nil {
		return j.wired, j.judge, nil
	}
	d, err := j.project.deps.app.wire(ctx, j.address)
	if err != nil {
		return nil, cleanJudge{}, err
	}
	judge, err := progressledger.New(progressledger.Config{Completer: d.completer, Logger: d.log})
	if err != nil {
		d.close()
		return nil, cleanJudge{}, err
	}
	j.wired, j.judge = d, cleanJudge{judge, d.app.secrets}
	return j.wired, j.judge, nil
}

// ask gives what is missing; nothing: the work is complete.
func (j *sessionJudge) ask(ctx context.Context, q watch.Question) (missing []string, err error) {
	d, judge, err := j.connect(ctx)
	if err != nil {
		return nil, err
	}
	now, err := d.work.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	// Against the commit that was there when the watch began: what the agent commits is its work as well.
	changes, err := d.work.Diff(ctx, d.base, now, nil)
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

func (j *sessionJudge) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.wired != nil {
		j.wired.close()
	}
}

func judgeRequest(q watch.Question, changes boulder.Diff) boulder.JudgeRequest {
	t := boulder.SubTask{
		ID: "session", Subject: clipText(q.Request, 200), Content: q.Request,
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
