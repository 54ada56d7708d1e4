package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/workspace"
)

// Left is something that manager left in the project or in OpenCode.
type Left struct {
	Kind      string `json:"kind"` // slots, pool, refs, sessions, temporary; of an uninstall also state, file and setting
	BoulderID string `json:"boulder_id,omitempty"`
	Path      string `json:"path,omitempty"`
	Count     int    `json:"count,omitempty"` // of refs or sessions
	Bytes     int64  `json:"bytes,omitempty"`
	Stays     string `json:"stays,omitempty"` // why it is not removed

	remove func(context.Context) error
}

// NewLeft is something outside of the project's state. remove is not called if it stays.
func NewLeft(kind, path, stays string, remove func(context.Context) error) Left {
	l := Left{Kind: kind, Path: path, Bytes: workspace.Size(path), Stays: stays, remove: remove}
	if stays != "" {
		l.remove = nil
	}
	return l
}

// Leftovers finds what nothing needs any more: slots and refs of boulders that are over, the slots that wait for the next
// boulder, which then makes its own, sessions of archived boulders in OpenCode, and temporary directories of killed processes.
// What has results that did not land, or that the user went on with, is listed with the reason for which it stays. warn is why
// OpenCode was not asked for its sessions.
func (p *Project) Leftovers(ctx context.Context) (all []Left, warn, err error) {
	if err := p.OpenWorkspace(ctx); err != nil {
		return nil, nil, err
	}
	if !p.Exists() { // but gates may have been tried
		return p.pooled(), nil, nil
	}
	dirs := p.slots().Directories() // before the boulders: those that begin meanwhile are none of them
	refs, err := p.slots().Refs(ctx)
	if err != nil {
		return nil, nil, err
	}
	known, err := p.allBoulders(ctx)
	if err != nil {
		return nil, nil, err
	}
	ofBoulder, aside := byBoulder(refs)
	old := map[string]string{}
	for id, refs := range aside {
		if b := known[id]; b != nil && time.Since(droppedAt(b)) > keepDropped {
			maps.Copy(old, refs)
		}
	}
	for id := range ofBoulder {
		dirs = append(dirs, id)
	}
	slices.Sort(dirs)
	for _, id := range slices.Compact(dirs) {
		for _, l := range p.leftOf(id, known[id], ofBoulder[id]) {
			if free := l.remove; free != nil && l.Kind == "slots" {
				l.remove = func(ctx context.Context) error { return errors.Join(free(ctx), p.slots().EmptyPool()) }
			}
			all = append(all, l)
		}
	}
	all = append(all, p.pooled()...)
	if len(old) > 0 {
		all = append(all, Left{Kind: "refs", Path: "refs/manager/dropped", Count: len(old), remove: func(ctx context.Context) error {
			return p.slots().DropRefs(ctx, old)
		}})
	}
	for _, path := range p.slots().Temporary(time.Now()) {
		all = append(all, Left{Kind: "temporary", Path: path, Bytes: workspace.Size(path), remove: func(context.Context) error {
			return os.RemoveAll(path)
		}})
	}
	sessions, warn := p.leftSessions(ctx, known, false)
	return append(all, sessions...), warn, nil
}

// Abandoned finds the directories of slots of projects that are gone, or have lost their state. Unless the user has them go, they
// stay, since such a project may only be away.
func (p *Project) Abandoned(ctx context.Context, goes bool) (all []Left, err error) {
	gone, err := p.AbandonedSlots(ctx)
	for of, dirs := range gone {
		for _, dir := range dirs {
			l := Left{Kind: "slots", Path: dir, Bytes: workspace.Size(dir)}
			switch {
			case workspace.KeepsFiles(dir):
				l.Stays = keptFiles
			case goes && workspace.UsedLately(dir, time.Now()):
				l.Stays = fmt.Sprintf("something in it changed in the last day: %s may have been moved, and be at work", of)
			case goes:
				l.remove = func(context.Context) error { return workspace.RemoveAbandoned(dir) }
			default:
				l.Stays = fmt.Sprintf("of %s, which is gone or has lost its state: `manager gc --abandoned` removes it", of)
			}
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b Left) int { return cmp.Compare(a.Path, b.Path) })
	return all, err
}

// pooled lists the slots that wait for the next boulder.
func (p *Project) pooled() (all []Left) {
	for _, d := range p.slots().Pooled() {
		all = append(all, Left{Kind: "pool", Path: d.Path, Bytes: workspace.Size(d.Path), remove: func(context.Context) error {
			return p.slots().EmptyPool()
		}})
	}
	return all
}

// Pooled returns how many slots wait for the next boulder, and what they occupy. Call [Project.OpenWorkspace] before.
func (p *Project) Pooled() (slots int, bytes int64) {
	for _, d := range p.slots().Pooled() {
		slots, bytes = slots+d.Slots, bytes+workspace.Size(d.Path)
	}
	return slots, bytes
}

