package cli

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

// desk is where orders are handed in: the process that holds the database, or, if none does, the database itself.
type desk struct {
	reader
	orders control.Steerer
	holder *control.Holder // nil: no process holds it
	close  func()
}

// onDisk carries orders out where no process runs anything.
type onDisk struct{ db *store.DB }

func (s onDisk) Order(ctx context.Context, boulderID string, o boulder.Order) error {
	return orchestrator.Obey(ctx, s.db, boulderID, o, time.Now())
}

// openDesk finds out who takes orders. A process that has the database and does not serve yet, or not any more, gets
// two seconds. While the database itself is open no run can start: the caller closes it at once.
func (a *app) openDesk(ctx context.Context) (*desk, error) {
	project, err := a.project()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(project, store.DirName)
	path := filepath.Join(dir, store.FileName)
	if !exists(path) {
		return nil, &usageError{errNothing}
	}
	for giveUp := time.Now().Add(holderWait); ; {
		client, err := control.Dial(ctx, filepath.Join(dir, control.SocketName))
		if err == nil {
			return deskOf(ctx, client)
		}
		if !errors.Is(err, control.ErrNotServed) {
			return nil, unanswering(ctx, dir, err)
		}
		db, err := store.Open(path, store.Options{Timeout: deskStep, Redact: a.secrets.JSON, Logger: a.logger()})
		if err == nil {
			return &desk{reader: db, orders: onDisk{db}, close: func() { _ = db.Close() }}, nil
		}
		if !errors.Is(err, store.ErrHeld) {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if time.Now().After(giveUp) {
			return nil, fmt.Errorf("%w%s, and it takes no orders: try again, or stop it with Ctrl-C where it runs", err,
				lockOwner(path))
		}
	}
}

// deskStep is how long to wait for the database before looking for a socket again.
const deskStep = 200 * time.Millisecond

// running lists the boulders that the holder is known to be at.
func running(h *control.Holder) []string {
	switch {
	case h.Serves:
		return h.Running
	case h.BoulderID == "":
		return nil
	}
	return []string{h.BoulderID}
}

func deskOf(ctx context.Context, client *control.Client) (*desk, error) {
	h, err := client.Holder(ctx)
	if err != nil {
		client.Close()
		return nil, err
	}
	return &desk{reader: client, orders: client, holder: &h, close: client.Close}, nil
}

// find says which boulder a person means: without a name the one that is at work, else the newest unfinished one.
func (d *desk) find(ctx context.Context, ref string) (string, error) {
	ref, err := meant(d.holder, ref)
	switch {
	case err != nil:
		return "", err
	case ref != "":
		return resolve(ctx, d, ref)
	}
	id, err := unfinished(ctx, d, nil)
	if _, none := errors.AsType[*usageError](err); none {
		return "", usagef("no boulder is unfinished here, so there is nothing to steer: see `manager list`")
	}
	return id, err
}

// meant is the boulder that a person means who names none: the one that is at work. It is empty if none is, and
// [control.ErrNotReady] if one is about to be: no older one is meant then.
func meant(h *control.Holder, ref string) (string, error) {
	if ref != "" || h == nil {
		return ref, nil
	}
	switch atWork := running(h); {
	case len(atWork) == 1:
		return atWork[0], nil
	case len(atWork) > 1:
		return "", usagef("process %d runs several boulders: say which one is meant: %s", h.PID, strings.Join(atWork, ", "))
	case beginning(h):
		return "", control.ErrNotReady
	}
	return "", nil
}

// beginning reports whether a process has the state and does not say yet what it runs.
func beginning(h *control.Holder) bool { return h == nil || !h.Serves && h.BoulderID == "" }
