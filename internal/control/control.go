// Package control lets other processes look at the state that one process holds, and tell it what to do: bbolt gives a
// file to one process only, so that one serves what it knows on a unix socket beside it, .manager/manager.sock.
//
// It is HTTP/1.1 with JSON. [Serve] answers from a [Source], which a *store.DB is; a [Client] is a Source again, so
// that a view does not know which of the two it reads. These requests are GETs and change nothing. The two POSTs hand
// an order of a person to a [Steerer], an *orchestrator.Orchestrator, which alone knows what the order means, and a
// task to a [Submitter].
//
// The socket is for its owner only. The one who opened the database serves; it closes the server before the database,
// so that whoever gets the database next finds the socket free.
package control

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/unixsock"
	"github.com/bouldermgr/manager/store"
)

// Source is what views read. The methods are those of *store.DB, with its contracts and errors: lists come with an
// error and with what could be read.
type Source interface {
	Listing(ctx context.Context) ([]store.Item, error)
	Get(ctx context.Context, boulderID string) (store.Detail, error)
	Turns(ctx context.Context, boulderID, subTaskID string) ([]boulder.Turn, error)
	Events(ctx context.Context, boulderID string, afterSeq uint64, limit int) ([]boulder.Event, error)
	Export(ctx context.Context, boulderID string) (store.Export, error)
	Resolve(ctx context.Context, ref string) (string, error)
	NewestUnfinished(ctx context.Context) (string, error)
}

// Steerer carries out what people say.
type Steerer interface {
	// Order returns when the order is carried out and on disk. Errors wrap [boulder.ErrRefused] for what cannot be done as
	// things are, [boulder.ErrNotFound], or [boulder.ErrFinished]; their texts are for people. It may be called from any
	// goroutine. When ctx ends it returns soon; the order is then carried out or not.
	Order(ctx context.Context, boulderID string, o boulder.Order) error
}

var (
	_ Source  = (*store.DB)(nil)
	_ Source  = (*Client)(nil)
	_ Steerer = (*Client)(nil)
)

// Runs reports whether the holder is at work on a boulder. One that has a boulder of its own and has not said which may
// be at work on any.
func (h *Holder) Runs(boulderID string) bool {
	if h.Serves {
		return slices.Contains(h.Running, boulderID)
	}
	return h.BoulderID == boulderID || h.BoulderID == ""
}

// Holder says who serves.
type Holder struct {
	PID       int    `json:"pid"`
	BoulderID string `json:"boulder_id,omitempty"` // what it is running; empty until that exists
	Command   string `json:"command"`              // as a person typed it
	// Serves: it runs boulders for others, those of Running, and BoulderID is empty.
	Serves  bool      `json:"serves,omitempty"`
	Running []string  `json:"running,omitempty"`
	Since   time.Time `json:"since"`
	// Limits that it runs with: who looks from outside says why something waits by these, not by its own configuration.
	Limits *schedule.Limits `json:"limits,omitempty"`
}

var (
	// ErrNotServed is returned when no process serves the socket, or the one that did is gone: the state can be read
	// from the database.
	ErrNotServed = unixsock.ErrNotServed
	// ErrServed is returned by [Serve] while another process serves the socket.
	ErrServed = unixsock.ErrServed
	// ErrNotReady is returned for an order that comes before the holder has begun to run anything, as while a person is
	// asked about the plan. It was not carried out.
	ErrNotReady = errors.New("the process that holds the state has not begun its work: try again in a moment")
	// ErrUnanswered is returned for an order that may have been carried out or not: the holder ended, or did not answer in
	// time. The boulder's log tells.
	ErrUnanswered = errors.New("no answer came, so the order may have been carried out or not: `manager logs` shows it")
)
