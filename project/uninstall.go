package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/orphan"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project/internal/control"
	"github.com/bouldermgr/manager/project/internal/watch"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/taskledger"
	"github.com/bouldermgr/manager/workspace"
)

// Uninstall is what an uninstall removes from a project, and what it leaves.
type Uninstall struct {
	Left       []Left
	Unfinished []string // short ids of boulders that are not over
	Unlanded   []string // short ids of boulders whose results have not landed
	Marred     []string // short ids of boulders whose results have landed with conflicts, which can still be taken back
	Warn       error    // why OpenCode was not asked for its sessions
}

// Uninstall lists what manager has put into the project: state, refs, slots, sessions in OpenCode. What the user wrote stays.
// It is an error if a process of manager is at work here.
func (p *Project) Uninstall(ctx context.Context) (*Uninstall, error) {
	if err := p.idle(ctx); err != nil {
		return nil, err
	}
	if err := p.OpenWorkspace(ctx); err != nil {
		return nil, err
	}
	known, err := p.allBoulders(ctx)
	if err != nil && !errors.Is(err, ErrNothing) {
		return nil, fmt.Errorf("%w: look at %s yourself, then remove it", err, p.stateDir())
	}
	u := &Uninstall{}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		switch b := &known[id].Boulder; {
		case !b.Status.Terminal():
			u.Unfinished = append(u.Unfinished, boulder.ShortID(id))
		case b.Unlanded():
			u.Unlanded = append(u.Unlanded, boulder.ShortID(id))
		case b.Trunk.Landed != nil && b.Trunk.Landed.Marred() > 0 && time.Since(b.Trunk.LandedAt) <= keepDropped:
			u.Marred = append(u.Marred, boulder.ShortID(id))
		}
	}
	if u.Left, u.Warn = p.leftSessions(ctx, known, true); u.Warn != nil {
		u.Left = nil
	}
	refs, err := p.slots().Refs(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range p.slots().Directories() {
		l := Left{Kind: "slots", BoulderID: id, Path: p.slots().Directory(id), Bytes: workspace.Size(p.slots().Directory(id))}
		switch {
		case known[id] == nil && id != trialID:
			l.Stays = unknownBoulder
		case p.slots().HoldsKept(id):
			l.Stays = keptFiles
		default:
			l.remove = func(context.Context) error { return p.slots().Discard(id) }
		}
		u.Left = append(u.Left, l)
	}
	u.Left = append(u.Left, p.pooled()...)
	for _, path := range p.slots().Strays() {
		u.Left = append(u.Left, Left{Kind: "file", Path: path, Stays: notOwn})
	}
	u.Left = append(u.Left, p.leftRefs(refs, known)...)
	return u, p.addState(u)
}

const (
	listOfAsked = "your list of what agents asked"
	notOwn      = "not of manager's own"
)

// idle returns an error if a run, a server or a watch is at work in the project.
func (p *Project) idle(ctx context.Context) error {
	there, err := p.Dial(ctx)
	if err == nil {
		there.Close()
		h := there.Holder
		return fmt.Errorf("process %d is at work here (`%s`): end it first, with Ctrl-C where it runs or `kill %[1]d`", h.PID, h.Command)
	}
	if !errors.Is(err, ErrNotServed) {
		return err
	}
	report, err := p.AskWatch(ctx, WatchRequest{})
	if err == nil && report.Holder.PID != 0 {
		return fmt.Errorf("`manager watch` is at work here, as process %d: end it first", report.Holder.PID)
	}
	return nil // there is no watch, or no state of one
}

// leftRefs are the refs of boulders that the state knows, and those of others, which stay.
func (p *Project) leftRefs(refs map[string]string, known map[string]*boulder.Snapshot) (all []Left) {
	mine := map[string]string{}
	add := func(in string, of map[string]map[string]string) {
		for _, id := range slices.Sorted(maps.Keys(of)) {
			if known[id] != nil {
				maps.Copy(mine, of[id])
				continue
			}
			all = append(all, Left{Kind: "refs", BoulderID: id, Path: in + id, Count: len(of[id]), Stays: foreignRefs})
		}
	}
	of, aside := byBoulder(refs)
	add("refs/manager/", of)
	add("refs/manager/dropped/", aside)
	if len(mine) > 0 {
		all = append(all, Left{Kind: "refs", Path: "refs/manager", Count: len(mine), remove: func(ctx context.Context) error {
			return p.slots().DropRefs(ctx, mine)
		}})
	}
	return all
}

