// Package control lets other processes look at the state that one process holds: bbolt gives a file to one process
// only, so that one serves what it knows on a unix socket beside it, .manager/manager.sock.
//
// It is HTTP/1.1 with JSON. [Serve] answers from a [Source], which a *store.DB is; a [Client] is a Source again, so
// that a view does not know which of the two it reads. Requests are GETs and change nothing.
//
// The socket is for its owner only. The one who opened the database serves; it closes the server before the database,
// so that whoever gets the database next finds the socket free.
package control

import (
	"context"
	"errors"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/store"
)

// Source is what views read. The methods are those of *store.DB, with its contracts and errors: lists come with an
// error and with what could be read.
type Source interface {
	List(ctx context.Context) ([]boulder.Boulder, error)
	Get(ctx context.Context, boulderID string) (store.Detail, error)
	Turns(ctx context.Context, boulderID, subTaskID string) ([]boulder.Turn, error)
	Events(ctx context.Context, boulderID string, afterSeq uint64, limit int) ([]boulder.Event, error)
	Resolve(ctx context.Context, ref string) (string, error)
	NewestUnfinished(ctx context.Context) (string, error)
}

var (
	_ Source = (*store.DB)(nil)
	_ Source = (*Client)(nil)
)

// Holder says who serves.
type Holder struct {
	PID       int       `json:"pid"`
	BoulderID string    `json:"boulder_id,omitempty"` // what it is running; empty until that exists
	Command   string    `json:"command"`              // as a person typed it
	Since     time.Time `json:"since"`
	// Limits that it runs with: who looks from outside says why something waits by these, not by its own configuration.
	Limits *schedule.Limits `json:"limits,omitempty"`
}

var (
	// ErrNotServed is returned when no process serves the socket, or the one that did is gone: the state can be read
	// from the database.
	ErrNotServed = errors.New("no process serves this project")
	// ErrServed is returned by [Serve] while another process serves the socket.
	ErrServed = errors.New("another process serves this project")
)