// byBoulder returns refs of manager's by their boulders, apart those of what was put aside.
func byBoulder(refs map[string]string) (of, aside map[string]map[string]string) {
	of, aside = map[string]map[string]string{}, map[string]map[string]string{}
	for ref, commit := range refs {
		all, id := of, strings.Split(ref, "/")[2]
		if id == "dropped" {
			all, id = aside, strings.Split(ref, "/")[3]
		}
		if all[id] == nil {
			all[id] = map[string]string{}
		}
		all[id][ref] = commit
	}
	return of, aside
}

// droppedAt is when work of a boulder that is not in its results was put aside.
func droppedAt(b *boulder.Snapshot) time.Time {
	return cmp.Or(b.Boulder.Trunk.LandedAt, b.Boulder.ArchivedAt, time.Now())
}

// allBoulders reads every boulder. One that cannot be read is an error: it would count as unknown.
func (p *Project) allBoulders(ctx context.Context) (known map[string]*boulder.Snapshot, err error) {
	known = map[string]*boulder.Snapshot{}
	err = p.reading(ctx, func(there *Access) error {
		items, err := there.Listing(ctx)
		for _, i := range items {
			b, readErr := there.Get(ctx, i.BoulderID)
			known[i.BoulderID], err = &b, cmp.Or(err, readErr)
		}
		return err
	})
	return known, err
}

// leftOf says what is left of the slots and refs of a boulder; b is nil if the state does not know it.
func (p *Project) leftOf(id string, b *boulder.Snapshot, refs map[string]string) []Left {
	slots := Left{Kind: "slots", BoulderID: id, Path: p.slots().Directory(id)}
	commits := Left{Kind: "refs", BoulderID: id, Path: "refs/manager/" + id, Count: len(refs)}
	there := exists(slots.Path)
	if there {
		slots.Bytes = workspace.Size(slots.Path)
	}
	switch {
	case id == trialID: // it is at work, or the next one takes it
		return nil
	case b == nil && there:
		slots.Stays = unknownBoulder
		return []Left{slots}
	case b == nil:
		commits.Stays = foreignRefs
		return []Left{commits}
	case !b.Boulder.Status.Terminal() || !b.Boulder.Isolated():
		return nil
	}
	var all []Left
	over := b.Boulder.Trunk.Landed != nil || !b.Boulder.Unlanded() && !b.Boulder.ArchivedAt.IsZero()
	switch {
	case over && there:
		slots.remove = func(ctx context.Context) error { return p.freeAll(ctx, b) }
		all = append(all, slots)
	case over && len(refs) > 0:
		commits.remove = func(ctx context.Context) error { return p.freeAll(ctx, b) }
		all = append(all, commits)
	case over:
	case there && p.slots().HoldsKept(id):
		slots.Stays = keptFiles
		all = append(all, slots)
	case there:
		slots.remove = func(ctx context.Context) error { return p.slots().Release(ctx, id, b.Boulder.Trunk.Base) }
		all = append(all, slots)
	}
	if b.Boulder.Unlanded() && len(refs) > 0 {
		commits.Stays = fmt.Sprintf("its results have not landed: manager land %s, or with --drop", boulder.ShortID(id))
		all = append(all, commits)
	}
	return all
}

const (
	unknownBoulder = "its boulder is not known here: take what you need, then remove it yourself"
	foreignRefs    = "its boulder is not known here: it may be of another worktree of this repository, and at work"
	keptFiles      = "git cannot store some of its files, which are nowhere else: take what you need, then remove it"
)

// freeAll removes slots and refs of a boulder that has no results to land. What was put aside goes [keepDropped] later.
func (p *Project) freeAll(ctx context.Context, b *boulder.Snapshot) error {
	return p.free(ctx, b, cmp.Or(b.Boulder.Trunk.Landed, &boulder.Landed{How: boulder.LandedDropped}))
}

// Remove removes what was found, except for what stays.
func (p *Project) Remove(ctx context.Context, l Left) error {
	if l.remove == nil {
		return nil
	}
	if err := l.remove(ctx); err != nil {
		return fmt.Errorf("remove %s %s: %w", l.Kind, cmp.Or(l.Path, l.BoulderID), err)
	}
	return nil
}

// PutAway is what belongs to archiving boulders: their slots are removed, and their sessions are archived in OpenCode, or with
// undo brought back.
func (p *Project) PutAway(ctx context.Context, ids []string, undo bool) error {
	at := time.Now()
	if undo {
		at = time.Time{}
	}
	for _, id := range ids {
		if err := p.archiveSessions(ctx, id, at); err != nil {
			return fmt.Errorf("its sessions stay in OpenCode's lists: %w", err)
		}
	}
	if undo {
		return nil
	}
	if err := p.OpenWorkspace(ctx); err != nil {
		return err
	}
	for _, id := range ids {
		b, err := p.Snapshot(ctx, id)
		if err != nil {
			return err
		}
		refs, err := p.slots().Refs(ctx)
		if err != nil {
			return err
		}
		maps.DeleteFunc(refs, func(ref, _ string) bool { return !strings.HasPrefix(ref, "refs/manager/"+id+"/") })
		for _, l := range p.leftOf(id, &b, refs) {
			if err := p.Remove(ctx, l); err != nil {
				return err
			}
		}
	}
	return nil
}