const slotsName = "slots"

// written are the entries of the state directory that manager writes itself.
var written = []string{
	".gitignore", store.FileName, control.SocketName, blockers.FileName, watch.FileName, "watch.sock", "serve.log", "night.json",
	orphan.DirName, slotsName, "slots.json", "runs", "config.schema.json", "plan.schema.json",
}

// addState adds the state directory, and what in it and of it is the user's.
func (p *Project) addState(u *Uninstall) error {
	if info, err := os.Lstat(p.stateDir()); err == nil && !info.IsDir() {
		u.Left = append(u.Left, Left{Kind: "file", Path: p.stateDir(), Stays: notOwn})
		return nil
	}
	entries, err := os.ReadDir(p.stateDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	state := Left{Kind: "state", Path: p.stateDir()}
	var mine []string // to be removed
	for _, entry := range entries {
		path := filepath.Join(p.stateDir(), entry.Name())
		if entry.Name() == slotsName && entry.IsDir() {
			continue // what is in it is among the slots
		}
		if stays := p.stays(path); stays != "" {
			u.Left = append(u.Left, Left{Kind: "file", Path: path, Stays: stays})
			continue
		}
		mine = append(mine, entry.Name())
		state.Bytes += workspace.Size(path)
	}
	state.Count = len(mine)
	state.remove = func(ctx context.Context) error { return p.removeState(ctx, mine) }
	if len(mine) > 0 {
		u.Left = append(u.Left, state)
	}
	for _, name := range blockers.Files(p.cfg.Blockers.File)[:1] {
		if path := filepath.Join(p.dir, filepath.FromSlash(name)); exists(path) && filepath.Dir(path) != p.stateDir() {
			u.Left = append(u.Left, Left{Kind: "file", Path: path, Stays: listOfAsked})
		}
	}
	return nil
}

// stays says why a file of the state directory is the user's; empty if manager may remove it.
func (p *Project) stays(path string) string {
	name := filepath.Base(path)
	switch {
	case slices.Contains(written, name):
		return ""
	case name == "plan.yaml":
		plan, err := taskledger.ReadFile(path)
		return text.If(err != nil || plan.Edited() || plan.Seal == nil, "you wrote or changed this plan")
	case name == "config.yaml":
		data, err := os.ReadFile(path)
		set := slices.ContainsFunc(strings.Split(string(data), "\n"), func(line string) bool {
			line = strings.TrimSpace(line)
			return line != "" && !strings.HasPrefix(line, "#")
		})
		return text.If(err != nil || set, "your configuration")
	}
	return cmp.Or(map[string]string{
		"plan.yaml.bak": "a plan that you changed", filepath.Base(blockers.DefaultFile): listOfAsked,
		"landing.json": "a landing is under way: `manager land` ends it",
	}[name], notOwn)
}

// removeState removes entries of the state directory, and the directory if nothing else is in it. OpenCode is stopped before.
func (p *Project) removeState(ctx context.Context, names []string) error {
	p.Close()
	if exists(p.database()) {
		db, err := p.openState(ctx, 0) // that no other process has it
		if err == nil {
			err = db.Close() // first: an open database would write itself back
		}
		if err != nil {
			return err
		}
	}
	if err := p.slots().Clear(); err != nil {
		return err
	}
	root, err := statedir.Open(p.dir, store.DirName) // no link is followed
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range names {
		if name == ".gitignore" {
			continue
		}
		if err := root.RemoveAll(name); err != nil {
			return err
		}
	}
	left, err := fs.ReadDir(root.FS(), ".")
	if err != nil || slices.ContainsFunc(left, func(e fs.DirEntry) bool { return e.Name() != ".gitignore" }) {
		return err
	}
	if err := root.RemoveAll(".gitignore"); err != nil {
		return err
	}
	return os.Remove(p.stateDir())
}
