package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
)

const (
	blockersRounds = 15
	// mostOfBlockers and mostOfClarify are SC-005 and SC-006 of seeds/003, in seconds.
	mostOfBlockers = 1
	mostOfClarify  = 2
	perSession     = 50 // blockers of a session, the most there may be
)

// measureBlockers compares commands about blockers, and the time until `clarify` has asked its first question on a
// terminal, with the start of the same program that does nothing.
func measureBlockers(ctx context.Context, w *world) ([]comparison, error) {
	var all []comparison
	for _, n := range []int{perSession, 20 * perSession} {
		dir, err := w.project(ctx, fmt.Sprintf("blockers-%d", n))
		if err != nil {
			return nil, err
		}
		if err := fillBlockers(ctx, dir, n); err != nil {
			return nil, err
		}
		some, err := w.raceBlockers(ctx, dir, n)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func (w *world) raceBlockers(ctx context.Context, dir string, n int) ([]comparison, error) {
	command := func(name string, args ...string) contender {
		return contender{name, func(ctx context.Context) (float64, error) {
			return timed(func() error { return w.run(ctx, dir, w.manager, args...) })
		}}
	}
	next := n // each answer is to another one, the newest first: clarify shows the oldest
	contenders := []contender{
		command("version", "version"),
		command("list", "blockers", "list"),
		command("show", "blockers", "show", "B1"),
		command("status", "blockers", "status"),
		{"answer", func(ctx context.Context) (float64, error) {
			id := fmt.Sprintf("B%d", next)
			next--
			return timed(func() error { return w.run(ctx, dir, w.manager, "blockers", "answer", id, "Yes, the second one.") })
		}},
		{"clarify", func(ctx context.Context) (float64, error) {
			return timed(func() error { return w.screen(ctx, dir, "B1> ", w.manager, "blockers", "clarify") })
		}},
	}
	results, err := w.race(ctx, blockersRounds, contenders...)
	if err != nil {
		return nil, err
	}
	base := side{"manager version", results[0]}
	var all []comparison
	for i, c := range contenders[1:] {
		x := comparison{
			name: fmt.Sprintf("blockers %s, %d blockers", c.name, n), theirs: base,
			ours: side{"manager blockers " + c.name, results[i+1]}, format: milliseconds, most: mostOfBlockers,
		}
		if c.name == "clarify" {
			x.name, x.most = fmt.Sprintf("first question of clarify, %d blockers", n), mostOfClarify
		}
		all = append(all, x)
	}
	return all, nil
}

// screen runs a program on a terminal until a text is to be seen there, and ends it.
func (w *world) screen(ctx context.Context, dir, text, name string, args ...string) (err error) {
	master, slave, err := openTerminal()
	if err != nil {
		return err
	}
	defer master.Close()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, slices.Concat(w.env, []string{"TERM=xterm"})
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	slave.Close()
	if err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if err := master.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	var seen bytes.Buffer
	buf := make([]byte, 4096)
	for !bytes.Contains(seen.Bytes(), []byte(text)) {
		n, err := master.Read(buf)
		seen.Write(buf[:n])
		if err != nil {
			return fmt.Errorf("%s %v did not show %q: %w: %s", name, args, text, err, oneLine(seen.String()))
		}
	}
	return nil
}

// fillBlockers makes a project with one boulder, whose sub-tasks wait for answers to n blockers: every other one is hard.
func fillBlockers(ctx context.Context, dir string, n int) (err error) {
	state := filepath.Join(dir, store.DirName)
	if err := os.MkdirAll(state, 0o700); err != nil {
		return err
	}
	at := time.Now().Add(-time.Duration(n+1) * time.Hour)
	desk, err := blockers.Open(blockers.Config{
		Root: dir, Path: filepath.Join(state, blockers.FileName), Enabled: true,
		// One an hour, as over some nights: what was written into blockers.md lately is looked for with every command.
		Now: func() time.Time { return at },
	})
	if err != nil {
		return err
	}
	b := &blocked{now: time.Now().Add(-time.Hour), state: boulder.NewState()}
	b.begin(dir, n/perSession)
	for i := range n {
		at = at.Add(time.Hour)
		ref := boulder.AttemptRef{SubTaskID: b.ids[i%len(b.ids)], Attempt: 1}
		hard := i%2 == 0
		in := blockers.Input{
			Category: "architecture", Question: fmt.Sprintf("Which of the three ways for part %d?", i), BlocksProgress: &hard,
			Context: string(bytes.Repeat([]byte("What a person has to know who decides it. "), 20)),
			Options: []string{"the first", "the second", "the third"}, ChosenOption: "the first", ChosenReasoning: "It is simple.",
		}
		raised, _, err := desk.Raise(ctx, boulder.BlockerScope{
			BoulderID: b.state.Boulder.ID, SubTaskID: ref.SubTaskID, Attempt: 1, SessionID: "ses_" + ref.SubTaskID,
		}, in)
		if err != nil {
			return err
		}
		b.apply(boulder.BlockerRaised{AttemptRef: ref, Blocker: raised})
	}
	b.park()
	at = time.Now()
	if err := errors.Join(b.err, desk.Flush(ctx)); err != nil {
		return err
	}
	db, err := store.Open(filepath.Join(state, store.FileName), store.Options{})
	if err != nil {
		return err
	}
	changes, _ := b.state.TakeChanges()
	return errors.Join(db.Commit(ctx, changes), db.Close())
}

// blocked makes a boulder that waits for a person.
type blocked struct {
	now   time.Time
	state *boulder.State
	ids   []string // sub-tasks
	err   error    // the first
}

func (b *blocked) apply(body boulder.Body) {
	if b.err == nil {
		b.now = b.now.Add(time.Millisecond)
		_, b.err = b.state.Apply(boulder.Event{Time: b.now.UTC(), BoulderID: "01blocked", Body: body})
	}
}

// begin has n sub-tasks at work.
func (b *blocked) begin(project string, n int) {
	plan := boulder.Plan{Version: 1, Task: "Decide", Goal: "All is decided"}
	for i := range n {
		b.ids = append(b.ids, fmt.Sprintf("part-%d", i+1))
		plan.SubTasks = append(plan.SubTasks, boulder.Spec{ID: b.ids[i], Subject: "Do a part", Description: "Do it."})
	}
	revision := boulder.PlanRevision{Number: 1, Plan: plan, Hash: plan.Hash(), Origin: boulder.OriginModel, AdoptedAt: b.now}
	b.apply(boulder.Created{Boulder: boulder.Boulder{ID: "01blocked", Task: plan.Task, Project: project, Model: agentModel}})
	b.apply(boulder.Planned{Revision: 1, Origin: boulder.OriginModel, Plan: revision})
	b.apply(boulder.Decomposed{Revision: 1, Origin: boulder.OriginModel, Goal: plan.Goal, Plan: revision})
	for _, id := range b.ids {
		ref := boulder.AttemptRef{SubTaskID: id, Attempt: 1}
		b.apply(boulder.Starting{AttemptRef: ref, Tag: "tag", Prompt: "Do it."})
		b.apply(boulder.SubTaskStart{AttemptRef: ref, Description: "Do a part", SessionID: "ses_" + id})
		b.apply(boulder.TurnSent{AttemptRef: ref, Turn: 1, Kind: boulder.TurnBrief, MessageID: "msg_" + id})
	}
}

// park ends all turns and the run.
func (b *blocked) park() {
	const reason = "waits for an answer"
	for _, id := range b.ids {
		ref := boulder.AttemptRef{SubTaskID: id, Attempt: 1}
		b.apply(boulder.TurnEnded{AttemptRef: ref, Turn: 1})
		b.apply(boulder.Parked{AttemptRef: ref, Reason: reason, Digest: reason})
	}
	b.apply(boulder.StatusChanged{Status: boulder.Paused, Reason: reason})
}
