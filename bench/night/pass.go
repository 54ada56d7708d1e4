package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	evening = 90 * time.Minute // from the handover to the start of the night
	crash   = 5 * time.Hour
	restart = crash + 10*time.Minute // by whatever watches over the machine's services
)

// pass lets the night go by, until nothing can be done without the user.
func (w *world) pass(ctx context.Context) error {
	w.startAt = time.Now().Add(short(evening))
	w.show(ctx, "run", "plan.yaml", "--at", short(evening).String(), "--detach", "--isolate", "--blockers")
	list := w.show(ctx, "list")
	w.say(strings.Contains(list, " scheduled "), "the run is scheduled")
	fmt.Println()
	if err := w.until(ctx, func() bool { return w.night.now() >= crash && w.night.busy() }); err != nil {
		return err
	}
	var status struct {
		RunBy struct {
			PID int `json:"pid"`
		} `json:"run_by"`
	}
	if err := json.Unmarshal([]byte(w.manager(ctx, 0, "status", "--json")), &status); err != nil || status.RunBy.PID == 0 {
		return fmt.Errorf("no process is there to kill: %v, %w", status, err)
	}
	if err := syscall.Kill(status.RunBy.PID, syscall.SIGKILL); err != nil {
		return err
	}
	w.night.note(w.night.now(), "kill -9 of manager")
	if err := w.until(ctx, func() bool { return w.night.now() >= restart }); err != nil {
		return err
	}
	server := exec.CommandContext(ctx, w.binary, "serve", "--until-idle", "5s")
	server.Dir, server.Env = w.project, w.env
	server.Cancel = func() error { return server.Process.Signal(syscall.SIGTERM) }
	if err := server.Start(); err != nil {
		return err
	}
	w.night.note(w.night.now(), "manager serve takes it up")
	w.manager(ctx, 4, "wait", "--timeout", "10m")
	w.ended = w.night.now()
	w.night.note(w.ended, "nothing is left that could be done without the user")
	if err := server.Wait(); err != nil {
		return fmt.Errorf("manager serve: %w", err)
	}
	return ctx.Err()
}

// until waits for something to be so.
func (w *world) until(ctx context.Context, so func() bool) error {
	deadline := time.After(10 * time.Minute)
	for !so() {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-deadline:
			return fmt.Errorf("the night does not go on: %s", w.manager(ctx, 0, "status"))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
