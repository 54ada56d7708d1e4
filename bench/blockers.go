package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
)

// measureBlockers checks the limits of seed 003: the slowest command with 50 blockers in 1 s (SC-005), the slowest
// step of clarify in 2 s (SC-006), the slowest of 100 records in 50 ms (SC-008).
func measureBlockers(ctx context.Context, w *world) (all []comparison, err error) {
	recorded, answered := w.size(100, 4), w.size(50, 2)
	for _, m := range []struct {
		name, what string
		limit      float64
		once       func(context.Context) (float64, error)
	}{
		{fmt.Sprintf("slowest of %d blockers", recorded), "to record", 0.05, func(ctx context.Context) (float64, error) {
			_, slowest, err := w.record(ctx, recorded)
			return slowest, err
		}},
		{fmt.Sprintf("slowest command, %d blockers", answered), "manager blockers", 1, func(ctx context.Context) (float64, error) {
			return w.blockerCommands(ctx, answered)
		}},
		{fmt.Sprintf("slowest step, %d blockers", answered), "manager blockers clarify", 2, func(ctx context.Context) (float64, error) {
			return w.clarify(ctx, answered)
		}},
	} {
		if _, err := exec.LookPath("script"); strings.HasSuffix(m.what, "clarify") && err != nil {
			w.note("clarify is not measured: install script, of util-linux")
			continue
		}
		results, err := w.race(ctx, 3, contender{m.what, m.once})
		if err != nil {
			return all, err
		}
		all = append(all, fixed(m.name, m.what, results[0], m.limit, milliseconds))
	}
	return all, nil
}

// record records n blockers in a new project, at most 50 per session, and returns the seconds of the slowest.
func (w *world) record(ctx context.Context, n int) (dir string, slowest float64, err error) {
	if dir, err = os.MkdirTemp(w.root, "blockers"); err != nil {
		return "", 0, err
	}
	register, err := blockers.Open(blockers.Config{Root: dir, Enabled: true})
	if err != nil {
		return "", 0, err
	}
	for i := range n {
		took, err := timed(func() error {
			_, err := register.Raise(ctx, boulder.BlockerScope{SessionID: fmt.Sprintf("ses_%d", i/50)}, boulder.Blocker{
				Category: boulder.BlockerArchitecture, Question: fmt.Sprintf("Which way, of question %d?", i),
				Context: "There are two, and both cost a week.", Hard: true,
			})
			return err
		})
		if err != nil {
			return "", 0, err
		}
		slowest = max(slowest, took)
	}
	return dir, slowest, nil
}

// blockerCommands returns the seconds of the slowest command with n blockers.
func (w *world) blockerCommands(ctx context.Context, n int) (slowest float64, err error) {
	dir, _, err := w.record(ctx, n)
	if err != nil {
		return 0, err
	}
	for _, args := range [][]string{
		{"list"}, {"status"}, {"show", "W1"}, {"export"}, {"on"}, {"off", "--session", "ses_0"}, {"answer", "W1", "The first way."},
		{"skip", "W2"},
	} {
		took, err := timed(func() error { return w.run(ctx, dir, w.manager, append([]string{"blockers"}, args...)...) })
		if err != nil {
			return 0, err
		}
		w.detail("blockers %s: %.6g", args[0], took)
		slowest = max(slowest, took)
	}
	return slowest, nil
}

// readsKeys enables bracketed paste. A program sends it when it begins to read keys.
const readsKeys = "\x1b[?2004h"

// clarify answers n blockers on a terminal from script(1), and returns the longest wait for the next one to be shown.
func (w *world) clarify(ctx context.Context, n int) (slowest float64, err error) {
	dir, _, err := w.record(ctx, n)
	if err != nil {
		return 0, err
	}
	p := w.command(ctx, dir, "script", "-qefc", "stty cols 80 rows 24; exec "+w.manager+" blockers clarify", filepath.Join(dir, "typescript"))
	p.Env = append(p.Env, "TERM=xterm")
	p.Stdout = nil
	keys, err := p.StdinPipe()
	if err != nil {
		return 0, err
	}
	screen, err := p.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := p.Start(); err != nil {
		return 0, err
	}
	for left := n; left > 0; left-- {
		began := time.Now()
		err := readUntil(screen, fmt.Sprintf("─ %d left", left), readsKeys)
		slowest = max(slowest, time.Since(began).Seconds())
		for _, step := range []func() error{
			func() error { _, err := io.WriteString(keys, "x"); return err },
			func() error { return readUntil(screen, "x") }, // in one write both keys would count as an unfinished paste
			func() error { _, err := io.WriteString(keys, "\r"); return err },
		} {
			if err == nil {
				err = step()
			}
		}
		if err != nil {
			return 0, errors.Join(err, p.killGroup(), p.finish())
		}
	}
	_, err = io.Copy(io.Discard, screen)
	return slowest, errors.Join(err, p.finish())
}

// readUntil reads until the texts have appeared, in this order.
func readUntil(r io.Reader, texts ...string) error {
	var seen []byte
	chunk := make([]byte, 4096)
	for len(texts) > 0 {
		n, err := r.Read(chunk)
		seen = append(seen, chunk[:n]...)
		for len(texts) > 0 {
			_, after, found := bytes.Cut(seen, []byte(texts[0]))
			if !found {
				break
			}
			seen, texts = after, texts[1:]
		}
		if err != nil && len(texts) > 0 {
			return fmt.Errorf("no %q on the terminal: %w: %s", texts[0], err, oneLine(string(seen)))
		}
	}
	return nil
}
