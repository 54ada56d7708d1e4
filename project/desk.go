package project

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/store"
)

// Desk is where orders are handed in: the process that holds the database, or, if none does, the database itself.
type Desk struct {
	Reader
	Orders control.Steerer
	Holder *control.Holder // nil: no process holds it
	Close  func()
}

// onDisk carries orders out where no process runs anything.
type onDisk struct{ db *store.DB }

func (s onDisk) Order(ctx context.Context, boulderID string, o boulder.Order) error {
	return orchestrator.Obey(ctx, s.db, boulderID, o, time.Now())
}

// Desk finds out who takes orders. A process that has the database and does not serve yet, or not any more, gets
// two seconds. While the database itself is open no run can start: the caller closes it at once.
func (p *Project) Desk(ctx context.Context) (*Desk, error) {
	dir := p.stateDir()
	path := filepath.Join(dir, store.FileName)
	if !exists(path) {
		return nil, &UsageError{Err: ErrNothing}
	}
	for giveUp := time.Now().Add(holderWait); ; {
		client, err := control.Dial(ctx, filepath.Join(dir, control.SocketName))
		if err == nil {
			return DeskOf(ctx, client)
		}
		if !errors.Is(err, control.ErrNotServed) {
			return nil, Unanswering(ctx, dir, err)
		}
		db, err := store.Open(path, store.Options{Timeout: Step, Redact: p.secrets.JSON, Logger: p.log})
		if err == nil {
			return &Desk{Reader: db, Orders: onDisk{db}, Close: func() { _ = db.Close() }}, nil
		}
		if !errors.Is(err, store.ErrHeld) {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if time.Now().After(giveUp) {
			return nil, fmt.Errorf("%w%s, and it takes no orders: try again, or stop it with Ctrl-C where it runs", err,
				LockOwner(path))
		}
	}
}

// Step is how long to wait for the database before looking for a socket again.
const Step = 200 * time.Millisecond

// Running lists the boulders that the holder is known to be at.
func Running(h *control.Holder) []string {
	switch {
	case h.Serves:
		return h.Running
	case h.BoulderID == "":
		return nil
	}
	return []string{h.BoulderID}
}

// DeskOf is the desk of the process that client talks to.
func DeskOf(ctx context.Context, client *control.Client) (*Desk, error) {
	h, err := client.Holder(ctx)
	if err != nil {
		client.Close()
		return nil, err
	}
	return &Desk{Reader: client, Orders: client, Holder: &h, Close: client.Close}, nil
}

// Find says which boulder a person means: without a name the one that is at work, else the newest unfinished one.
func (d *Desk) Find(ctx context.Context, ref string) (string, error) {
	ref, err := Meant(d.Holder, ref)
	switch {
	case err != nil:
		return "", err
	case ref != "":
		return Resolve(ctx, d, ref)
	}
	id, err := Unfinished(ctx, d, nil)
	if _, none := errors.AsType[*UsageError](err); none {
		return "", usagef("no boulder is unfinished here, so there is nothing to steer: see `manager list`")
	}
	return id, err
}

// Meant is the boulder that a person means who names none: the one that is at work. It is empty if none is, and
// [control.ErrNotReady] if one is about to be: no older one is meant then.
func Meant(h *control.Holder, ref string) (string, error) {
	if ref != "" || h == nil {
		return ref, nil
	}
	switch atWork := Running(h); {
	case len(atWork) == 1:
		return atWork[0], nil
	case len(atWork) > 1:
		return "", usagef("process %d runs several boulders: say which one is meant: %s", h.PID, strings.Join(atWork, ", "))
	case Beginning(h):
		return "", control.ErrNotReady
	}
	return "", nil
}

// Beginning reports whether a process has the state and does not say yet what it runs.
func Beginning(h *control.Holder) bool { return h == nil || !h.Serves && h.BoulderID == "" }

// Unfinished finds the boulder to resume: the one that is named, or the active one, or the newest that is not over.
func Unfinished(ctx context.Context, db Reader, args []string) (string, error) {
	if len(args) == 1 {
		return Resolve(ctx, db, args[0])
	}
	id, err := db.NewestUnfinished(ctx)
	if !errors.Is(err, boulder.ErrNotFound) {
		return id, err
	}
	all, err := db.Listing(ctx)
	switch {
	case err != nil:
		return "", err
	case len(all) == 0:
		return "", usagef("nothing to resume: no boulder was ever run here; start with `manager plan`")
	}
	return "", usagef("nothing to resume: every boulder here is over; see `manager list`")
}

// BeginWait is how long an order waits for a process that has the database and has not begun its work.
const BeginWait = 10 * time.Second

// Rest waits, unless ctx ends.
func Rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Runs reports whether the process that holds the state runs the boulder. One that is about to begin does not say yet
// what it runs.
func Runs(holder *control.Holder, b boulder.Boulder) bool {
	return holder != nil && !b.Status.Terminal() && holder.Runs(b.ID)
}
