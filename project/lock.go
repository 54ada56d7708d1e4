package project

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
)

const (
	// LockWait is how long to wait for the database without being asked to: a view may hold it for a moment.
	LockWait = time.Second
	// lockStep is how long a wait for the database takes at most to notice Ctrl-C.
	lockStep = 250 * time.Millisecond
)

// openState opens the database in the state directory for a run or a change, and waits for it as long as patience. If
// another process holds it longer, the error says who.
func (p *Project) openState(ctx context.Context, dir string, patience time.Duration) (*store.DB, error) {
	path := filepath.Join(dir, store.FileName)
	began, told := time.Now(), false
	for {
		db, err := store.Open(path, store.Options{Timeout: lockStep, Redact: p.secrets.JSON, Logger: p.log})
		waited := time.Since(began)
		switch {
		case !errors.Is(err, store.ErrHeld):
			return db, err
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case waited >= max(LockWait, patience):
			return nil, fmt.Errorf("%w%s: wait for it with --lock-timeout, look with `manager status`, or stop it", err,
				p.holderText(ctx))
		case !told && waited >= LockWait:
			told = true
			p.note("Waiting up to %s for the state, which another process holds%s.", patience, p.holderText(ctx))
		}
	}
}

// Import stores what [Reader.Export] gave as a boulder of this project. from is the project that it comes from. Errors wrap
// [store.ErrBadExport], [store.ErrExists] or [store.ErrHeld]; nothing is stored then.
func (p *Project) Import(ctx context.Context, x store.Export) (s *boulder.State, from string, err error) {
	if s, from, err = x.Adopt(p.dir, time.Now().UTC()); err != nil {
		return nil, "", err
	}
	dir, err := store.EnsureDir(p.dir)
	if err != nil {
		return nil, "", err
	}
	db, err := p.openState(ctx, dir, 0)
	if err != nil {
		return nil, "", err
	}
	return s, from, errors.Join(db.Import(ctx, x), db.Close())
}

// unanswering is the error of a process that has the state and does not answer as it should: it hangs, or was stopped,
// or is another version.
func unanswering(ctx context.Context, dir string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w%s: %w", store.ErrHeld, LockOwner(filepath.Join(dir, store.FileName)), err)
}

// holderText says who holds the database, as far as that process tells, or the kernel.
func (p *Project) holderText(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	there, err := p.Dial(ctx)
	if err != nil {
		return LockOwner(filepath.Join(p.stateDir(), store.FileName))
	}
	defer there.Close()
	h, also := there.Holder, ""
	if h.Serves {
		also = " (a server: hand it the task with `manager run --detach`)"
	}
	return fmt.Sprintf(": process %d, `%s`, since %s%s", h.PID, h.Command, h.Since.Local().Format(time.DateTime), also)
}
