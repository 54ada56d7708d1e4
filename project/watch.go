package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/project/internal/watch"
	"github.com/bouldermgr/manager/store"
)

// watchCall bounds a watch's call to OpenCode, during which the watch takes no orders.
const watchCall = 10 * time.Second

// WatchConfig configures a watch.
type WatchConfig = watch.Config

// WatchEntry is a decision of a watch about a session.
type WatchEntry = watch.Entry

// WatchStatus is what a watch knows of a session.
type WatchStatus = watch.Status

// WatchRequest asks a watch for the state of sessions, and may carry a [WatchOrder].
type WatchRequest = watch.Request

// WatchReport is the answer to a [WatchRequest].
type WatchReport = watch.Report

// WatchOrder is what the user tells a watch to do.
type WatchOrder = watch.Order

// The orders of a [WatchRequest].
const (
	WatchStop  = watch.OrderStop
	WatchStart = watch.OrderStart
	WatchLook  = watch.OrderLook
	WatchTyped = watch.OrderTyped
)

// Watch keeps the user's own OpenCode sessions going until ctx ends, or with c.Once until each was looked at. An empty
// address means [DefaultServer], or else the background service of OpenCode 2. Diverter, commands and judge are those of
// runs; [Project.Close] ends them. Unless c.DryRun, it holds the state of watches: the error wraps [store.ErrHeld] and
// names the process if another one does.
func (p *Project) Watch(ctx context.Context, c WatchConfig, address string) (err error) {
	if c.DryRun {
		report, err := p.AskWatch(ctx, WatchRequest{})
		if err != nil {
			return err
		}
		c.Records = report.Records
	} else {
		if c.Store, err = p.openWatch(ctx, false); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Store.Close()) }()
		if c.Records, err = c.Store.Records(); err != nil {
			c.Note(fmt.Sprintf("Some of what was stored cannot be read, and starts from zero: %v", err))
		}
	}
	p.tryService = address == ""
	address = cmp.Or(address, DefaultServer)
	if err := p.equipWatch(ctx, &c, address); err != nil {
		return err
	}
	w := watch.New(c)
	if !c.DryRun {
		server, serveErr := w.Serve(ctx, p.watchSocket(), watch.Holder{
			PID: os.Getpid(), Command: p.opts.Command, URL: address, Since: time.Now(), Diverts: p.cfg.Blockers.Enabled,
		})
		if serveErr != nil {
			return serveErr
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		if !c.Once {
			p.note("Watching the sessions of %s at %s. Ctrl-C ends it; the sessions stay as they are.", p.dir, address)
		}
	}
	return w.Run(ctx)
}

// equipWatch adds what a watch shares with runs.
func (p *Project) equipWatch(ctx context.Context, c *WatchConfig, address string) (err error) {
	p.diverter = p.newDiverter()
	c.Project, c.Diverter, c.Redact, c.Logger = p.dir, p.diverter, p.secrets.Text, p.log
	c.MinOutput = p.cfg.Rules.MinOutput
	c.Forget = func(ctx context.Context, sessionID string) error { return p.diverter.Switch(ctx, sessionID, nil) }
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

// AskWatch asks the running watch, or else its stored state. With an error the report has what could be read. The error
// wraps [ErrNotServed] for orders that only a running watch carries out: [WatchLook] and [WatchTyped].
func (p *Project) AskWatch(ctx context.Context, req WatchRequest) (report WatchReport, err error) {
	report, err = watch.Call(ctx, p.watchSocket(), req)
	if !errors.Is(err, ErrNotServed) || req.Order == WatchLook || req.Order == WatchTyped {
		return report, err
	}
	readOnly := req.Order == ""
	db, err := p.openWatch(ctx, readOnly)
	switch {
	case readOnly && errors.Is(err, fs.ErrNotExist):
		return report, nil
	case err != nil:
		return report, err
	}
	records, unreadable := db.Records()
	report, err = watch.New(WatchConfig{
		Store: db, Records: records, Redact: p.secrets.Text, Logger: p.log, Show: func(WatchEntry) {},
	}).Do(ctx, req)
	return report, errors.Join(unreadable, err, db.Close())
}

// Watched returns the sessions that are or were watched here, for a view that cannot wait: while the watch talks to OpenCode,
// it takes up to a second and then fails.
func (p *Project) Watched(ctx context.Context) (WatchReport, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	report, err := p.AskWatch(ctx, WatchRequest{})
	if ctx.Err() != nil {
		err = errors.New("the watch is busy with OpenCode: its sessions are shown when it answers")
	}
	return report, err
}

func (p *Project) watchSocket() string { return filepath.Join(p.stateDir(), watch.SocketName) }

// openWatch opens the state of watches. If another watch has it, the error names the process.
func (p *Project) openWatch(ctx context.Context, readOnly bool) (*watch.Store, error) {
	if !readOnly {
		if _, err := store.EnsureDir(p.dir); err != nil {
			return nil, err
		}
	}
	path := filepath.Join(p.stateDir(), watch.FileName)
	db, err := watch.OpenStore(path, store.Options{ReadOnly: readOnly, Timeout: LockWait, Redact: p.secrets.JSON})
	if errors.Is(err, store.ErrHeld) {
		who := LockOwner(path)
		if r, err := watch.Call(ctx, p.watchSocket(), WatchRequest{}); err == nil {
			h := r.Holder
			who = fmt.Sprintf(": process %d, `%s`, since %s", h.PID, h.Command, h.Since.Local().Format(time.DateTime))
		}
		err = fmt.Errorf("this project is watched already%s: look with `manager watch --status`, or end that one first (%w)",
			who, err)
	}
	return db, err
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
		now, err := j.work().Snapshot(ctx)
		if err != nil {
			return nil, err
		}
		// Since the watch began, not since HEAD: the agent's commits are its work, too.
		if e.Diff, err = j.work().Diff(ctx, first.base, now, func(string) bool { return true }); err != nil {
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
