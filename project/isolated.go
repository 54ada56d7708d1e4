package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/project/internal/config"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/workspace"
)

// Slots adapts the slots of a workspace to the executor.
type Slots struct{ *workspace.Slots }

// Prepare implements executor.Slots.
func (s Slots) Prepare(ctx context.Context, c boulder.SlotClaim) (executor.Slot, error) {
	slot, err := s.Slots.Prepare(ctx, c)
	if err != nil {
		return nil, err
	}
	return slot, nil
}

// passedLately is how long the gates of a boulder count for the trial of another one: what is installed changes.
const passedLately = 24 * time.Hour

// passedBefore returns the commands that passed in slots of isolated boulders of the last day.
func (p *Project) passedBefore(db *store.DB) executor.PassedBefore {
	return func(ctx context.Context, tree, setUp string) (commands []string) {
		all, _ := db.Listing(ctx) // one that cannot be read is not known to have passed anything
		for _, item := range all {
			if time.Since(item.UpdatedAt) > passedLately {
				continue
			}
			b, unreadable := db.Get(ctx, item.BoulderID)
			if l := &b.Boulder.Trunk; unreadable == nil && l.SetUp == setUp {
				for _, g := range l.Green {
					if g.Tree == tree && !slices.Contains(commands, g.Command) {
						commands = append(commands, g.Command)
					}
				}
			}
		}
		return commands
	}
}

// LikeProject implements executor.Slots.
func (s Slots) LikeProject(ctx context.Context, c boulder.SlotClaim) (executor.Slot, func() error, string, error) {
	like, remove, why, err := s.Slots.LikeProject(ctx, c)
	if err != nil || like == nil {
		return nil, nil, why, err
	}
	return like, remove, "", nil
}

func (p *Project) setUp(c config.Slots) *workspace.SetUp {
	run := func(ctx context.Context, dir string, env []string, line string) boulder.Gate {
		p.note("Setting up a slot: %s", p.secrets.Text(line))
		return p.runCommand(ctx, dir, env, line)
	}
	return &workspace.SetUp{Copy: c.Copy, Commands: c.Setup, When: c.SetupWhen, Env: c.Environ(), Keep: c.Keep, Run: run}
}

// runCommand runs a configured command as gates run. env adds to the usual environment.
func (p *Project) runCommand(ctx context.Context, dir string, env []string, line string) boulder.Gate {
	usual, err := p.environ()
	if err != nil {
		return boulder.Gate{Command: line, ExitCode: -1, Output: err.Error()}
	}
	timeout := cmp.Or(p.cfg.GateTimeout, executor.DefaultGateTimeout)
	return executor.RunCommand(ctx, dir, slices.Concat(usual, env), line, timeout, p.secrets.Text)
}

// TakeBack implements executor.Slots.
func (s Slots) TakeBack(ctx context.Context, change boulder.TreeChange) error {
	_, err := s.Slots.TakeBack(ctx, change.From, change.To, false)
	return err
}

// isolate decides whether a new boulder works in slots, and creates the commit at which they begin. The request
// overrides the plan, and the plan the configuration. If slots are not possible, the user is told why it runs in
// place.
func (p *Project) isolate(ctx context.Context, req *Request) (err error) {
	if !req.CleanBase {
		if err := p.checkMarkers(ctx); err != nil {
			return err
		}
	}
	var plan boulder.Plan
	if req.Plan != nil {
		plan = *req.Plan
	}
	req.Isolation = cmp.Or(req.Isolation, p.isolation(&plan))
	req.Scope = cmp.Or(plan.Scope, p.cfg.Scope)
	req.Generated = map[string]string{ // built in
		"go.sum": "go mod tidy", "package-lock.json": "npm install --package-lock-only --ignore-scripts",
		"pnpm-lock.yaml": "pnpm install --lockfile-only", "Cargo.lock": "cargo update --workspace", "uv.lock": "uv lock",
		"poetry.lock": "poetry lock",
	}
	maps.Copy(req.Generated, p.cfg.Generated)
	maps.Copy(req.Generated, plan.Generated)
	req.IntegrationGates = p.cfg.IntegrationGates
	if len(plan.IntegrationGates) > 0 {
		req.IntegrationGates = plan.IntegrationGates
	}
	if req.Isolation != boulder.IsolationAlways && req.Isolation != boulder.IsolationAuto || req.Loop != nil {
		return nil
	}
	for _, s := range plan.SubTasks {
		if req.Isolation == boulder.IsolationAlways && boulder.ReservedID(s.ID) {
			return usagef("sub-tasks of an isolated run cannot be called %q: give it another id in the plan, or run it with --in-place", s.ID)
		}
	}
	req.InPlace, err = p.slots().Unsupported(ctx)
	switch {
	case err != nil:
		return err
	case req.InPlace != "" && req.Isolation == boulder.IsolationAlways:
		p.warn("the sub-tasks work in your files, not in copies: %s", req.InPlace)
	case req.InPlace != "" && p.NoDiffs() == "": // else the note about missing diffs gives the same reason
		p.note("The sub-tasks work in your files, not in copies: %s.", req.InPlace)
	}
	if req.InPlace != "" {
		return nil
	}
	req.SlotBase, err = p.slots().Base(ctx, req.CleanBase, time.Now())
	return err
}

