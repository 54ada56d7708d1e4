package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/workspace"
)

// Slot is a slot of an attempt. No other process of the host uses it before it is closed, or the process ends.
type Slot struct {
	*workspace.Slot

	mirror *Mirror
	claim  boulder.SlotClaim
	lock   *os.File
}

// Slot makes a slot ready for an attempt, at a commit of the boulder: see [workspace.Slots.Prepare]. The host chooses its
// number. An attempt whose worker died here finds its files again; all others begin with what was published.
func (m *Mirror) Slot(ctx context.Context, c boulder.SlotClaim) (*Slot, error) {
	if err := m.Fetch(ctx, c.BoulderID); err != nil {
		return nil, err
	}
	switch base, err := m.Slots.Ref(ctx, c.BoulderID, "base"); {
	case err != nil:
		return nil, err
	case base != c.Base:
		return nil, fmt.Errorf("boulder %s is not on its remote, or is over: its base there is %q and not %s", c.BoulderID, base, c.Base)
	}
	// What `git diff main` and git describe need.
	err := m.locked(ctx, func() error {
		return m.Slots.Fetch(ctx, origin, true, "+refs/heads/*:refs/heads/*", "+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
	})
	if err != nil {
		return nil, err
	}
	s := &Slot{mirror: m, claim: c}
	if s.lock, s.claim.Slot, err = m.take(c); err != nil {
		return nil, err
	}
	s.Slot, err = m.Slots.Prepare(ctx, s.claim)
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Publish commits a tree of the slot, or if it is empty the files as they are, and publishes it as what the attempt left. If
// another worker has published that before, with other files, the error wraps [workspace.ErrMoved].
func (s *Slot) Publish(ctx context.Context, tree string) (commit, published string, err error) {
	commit, published, err = s.Commit(ctx, tree)
	if err != nil {
		return "", "", err
	}
	name := ref(s.claim.BoulderID, s.claim.SubTaskID, strconv.Itoa(s.claim.Attempt))
	err = s.mirror.Slots.Push(ctx, origin, workspace.RefMove{Ref: name, To: commit})
	if errors.Is(err, workspace.ErrMoved) {
		err = fmt.Errorf("attempt %d of %s was given to another worker, which has published before this one: %w",
			s.claim.Attempt, s.claim.SubTaskID, err)
	}
	return commit, published, err
}

// Close lets others have the slot.
func (s *Slot) Close() { s.lock.Close() }

// user is what a lock file says of who used its number last.
func (m *Mirror) user(boulderID, attempt string) string {
	return filepath.Base(m.repository) + " " + boulderID + " " + attempt
}

// take finds a number that no process of the host uses: the one that the same attempt had before, or else the lowest.
func (m *Mirror) take(c boulder.SlotClaim) (lock *os.File, number int, err error) {
	user := m.user(c.BoulderID, c.SubTaskID+"/"+strconv.Itoa(c.Attempt))
	for n, was := range m.users() {
		if was != user {
			continue
		}
		if lock, err := tryLock(m.slotLock(n)); err == nil {
			if was, err := io.ReadAll(lock); err == nil && string(was) == user { // still
				return lock, n, nil
			}
			lock.Close()
		}
	}
	for n := 1; ; n++ {
		lock, err := tryLock(m.slotLock(n))
		if errors.Is(err, syscall.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		err = errors.Join(m.Slots.Disown(c.BoulderID, n), lock.Truncate(0))
		if err == nil {
			_, err = lock.WriteString(user)
		}
		if err != nil {
			lock.Close()
			return nil, 0, err
		}
		return lock, n, nil
	}
}

// users are the numbers that were ever used, and by whom last.
func (m *Mirror) users() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for n := 1; ; n++ {
			user, err := os.ReadFile(m.slotLock(n))
			if err != nil || !yield(n, string(user)) {
				return
			}
		}
	}
}

func (m *Mirror) slotLock(n int) string {
	return filepath.Join(m.cache, fmt.Sprintf("slot-%d.lock", n))
}

// free removes the slots and refs of a boulder, unless a process works in one.
func (m *Mirror) free(ctx context.Context, boulderID string) error {
	for n, user := range m.users() {
		if !strings.HasPrefix(user, m.user(boulderID, "")) {
			continue
		}
		lock, err := tryLock(m.slotLock(n))
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil
		}
		if err != nil {
			return err
		}
		lock.Close()
	}
	base, err := m.Slots.Ref(ctx, boulderID, "base")
	if err != nil {
		return err
	}
	return m.Slots.Free(ctx, boulderID, base, true, func(string) bool { return true })
}

func tryLock(path string) (*os.File, error) { return flock(path, syscall.LOCK_EX|syscall.LOCK_NB) }

// flock opens and locks a file. The lock ends with the process, also a killed one.
func flock(path string, how int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(file.Fd()), how); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		file.Close()
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return file, nil
}

// locked calls f while no other process fetches into the mirror.
func (m *Mirror) locked(ctx context.Context, f func() error) error {
	type opened struct {
		file *os.File
		err  error
	}
	lock := make(chan opened, 1)
	go func() {
		file, err := flock(m.repository+".lock", syscall.LOCK_EX)
		lock <- opened{file, err}
	}()
	select {
	case got := <-lock:
		if got.err != nil {
			return got.err
		}
		defer got.file.Close()
		return f()
	case <-ctx.Done():
		go func() {
			if got := <-lock; got.file != nil {
				got.file.Close()
			}
		}()
		return context.Cause(ctx)
	}
}
