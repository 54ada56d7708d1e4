// Package mirror has slots on any machine. A boulder's commits meet in a git remote, under refs/manager/<boulder>/: base, tip,
// and <sub-task>/<attempt> with what an attempt left. Each host has one copy of the remote, its mirror, for all its worker
// processes; slots are made from it as package workspace makes them from a project.
//
// A ref of an attempt is published once and never moved. So a worker that was given up and comes back cannot overwrite what
// the one that took its place has published: it gets [workspace.ErrMoved]. The tip is moved by compare-and-swap.
//
// An ordinary clone of the remote does not get these refs. Workers need the right to push; how they log in is git's and ssh's
// business on each host.
package mirror

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/workspace"
)

// Config says where a mirror is and what it is of.
type Config struct {
	// Remote is the URL of the git remote, without a password.
	Remote string
	// Dir is the project's directory in the repository, with slashes. Defaults to the top.
	Dir string
	// Cache is the directory of all mirrors of the host. Defaults to manager in the user's directory for caches.
	Cache string
	// SetUp and LeaveOut are those of [workspace.Slots].
	SetUp    *workspace.SetUp
	LeaveOut []string
}

// Mirror is a host's copy of a remote. Its methods may be called from many goroutines and processes at once.
type Mirror struct {
	// Slots has the commits of a boulder after [Mirror.Fetch]. Slots are made by [Mirror.Slot].
	Slots *workspace.Slots

	cache, repository string
}

// origin is the remote of every mirror.
const origin = "origin"

// Begin publishes where a boulder begins, a commit of the project. It may be called again until the tip has moved.
func Begin(ctx context.Context, project *workspace.Slots, remote, boulderID, base string) error {
	if err := check(remote); err != nil {
		return err
	}
	return project.Push(ctx, remote,
		workspace.RefMove{Ref: ref(boulderID, "base"), To: base}, workspace.RefMove{Ref: ref(boulderID, "tip"), To: base})
}

// Open makes the mirror, or finds it.
func Open(ctx context.Context, c Config) (*Mirror, error) {
	if err := check(c.Remote); err != nil {
		return nil, err
	}
	if c.Dir != "" && !filepath.IsLocal(filepath.FromSlash(c.Dir)) {
		return nil, fmt.Errorf("the project's directory %q is not in its repository", c.Dir)
	}
	if c.Cache == "" {
		caches, err := os.UserCacheDir()
		if err != nil {
			return nil, err
		}
		c.Cache = filepath.Join(caches, "manager")
	}
	err := os.MkdirAll(c.Cache, 0o700)
	if err == nil {
		c.Cache, err = filepath.EvalSymlinks(c.Cache)
	}
	if err != nil {
		return nil, err
	}
	m := &Mirror{cache: c.Cache, repository: filepath.Join(c.Cache, fmt.Sprintf("%x", sha256.Sum256([]byte(c.Remote)))[:16])}
	if err := m.locked(ctx, func() error { return m.clone(ctx, c.Remote) }); err != nil {
		return nil, fmt.Errorf("mirror of %s: %w", c.Remote, err)
	}
	dir := filepath.Join(m.repository, filepath.FromSlash(c.Dir))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	w, err := workspace.Open(ctx, dir, c.LeaveOut...)
	if err != nil {
		return nil, err
	}
	if w.Root() != m.repository {
		return nil, fmt.Errorf("the mirror %s of %s is broken: remove it", m.repository, c.Remote)
	}
	m.Slots = w.Slots(c.LeaveOut...)
	m.Slots.SetUp = c.SetUp
	return m, nil
}

func (m *Mirror) clone(ctx context.Context, remote string) error {
	if _, err := os.Stat(m.repository); err == nil {
		return nil
	}
	making := m.repository + ".new"
	err := os.RemoveAll(making)
	if err == nil {
		err = workspace.Clone(ctx, remote, making)
	}
	if err == nil {
		err = os.Rename(making, m.repository)
	}
	return err
}

// check refuses a password in a URL: slots have the URL, and with it the agents.
func check(remote string) error {
	if u, err := url.Parse(remote); err == nil && u.User != nil { // user@host:path is no URL, and has none
		if _, has := u.User.Password(); has {
			return fmt.Errorf("%s has a password in it, which agents would see: leave it to a credential helper of git on each host",
				u.Redacted())
		}
	}
	return nil
}

func ref(boulderID string, name ...string) string {
	return "refs/manager/" + boulderID + "/" + strings.Join(name, "/")
}

// Fetch brings what the remote has of a boulder.
func (m *Mirror) Fetch(ctx context.Context, boulderID string) error {
	return m.locked(ctx, func() error {
		all := ref(boulderID, "*")
		return m.Slots.Fetch(ctx, origin, false, "+"+all+":"+all)
	})
}

// Result is the commit that an attempt has published; empty: none. It asks the remote.
func (m *Mirror) Result(ctx context.Context, boulderID string, a boulder.AttemptRef) (commit string, err error) {
	name := ref(boulderID, a.SubTaskID, strconv.Itoa(a.Attempt))
	refs, err := m.Slots.Remote(ctx, origin, name)
	return refs[name], err
}

// MoveTip moves the tip of a boulder, from where it is known to be.
func (m *Mirror) MoveTip(ctx context.Context, boulderID, from, to string) error {
	return m.Slots.Push(ctx, origin, workspace.RefMove{Ref: ref(boulderID, "tip"), From: from, To: to})
}

// End deletes the refs of a boulder whose result is where it belongs, and what this host has of it. Other hosts follow with
// their next [Mirror.Sweep].
func (m *Mirror) End(ctx context.Context, boulderID string) error {
	refs, err := m.Slots.Remote(ctx, origin, ref(boulderID, "*"))
	if err != nil {
		return err
	}
	var gone []workspace.RefMove
	for name, at := range refs {
		gone = append(gone, workspace.RefMove{Ref: name, From: at})
	}
	if len(gone) > 0 {
		if err := m.Slots.Push(ctx, origin, gone...); err != nil {
			return err
		}
	}
	return m.Sweep(ctx)
}

// Sweep removes what this host has of boulders that the remote has no more, except of those that a process here works on.
func (m *Mirror) Sweep(ctx context.Context) error {
	here, err := m.Slots.Kept(ctx) // before the remote is asked: one that begins meanwhile is on both
	if err != nil {
		return err
	}
	there, err := m.Slots.Remote(ctx, origin, ref("*", "base"))
	for _, boulderID := range here {
		if _, ok := there[ref(boulderID, "base")]; err == nil && !ok {
			err = m.free(ctx, boulderID)
		}
	}
	if err != nil {
		return err
	}
	return m.locked(ctx, func() error { return m.Slots.Collect(ctx) })
}
