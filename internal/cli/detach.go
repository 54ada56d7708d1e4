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
	servedUntilIdle = "30s"
	// serverStart is how long a server may take to be there. It begins with the database, not with OpenCode.
	serverStart = 20 * time.Second
	// serverLook is how often to look for it meanwhile.
	serverLook = 50 * time.Millisecond
	// serverLog is what a server in the background prints to, in the state directory.
	serverLog = "serve.log"
)

// detach hands what is to be run to the server of the project, and starts one if nobody holds the state.
func (a *app) detach(ctx context.Context, req project.Request) error {
	if a.ledgerModel != "" {
		req.LedgerModel = a.Ledger()
	}
	there, err := a.Dial(ctx)
	switch {
	case errors.Is(err, control.ErrNotServed):
		if there, err = a.startServer(ctx); err != nil {
			return fmt.Errorf("start a server: %w", err)
		}
	case err != nil:
		return err
	case there.Holder.Serves && a.attach != "":
		return usagef("process %d serves this project already, with an OpenCode server of its own choice: "+
			"leave --attach out, or stop it", there.Holder.PID)
	}
	id, err := there.Submit(ctx, req)
	switch {
	case errors.Is(err, control.ErrNoSubmitter):
		return fmt.Errorf("%w: %w: process %d, `%s`", store.ErrHeld, err, there.Holder.PID, there.Holder.Command)
	case err != nil:
		return err
	}
	return a.detached(id, there.Holder.PID)
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
	fmt.Fprintf(a.Stdout, "Boulder %[1]s runs in the background (process %[2]d).\nLook: manager status %[1]s"+
		" · follow: manager logs -f %[1]s · wait: manager wait %[1]s · end: manager cancel -b %[1]s\n", id, pid)
	return nil
}

// startServer starts a server in the background, in a session of its own, so that closing the terminal does not reach it,
// and waits until it is there. What it prints goes to a file.
func (a *app) startServer(ctx context.Context) (*project.Desk, error) {
	if a.Executable == "" {
		return nil, errors.New("the path of this program is not known")
	}
	dir, err := store.EnsureDir(a.Dir())
	if err != nil {
		return nil, err
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
	cmd := exec.Command(a.Executable, a.serveArgs()...)
	cmd.Env, cmd.Stdout, cmd.Stderr = a.Environ, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	died := make(chan error, 1)
	go func() { died <- cmd.Wait() }() // until this process ends; the server does not
	says := func() string {
		printed, _ := root.ReadFile(serverLog)
		lines := strings.Split(strings.TrimSpace(string(printed[max(0, len(printed)-2000):])), "\n")
		return strings.Join(lines[max(0, len(lines)-8):], "\n")
	}
	for last := range project.Tries(ctx, serverLook, serverStart) {
		there, err := a.Dial(ctx)
		if !errors.Is(err, control.ErrNotServed) {
			return there, err
		}
		select {
		case err := <-died:
			return nil, fmt.Errorf("it ended before it could take a task: %w; it says:\n%s",
				cmp.Or(err, errors.New("exit status 0")), says())
		default:
		}
		if last {
			return nil, fmt.Errorf("it did not answer within %s; it says:\n%s", serverStart, says())
		}
	}
	return nil, context.Cause(ctx)
}

// serveArgs is the command line of the server: what this one was told about models, files and binaries.
func (a *app) serveArgs() []string {
	// A path that is relative to this working directory has to be good for another one; a bare name is looked up in PATH.
	absolute := func(path string) string {
		if !strings.ContainsRune(path, filepath.Separator) && !exists(path) {
			return path
		}
		abs, err := filepath.Abs(path)
		return cmp.Or(abs, fmt.Sprint(err))
	}
	args := []string{"serve", "--until-idle", servedUntilIdle, "-C", a.Dir()}
	for _, flag := range []struct{ name, value string }{
		{"--attach", a.attach}, {"--model", a.model}, {"--ledger-model", a.ledgerModel},
		{"--config", absolute(a.file(a.configFile))}, {"--opencode", absolute(a.opencodeBinary)},
	} {
		if flag.value != "" {
			args = append(args, flag.name, flag.value)
		}
	}
	return args
}
