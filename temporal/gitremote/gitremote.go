// Package gitremote shares the results of isolated sub-tasks between clones of a repository, on one machine each, by a
// git remote that all of them reach. A boulder's commits are there under refs/manager/<boulder>/, as package workspace
// has them in a clone: base, tip, and <sub-task>/<attempt> with what an attempt left. An ordinary clone does not get
// these.
//
// A ref is moved only from where it is known to be. A worker that was given up and comes back is refused where another
// one has published since.
//
// Workers need the right to push; how they log in is git's and ssh's business on each machine.
package gitremote

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/workspace"
)

// Remote is a git remote, as seen from a clone. Its methods may be called from many goroutines and processes at once.
type Remote struct {
	URL   string // or the name that the clone has for it
	Clone *workspace.Slots

	fetching sync.Mutex
}

const (
	// patience is for how long a remote is tried again that cannot be reached.
	patience = time.Minute
	tryEvery = 3 * time.Second
)

func ref(boulderID string, name ...string) string {
	return "refs/manager/" + boulderID + "/" + strings.Join(name, "/")
}

// keeping is the ref of a commit that the log may name before the tip is there.
func keeping(commit string) string { return "tip." + commit[:10] } // as [workspace.Slots.MoveTip] calls it

// Begin publishes where a boulder begins, a commit of the clone. It may be called again until the tip has moved.
func (r *Remote) Begin(ctx context.Context, boulderID, base string) error {
	return r.push(ctx, workspace.RefMove{Ref: ref(boulderID, "base"), To: base}, workspace.RefMove{Ref: ref(boulderID, "tip"), To: base})
}

// Fetch brings what the remote has of a boulder.
func (r *Remote) Fetch(ctx context.Context, boulderID string) error {
	r.fetching.Lock()
	defer r.fetching.Unlock()
	all := ref(boulderID, "*")
	return r.patiently(ctx, func() error { return r.Clone.Fetch(ctx, r.URL, "+"+all+":"+all) })
}

// Publish keeps a commit of the clone for all others, before the log names it.
func (r *Remote) Publish(ctx context.Context, boulderID, commit string) error {
	return r.push(ctx, workspace.RefMove{Ref: ref(boulderID, keeping(commit)), To: commit})
}

func (r *Remote) push(ctx context.Context, moves ...workspace.RefMove) error {
	return r.patiently(ctx, func() error { return r.Clone.Push(ctx, r.URL, moves...) })
}

// patiently repeats what fails, also because another process of the clone does the same.
func (r *Remote) patiently(ctx context.Context, do func() error) error {
	for begun := time.Now(); ; {
		err := do()
		switch {
		case err == nil || errors.Is(err, workspace.ErrMoved) || ctx.Err() != nil:
			return err
		case time.Since(begun) > patience:
			return fmt.Errorf("%w: %w", boulder.ErrTrouble, err)
		}
		select {
		case <-time.After(tryEvery):
		case <-ctx.Done():
		}
	}
}

// Boulders are those that the remote has something of.
func (r *Remote) Boulders(ctx context.Context) (ids []string, err error) {
	there, err := r.Clone.Remote(ctx, r.URL, ref("*", "base"))
	for name := range there {
		ids = append(ids, strings.Split(name, "/")[2])
	}
	return ids, err
}

// End deletes what the remote has of a boulder. Clones follow with their next [Remote.Sweep].
func (r *Remote) End(ctx context.Context, boulderID string) error {
	there, err := r.Clone.Remote(ctx, r.URL, ref(boulderID, "*"))
	if err != nil || len(there) == 0 {
		return err
	}
	var gone []workspace.RefMove
	for name, at := range there {
		gone = append(gone, workspace.RefMove{Ref: name, From: at})
	}
	return r.push(ctx, gone...)
}

