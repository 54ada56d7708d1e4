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

	"github.com/bouldermgr/manager/internal/control"
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

// detach hands what is to be run to the server of the project, and starts one if there is none.
func (d *deps) detach(ctx context.Context, attach string, req project.Request) error {
	if d.app.ledgerModel != "" {
		req.LedgerModel = d.Ledger()
	}
	there, err := d.server(ctx, attach)
	if err != nil {
		return err
	}
	defer there.Close()
	id, err := there.Submit(ctx, req)
	switch {
	case errors.Is(err, control.ErrNoSubmitter):
		return fmt.Errorf("%w: %w: process %d, `%s`", store.ErrHeld, err, there.Holder.PID, there.Holder.Command)
	case err != nil:
		return err
	}
	return d.app.detached(id, there.Holder.PID)
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
func (d *deps) server(ctx context.Context, attach string) (*project.Desk, error) {
	there, err := d.Dial(ctx)
	if errors.Is(err, control.ErrNotServed) {
		if there, err = d.startServer(ctx, attach); err != nil {
			err = fmt.Errorf("start a server: %w", err)
		}
		return there, err
	}
	if err == nil && there.Holder.Serves && attach != "" {
		there.Close()
		return nil, usagef("process %d serves this project already, with an OpenCode server of its own choice: "+
			"leave --attach out, or stop it", there.Holder.PID)
	}
	return there, err
}

// startServer starts a server in the background, and waits until it is there.
func (d *deps) startServer(ctx context.Context, attach string) (*project.Desk, error) {
	dir, err := store.EnsureDir(d.Dir())
	if err != nil {
		return nil, err
	}
	died, err := d.startServing(dir, attach)
	if err != nil {
		return nil, err
	}
	for giveUp := time.Now().Add(serverStart); ; {
		there, err := d.Dial(ctx)
		if !errors.Is(err, control.ErrNotServed) {
			return there, err
		}
		select {
		case err := <-died:
			return nil, fmt.Errorf("it ended before it could take a task: %w; it says:\n%s",
				cmp.Or(err, errors.New("exit status 0")), logEnd(filepath.Join(dir, serverLog)))
		default:
		}
		if time.Now().After(giveUp) {
			return nil, fmt.Errorf("it did not answer within %s; it says:\n%s", serverStart,
				logEnd(filepath.Join(dir, serverLog)))
		}
		if err := project.Rest(ctx, serverLook); err != nil {
			return nil, err
		}
	}
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