// Change is what one sub-task changed.
type Change struct {
	SubTask  *boulder.SubTask
	From, To string   // commits, or snapshots if it worked in place
	Files    []string // only these are shown; nil: all
	OnTip    bool     // part of the results of an isolated boulder
}

// Changes returns the change of each sub-task: the commits on the line of an isolated boulder, in order, else what each
// changed in place. only selects one sub-task, with what its slot holds so far; that it has no change is an error then.
func Changes(b *boulder.Snapshot, events []boulder.Event, only string) (all []Change, err error) {
	byID := map[string]*boulder.SubTask{}
	for _, t := range b.SubTasks {
		byID[t.ID] = t
		c := Change{SubTask: t, From: t.Snapshot, To: t.Tree}
		if t.Shared {
			c.Files = append([]string{}, t.Files...)
		}
		if b.Boulder.Isolated() {
			c = Change{SubTask: t, From: t.Work + "^", To: t.Work} // not t.From, which moves on after a conflict
		}
		wanted := only == t.ID && t.Integrated == "" || only == "" && !b.Boulder.Isolated()
		if wanted && c.From != "" && c.To != "" {
			all = append(all, c)
		}
	}
	tip := b.Boulder.Trunk.Base
	for _, e := range events {
		switch i := e.Body.(type) {
		case boulder.Redone:
			tip = i.Tip
		case boulder.Integrated:
			if t := byID[i.SubTaskID]; t != nil && t.Integrated == i.Commit && (only == "" || only == t.ID) {
				all = append(all, Change{SubTask: t, From: tip, To: i.Commit, OnTip: true})
			}
			tip = i.Commit
		}
	}
	if t := byID[only]; t != nil && len(all) == 0 {
		return nil, fmt.Errorf("sub-task %q has no change to show: no snapshot was taken after a turn of it", t.ID)
	}
	return all, nil
}

// Patch returns git's full output for a change; how is -p, --binary, --stat or --name-only. Call [Project.OpenWorkspace] before.
func (p *Project) Patch(ctx context.Context, c Change, how string) (string, error) {
	if c.Files != nil && len(c.Files) == 0 {
		return "", nil
	}
	return p.work().Patch(ctx, c.From, c.To, how, slices.Clone(c.Files))
}

// PatchOf returns as one patch, without secrets, what a sub-task changed or, with an empty id, what all of them did. It may be
// called while others work on the user's files.
func (p *Project) PatchOf(ctx context.Context, r *Reading, subTask string) (string, error) {
	all := []Change{wholeOf(&r.Snapshot)}
	if subTask != "" {
		var err error
		if all, err = Changes(&r.Snapshot, r.Events, subTask); err != nil {
			return "", err
		}
	}
	work, err := workspace.Open(ctx, p.dir, p.blockersFiles()...) // not that of p, which a landing may use now
	if err != nil {
		return "", err
	}
	var patch strings.Builder
	for _, c := range all {
		if c.From == "" || c.To == "" {
			return "", errors.New("no snapshot was taken")
		}
		if c.From == c.To || c.Files != nil && len(c.Files) == 0 {
			continue
		}
		of, err := work.Patch(ctx, c.From, c.To, "-p", slices.Clone(c.Files))
		if err != nil {
			return "", err
		}
		patch.WriteString(of)
	}
	return p.secrets.Text(patch.String()), nil
}

// wholeOf returns the change of all sub-tasks together: to the tip, or in place from before the first attempt to the newest
// end of a turn. In place it has only files of sub-tasks: the user may have worked on others.
func wholeOf(b *boulder.Snapshot) (c Change) {
	if b.Boulder.Isolated() {
		return Change{From: b.Boulder.Trunk.Base, To: b.Boulder.Trunk.Tip, OnTip: true}
	}
	byID := map[string]*boulder.SubTask{}
	for _, t := range b.SubTasks {
		byID[t.ID] = t
		c.Files = append(c.Files, t.Files...)
		for _, f := range t.Changes {
			c.Files = append(c.Files, f.Path)
		}
	}
	slices.Sort(c.Files)
	c.Files = append([]string{}, slices.Compact(c.Files)...)
	var newest time.Time
	for _, a := range b.Attempts {
		t := byID[a.SubTaskID]
		if c.From == "" {
			c.From = t.Snapshot
		}
		if t.Tree != "" && !a.UpdatedAt.Before(newest) {
			c.To, newest = t.Tree, a.UpdatedAt
		}
	}
	return c
}