// Sweep removes the slots and refs of boulders that the remote no longer has, except of those that are the clone's own.
func (r *Remote) Sweep(ctx context.Context, own func(boulderID string) bool) error {
	here, err := r.Clone.Kept(ctx) // before the remote is asked: one that begins meanwhile is on both
	if err != nil {
		return err
	}
	there, err := r.Boulders(ctx)
	if err != nil {
		return err
	}
	gone := map[string]bool{}
	for _, id := range here {
		gone[id] = true
	}
	for _, id := range there {
		delete(gone, id)
	}
	for id := range gone {
		base, err := r.Clone.Ref(ctx, id, "base")
		if err == nil && !own(id) {
			err = r.Clone.Free(ctx, id, base, true, func(string) bool { return true })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Slots are those of the clone, which begin with what others have published, and publish what they capture.
type Slots struct {
	executor.Slots
	Remote *Remote
}

// Prepare implements executor.Slots.
func (s *Slots) Prepare(ctx context.Context, c boulder.SlotClaim) (executor.Slot, error) {
	if err := s.Remote.Fetch(ctx, c.BoulderID); err != nil {
		return nil, err
	}
	switch base, err := s.Remote.Clone.Ref(ctx, c.BoulderID, "base"); {
	case err != nil:
		return nil, err
	case base != c.Base:
		return nil, fmt.Errorf("boulder %s is not on the git remote %s, or is over: its base there is %q and not %s", c.BoulderID, s.Remote.URL, base, c.Base)
	}
	own, err := s.Slots.Prepare(ctx, c)
	if err != nil {
		return nil, err
	}
	x := &slot{Slot: own, remote: s.Remote, given: ctx.Done(), boulderID: c.BoulderID, name: []string{c.SubTaskID, strconv.Itoa(c.Attempt)}}
	if c.SubTaskID != "" {
		x.seen, err = s.Remote.Clone.Ref(ctx, c.BoulderID, x.name...)
	}
	return x, err
}

// MoveTip implements executor.Slots.
func (s *Slots) MoveTip(ctx context.Context, boulderID, from, to string) error {
	if err := s.Remote.Fetch(ctx, boulderID); err != nil {
		return err
	}
	at, err := s.Remote.Clone.Ref(ctx, boulderID, "tip")
	if err != nil || at == to {
		return err
	}
	if err := s.Slots.MoveTip(ctx, boulderID, from, to); err != nil {
		return err
	}
	moves := []workspace.RefMove{{Ref: ref(boulderID, "tip"), From: from, To: to}}
	if kept, err := s.Remote.Clone.Ref(ctx, boulderID, keeping(from)); err == nil && kept == from {
		moves = append(moves, workspace.RefMove{Ref: ref(boulderID, keeping(from)), To: from})
	}
	return s.Remote.push(ctx, moves...)
}

// slot is one of an attempt.
type slot struct {
	executor.Slot
	remote    *Remote
	given     <-chan struct{} // until then the attempt is this worker's
	boulderID string
	name      []string
	seen      string // what the remote has of the attempt, as far as is known
}

// Capture implements executor.Slot. If another worker has published something of the attempt, that is replaced as long as the
// attempt is this one's; afterwards the error wraps [workspace.ErrMoved].
func (s *slot) Capture(ctx context.Context, tree string) (commit, captured string, err error) {
	commit, captured, err = s.Slot.Capture(ctx, tree)
	for err == nil {
		move := workspace.RefMove{Ref: ref(s.boulderID, s.name...), From: s.seen, To: commit}
		if err = s.remote.push(ctx, move); err == nil {
			s.seen = commit
			break
		}
		if !errors.Is(err, workspace.ErrMoved) {
			break
		}
		select {
		case <-s.given:
			return commit, captured, fmt.Errorf("attempt %s of %s was given to another worker: %w", s.name[1], s.name[0], err)
		default:
		}
		var there map[string]string
		there, err = s.remote.Clone.Remote(ctx, s.remote.URL, move.Ref)
		s.seen = there[move.Ref]
	}
	return commit, captured, err
}
