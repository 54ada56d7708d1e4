package cli

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/bouldermgr/manager/internal/unixsock"
	"github.com/bouldermgr/manager/internal/watch"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

// watchProject is what the commands of `manager watch` know of a project. No server is needed for it.
type watchProject struct {
	*deps
	dir string // of the state
}

func (a *app) watchProject() (*watchProject, error) {
	p, err := a.open()
	if err != nil {
		return nil, err
	}
	return &watchProject{&deps{Project: p, app: a, log: a.logger()}, filepath.Join(p.Dir(), store.DirName)}, nil
}

// hold opens the state for a watch. While another one has it, the error says who.
func (p *watchProject) hold(ctx context.Context) (*watch.Store, error) {
	if _, err := store.EnsureDir(p.Dir()); err != nil {
		return nil, err
	}
	db, err := watch.OpenStore(p.path(), false, project.LockWait)
	if errors.Is(err, store.ErrHeld) {
		return nil, p.heldBy(ctx)
	}
	if err != nil {
		return nil, err
	}
	db.Clean = p.app.secrets.JSON
	return db, nil
}

// read gives what is known of the sessions, by the process that watches or from the file. Without either there is
// nothing. The report has no holder if nobody watches.
func (p *watchProject) read(ctx context.Context) (watch.Report, error) {
	client, err := watch.Dial(ctx, p.socket())
	if err == nil {
		return client.Report(ctx)
	}
	if !errors.Is(err, unixsock.ErrNotServed) {
		return watch.Report{}, err
	}
	db, err := watch.OpenStore(p.path(), true, project.LockWait)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return watch.Report{}, nil
	case errors.Is(err, store.ErrHeld):
		return watch.Report{}, p.heldBy(ctx)
	case err != nil:
		return watch.Report{}, err
	}
	defer closeStore(db, p.log)
	all, err := watch.Stored(db)
	return watch.Report{Sessions: all}, err
}

func (p *watchProject) records(ctx context.Context) ([]watch.Record, error) {
	report, err := p.read(ctx)
	var records []watch.Record
	for _, s := range report.Sessions {
		records = append(records, s.Record)
	}
	return records, err
}

// history gives the decisions about a session, the oldest first.
func (p *watchProject) history(ctx context.Context, sessionID string) ([]watch.Entry, error) {
	client, err := watch.Dial(ctx, p.socket())
	if err == nil {
		return client.History(ctx, sessionID)
	}
	if !errors.Is(err, unixsock.ErrNotServed) {
		return nil, err
	}
	db, err := watch.OpenStore(p.path(), true, project.LockWait)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer closeStore(db, p.log)
	return db.History(sessionID)
}

// order has the process that watches carry an order out, or does so itself.
func (p *watchProject) order(ctx context.Context, order watch.Order, ref string) ([]string, error) {
	client, err := watch.Dial(ctx, p.socket())
	if err == nil {
		return client.Order(ctx, ref, order)
	}
	if !errors.Is(err, unixsock.ErrNotServed) {
		return nil, err
	}
	db, err := p.hold(ctx)
	if err != nil {
		return nil, err
	}
	defer closeStore(db, p.log)
	return watch.Steer(db, ref, order, time.Now())
}
