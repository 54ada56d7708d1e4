// Package gitremote shares the results of isolated sub-tasks between clones of a repository through a git remote. A
// boulder's commits are under refs/manager/<boulder>/, named as package workspace names them in a clone: base, tip, and
// <sub-task>/<attempt> for the result of an attempt. An ordinary clone does not fetch these refs.
//
// A push moves a ref only from its expected commit, so a worker that lost its work and returns cannot overwrite the
// results of its successor. Workers need push access; credentials are left to git and ssh.
package gitremote

import (
	"cmp"
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

// Remote is a git remote, as seen from a clone. Goroutines and processes may call its methods concurrently.
type Remote struct {
	URL   string // or the remote's name in the clone
	Clone *workspace.Slots

	fetching sync.Mutex
}

const (
	// patience is how long failing git commands are retried, tryEvery apart.
	patience = time.Minute
	tryEvery = 3 * time.Second
)

func ref(boulderID string, name ...string) string {
	return "refs/manager/" + boulderID + "/" + strings.Join(name, "/")
}

// keeping names the ref that keeps a commit which the log may name before the tip has moved to it.
func keeping(commit string) string { return "tip." + commit[:10] } // as [workspace.Slots.MoveTip] calls it

// Begin publishes a commit of the clone as base and tip of a boulder. It may be repeated until the tip moves.
func (r *Remote) Begin(ctx context.Context, boulderID, base string) error {
	return r.push(ctx, workspace.RefMove{Ref: ref(boulderID, "base"), To: base}, workspace.RefMove{Ref: ref(boulderID, "tip"), To: base})
}

// Fetch fetches all refs of a boulder.
func (r *Remote) Fetch(ctx context.Context, boulderID string) error {
	r.fetching.Lock()
	defer r.fetching.Unlock()
	all := ref(boulderID, "*")
	return r.patiently(ctx, func() error { return r.Clone.Fetch(ctx, r.URL, "+"+all+":"+all) })
}

// Publish pushes a commit so that all clones can fetch it. Call it before the log names the commit.
func (r *Remote) Publish(ctx context.Context, boulderID, commit string) error {
	return r.push(ctx, workspace.RefMove{Ref: ref(boulderID, keeping(commit)), To: commit})
}

func (r *Remote) push(ctx context.Context, moves ...workspace.RefMove) error {
	return r.patiently(ctx, func() error { return r.Clone.Push(ctx, r.URL, moves...) })
}

// patiently retries for network errors, and for conflicts with another process in the same clone.
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

// Boulders lists the boulders that have refs on the remote.
func (r *Remote) Boulders(ctx context.Context) (ids []string, err error) {
	there, err := r.Clone.Remote(ctx, r.URL, ref("*", "base"))
	for name := range there {
		ids = append(ids, strings.Split(name, "/")[2])
	}
	return ids, err
}

// End deletes a boulder's refs from the remote. Clones follow with their next [Remote.Sweep].
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

// Sweep removes the clone's slots and refs of boulders that the remote no longer has, unless own reports true.
func (r *Remote) Sweep(ctx context.Context, own func(boulderID string) bool) error {
	here, err := r.Clone.Kept(ctx) // list before the remote, so that a boulder that begins meanwhile is not swept
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

// Slots are the clone's slots. They start from what other clones published and publish what they capture.
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

type slot struct {
	executor.Slot
	remote    *Remote
	given     <-chan struct{} // closed when the attempt is no longer this worker's
	boulderID string
	name      []string
	seen      string // the attempt's commit on the remote, as last known; empty: none
}

// Capture implements executor.Slot. While the attempt is this worker's, it replaces what another worker published for
// it. Afterwards it returns an error that wraps [workspace.ErrMoved].
func (s *slot) Capture(ctx context.Context, tree string) (commit, captured string, err error) {
	commit, captured, err = s.Slot.Capture(ctx, tree)
	var incomplete error
	if _, partly := errors.AsType[*boulder.UnstoredError](err); partly {
		incomplete, err = err, nil
	}
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
	return commit, captured, cmp.Or(err, incomplete)
}
