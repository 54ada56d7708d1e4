package project

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/store"
)

// Reader is what the looking commands read from: the database, or the process that holds it.
type Reader = control.Source

var _ Reader = nothing{}

// Read opens the project's state for reading: the process that holds it, or else the database. A project in which nothing
// was run reads as empty. Nothing is created.
//
// While the database itself is open, no run can start: the caller closes it as soon as it has read.
func (p *Project) Read(ctx context.Context) (_ Reader, closeReader func(), err error) {
	there, err := p.enter(ctx, true)
	if errors.Is(err, fs.ErrNotExist) {
		return nothing{}, func() {}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return there.Reader, there.Close, nil
}

// Get reads the boulder that a person means; an empty ref is the active one. With an error there is what could be read: at
// least the head, or nothing.
func Get(ctx context.Context, r Reader, ref string) (store.Detail, error) {
	id, err := Resolve(ctx, r, ref)
	if err != nil {
		return store.Detail{}, err
	}
	return r.Get(ctx, id)
}

// Resolve finds the boulder that a person means. One that is not there, or not the only one, is their mistake.
func Resolve(ctx context.Context, r Reader, ref string) (string, error) {
	id, err := r.Resolve(ctx, ref)
	_, ambiguous := errors.AsType[*store.AmbiguousError](err)
	if ambiguous || errors.Is(err, boulder.ErrNotFound) {
		return "", &UsageError{Err: err}
	}
	return id, err
}

// nothing is the state of a project in which nothing was run.
type nothing struct{}

func (nothing) Listing(context.Context) ([]store.Item, error) { return nil, nil }

func (nothing) Export(context.Context, string) (store.Export, error) {
	return store.Export{}, ErrNothing
}

func (nothing) NewestUnfinished(context.Context) (string, error) { return "", ErrNothing }

func (nothing) Get(context.Context, string) (store.Detail, error) { return store.Detail{}, ErrNothing }

func (nothing) Turns(context.Context, string, string) ([]boulder.Turn, error) { return nil, ErrNothing }

func (nothing) Events(context.Context, string, uint64, int) ([]boulder.Event, error) {
	return nil, ErrNothing
}

func (nothing) Resolve(context.Context, string) (string, error) { return "", ErrNothing }

// ErrNothing is in the chain of the error of whoever looks for a boulder where none was ever run.
var ErrNothing = fmt.Errorf("%w: nothing has been run here yet; start with `manager plan`", boulder.ErrNotFound)

// Exists reports whether anything was ever run in the project.
func (p *Project) Exists() bool { return exists(p.database()) }

func (p *Project) database() string { return filepath.Join(p.stateDir(), store.FileName) }
