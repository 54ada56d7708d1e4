package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

const (
	// servedUntilIdle is how long a server that `run --detach` started stays with nothing to do: long enough to hand
	// over the next task without starting another one.
	servedUntilIdle = 30 * time.Second
	// serverStart is how long a server may take to be there. It begins with the database, not with OpenCode.
	serverStart = 20 * time.Second
	// serverLook is how often to look for it meanwhile.
	serverLook = 50 * time.Millisecond
	// serverLog is what a server in the background prints to, in the state directory.
	serverLog = "serve.log"
)

// detach hands a task to the server of the project, and starts one if there is none.
func (d *deps) detach(ctx context.Context, o *runOptions, what control.Submission) error {
	if o.approveReplans {
		return usagef("--approve-replans needs a person at the terminal, and --detach leaves it")
	}
	if d.app.ledgerModel != "" {
		what.LedgerModel = d.Ledger()
	}
	client, holder, err := d.server(ctx, o.attach)
	if err != nil {
		return err
	}
	defer client.Close()
	id, err := submit(ctx, client, what)
	switch {
	case errors.Is(err, control.ErrNoSubmitter):
		return fmt.Errorf("%w: %w: process %d, `%s`", store.ErrHeld, err, holder.PID, holder.Command)
	case err != nil:
		return refusal(err)
	}
	return d.app.detached(id, holder.PID)
}

// submit hands a task over. A server takes tasks when it has taken up what a crash left, some moments after it is
// there.
func submit(ctx context.Context, client *control.Client, what control.Submission) (id string, err error) {
	for giveUp := time.Now().Add(project.BeginWait); ; {
		id, err = client.Submit(ctx, what)
		if !errors.Is(err, control.ErrNotReady) || time.Now().After(giveUp) {
			return id, err
		}
		if err := project.Rest(ctx, project.Step); err != nil {
			return "", err
		}
	}
}

// detached says that a boulder runs in the background.
func (a *app) detached(id string, pid int) error {
	if a.json {
		return a.printJSON(struct {
			Type      string `json:"type"`
			BoulderID string `json:"boulder_id"`
			PID       int    `json:"pid"`
		}{"detached", id, pid})
	}
	fmt.Fprintf(a.Stdout, "Boulder %s runs in the background (process %d).\n"+
		"Look: manager status %s · follow: manager logs -f %s · wait: manager wait %s · end: manager cancel -b %s\n",
		id, pid, id, id, id, id)
	return nil
}

// server finds the process that takes tasks, and starts it if nobody holds the state.
func (d *deps) server(ctx context.Context, attach string) (*control.Client, control.Holder, error) {
	dir, err := store.EnsureDir(d.Dir())
	if err != nil {
		return nil, control.Holder{}, err
	}
	socket := filepath.Join(dir, control.SocketName)
	client, err := control.Dial(ctx, socket)
	var died <-chan error
	if errors.Is(err, control.ErrNotServed) {
		if died, err = d.startServing(dir, attach); err != nil {
			return nil, control.Holder{}, fmt.Errorf("start a server: %w", err)
		}
		client, err = awaitServer(ctx, socket, died)
		if err != nil {
			return nil, control.Holder{}, fmt.Errorf("start a server: %w; it says:\n%s", err,
				logEnd(filepath.Join(dir, serverLog)))
		}
	}
	if err != nil {
		return nil, control.Holder{}, project.Unanswering(ctx, dir, err)
	}
	holder, err := client.Holder(ctx)
	if err != nil {
		client.Close()
		return nil, control.Holder{}, err
	}
	if holder.Serves && attach != "" && died == nil {
		client.Close()
		return nil, holder, usagef("process %d serves this project already, with an OpenCode server of its own choice: "+
			"leave --attach out, or stop it", holder.PID)
	}
	return client, holder, nil
}

// startServing starts a server in the background, in a session of its own, so that closing the terminal does not reach
// it. What it prints goes to a file. The channel gets how it ended, if it does.
func (d *deps) startServing(dir, attach string) (<-chan error, error) {
	program := d.app.Executable
	if program == "" {
		return nil, errors.New("the path of this program is not known")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	log, err := root.OpenFile(serverLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(program, d.serveArgs(attach)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = d.app.Environ, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	died := make(chan error, 1)
	go func() { died <- cmd.Wait() }() // until this process ends; the server does not
	return died, nil
}

// serveArgs is the command line of the server: what this one was told about models, files and binaries.
func (d *deps) serveArgs(attach string) []string {
	args := []string{"serve", "--until-idle", servedUntilIdle.String(), "-C", d.Dir()}
	for _, flag := range []struct{ name, value string }{
		{"--attach", attach}, {"--model", d.app.model}, {"--ledger-model", d.app.ledgerModel},
		{"--config", absolute(d.app.file(d.app.configFile))}, {"--opencode", absolute(d.app.opencodeBinary)},
	} {
		if flag.value != "" {
			args = append(args, flag.name, flag.value)
		}
	}
	return args
}

// absolute makes a path that is relative to the working directory good for another one; a bare name is looked up in
// PATH.
func absolute(path string) string {
	if path == "" || !strings.ContainsRune(path, filepath.Separator) && !exists(path) {
		return path
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func awaitServer(ctx context.Context, socket string, died <-chan error) (*control.Client, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, serverStart, fmt.Errorf("it did not answer within %s", serverStart))
	defer cancel()
	look := time.NewTicker(serverLook)
	defer look.Stop()
	for {
		client, err := control.Dial(ctx, socket)
		if !errors.Is(err, control.ErrNotServed) {
			return client, err
		}
		select {
		case <-look.C:
		case err := <-died:
			return nil, fmt.Errorf("it ended: %w", errors.Join(err, errEndedEarly))
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

var errEndedEarly = errors.New("before it could take a task")

// logEnd is the end of a file, for people.
func logEnd(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	text := strings.TrimSpace(string(data[max(0, len(data)-2000):]))
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}

// detachRun hands over what `manager run` was asked for. A plan is checked, and approved, here.
func (d *deps) detachRun(ctx context.Context, o *runOptions, w what, plan *boulder.Plan) error {
	if o.edit && plan == nil {
		return usagef("--edit is for a plan, and with --detach a task is planned later:" +
			" make the plan first, with `manager plan`")
	}
	task := control.Submission{
		Task: w.task, Constraints: o.constraints, Mode: o.mode(), Base: d.Base(), Model: d.app.model, Budget: o.budget.run,
		SubTasks: o.budget.subTasks, Diverted: o.blockers,
	}
	done := d.Criteria(o.doneWhen)
	task.DoneWhen, task.Checks = done.Words, done.Checks
	var err error
	switch {
	case o.fork != "":
		r, closeReader, openErr := d.app.openReader(ctx)
		if openErr != nil {
			return openErr
		}
		task.Fork, err = o.forked(ctx, r)
		closeReader()
	case plan != nil:
		if err := done.Check(plan); err != nil {
			return err
		}
		var approved orchestrator.Approval
		approved, err = d.agreed(ctx, o, o.approver(d), plan, w.planPath)
		task.Task, task.Constraints = "", nil
		task.Plan, task.GatesApproved, task.Model = approved.Plan, approved.Gates, cmp.Or(approved.Model, d.app.model)
		if err == nil {
			err = done.Check(task.Plan)
		}
	default:
		err = done.Check(nil)
	}
	if err != nil {
		return err
	}
	return d.detach(ctx, o, task)
}
