package project

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/store"
)

const (
	// LockWait is how long to wait for the database without being asked to: a view may hold it for a moment.
	LockWait = time.Second
	// lockStep is how long a wait for the database takes at most to notice Ctrl-C.
	lockStep = 250 * time.Millisecond
)

// openState opens the database in the state directory for a run. If another process holds it for too long, the error
// says who.
func (p *Project) openState(ctx context.Context, dir string) (*store.DB, error) {
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
		case waited >= max(LockWait, p.opts.LockTimeout):
			return nil, fmt.Errorf("%w%s: wait for it with --lock-timeout, look with `manager status`, or stop it", err,
				HolderText(dir))
		case !told && waited >= LockWait:
			told = true
			p.note("Waiting up to %s for the state, which another process holds%s.", p.opts.LockTimeout, HolderText(dir))
		}
	}
}

// unanswering is the error of a process that has the state and does not answer as it should: it hangs, or was stopped,
// or is another version.
func unanswering(ctx context.Context, dir string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w%s: %w", store.ErrHeld, LockOwner(filepath.Join(dir, store.FileName)), err)
}

// HolderText says who holds the database, as far as that process tells, or the kernel.
func HolderText(dir string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	client, err := control.Dial(ctx, filepath.Join(dir, control.SocketName))
	if err != nil {
		return LockOwner(filepath.Join(dir, store.FileName))
	}
	defer client.Close()
	h, err := client.Holder(ctx)
	if err != nil {
		return LockOwner(filepath.Join(dir, store.FileName))
	}
	also := ""
	if h.Serves {
		also = " (a server: hand it the task with `manager run --detach`)"
	}
	return fmt.Sprintf(": process %d, `%s`, since %s%s", h.PID, h.Command, h.Since.Local().Format(time.DateTime), also)
}
