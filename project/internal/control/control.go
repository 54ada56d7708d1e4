// Package control lets other processes read the state that one process holds, and give it orders. bbolt opens a file
// for one process only, so the holder serves its state on a unix socket next to it, .manager/manager.sock.
//
// Requests and answers are JSON. [Serve] answers from a [Source], such as a *store.DB; a [Client] is a Source again, so
// that views need not know which one they read. Orders go to a [Steerer], such as an *orchestrator.Orchestrator.
//
// Only the owner can use the socket. The process that opened the database serves, and closes the server before the
// database, so that the next holder finds the socket free.
package control

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project/internal/unixsock"
	"github.com/bouldermgr/manager/store"
)

// Source is what views read. Its methods have the contracts and errors of *store.DB: a list may come with an error.
type Source interface {
	Listing(ctx context.Context) ([]store.Item, error)
	Get(ctx context.Context, boulderID string) (boulder.Snapshot, error)
	Events(ctx context.Context, boulderID string, afterSeq uint64, limit int) ([]boulder.Event, error)
}

// Steerer carries out the user's orders.
type Steerer interface {
	// Order returns when the order is carried out and on disk. Errors wrap [boulder.ErrRefused] for an order that does not
	// fit the state, [boulder.ErrNotFound], or [boulder.ErrFinished]; their texts are for people. Safe for concurrent use.
	// When ctx ends it returns soon, and the order may or may not have been carried out.
	Order(ctx context.Context, boulderID string, o boulder.Order) error
}

var (
	_ Source  = (*store.DB)(nil)
	_ Source  = (*Client)(nil)
	_ Steerer = (*Client)(nil)
)

// SocketName is the socket's name in the state directory.
const SocketName = "manager.sock"

// Holder describes the process that serves.
type Holder struct {
	PID     int       `json:"pid"`
	Command string    `json:"command"`           // as the user typed it
	Serves  bool      `json:"serves,omitempty"`  // it runs boulders for others
	Running []string  `json:"running,omitempty"` // boulders; without Serves one at most, once it exists
	Trouble string    `json:"trouble,omitempty"` // what it fails to reach; the rest is older knowledge
	Since   time.Time `json:"since"`
	// Attached is the address of the OpenCode server that it was told to use; empty: it has its own.
	Attached string `json:"attached,omitempty"`
	// Limits that it runs with. They explain to other processes why work waits; their own configuration does not.
	Limits *orchestrator.Limits `json:"limits,omitempty"`
}

// Submitter runs boulders for others. A [Steerer] that implements it takes submissions.
type Submitter interface {
	// Submit starts a boulder and returns its id once it is on disk. This process's configuration fills in what the
	// request leaves out. Errors wrap [boulder.ErrRunning] if it runs already. Safe for concurrent use.
	Submit(ctx context.Context, r orchestrator.Request) (boulderID string, err error)
}

// OpenCode says which OpenCode server it uses.
func (h *Holder) OpenCode() string {
	if h.Attached == "" {
		return "an OpenCode server of its own"
	}
	return "the OpenCode server at " + h.Attached
}

// Beginning reports whether a process holds the state but does not say yet what it runs, or did not answer (nil).
func (h *Holder) Beginning() bool { return h == nil || !h.Serves && len(h.Running) == 0 }

// Runs reports whether an unfinished boulder may be at work. A process that is [Holder.Beginning] may run any.
func (h *Holder) Runs(b boulder.Boulder) bool { return !b.Status.Terminal() && h.Has(b.ID) }

// Has is Runs for a boulder that may be over: the process may still be stopping its agents.
func (h *Holder) Has(id string) bool {
	return h != nil && (h.Beginning() || slices.Contains(h.Running, id))
}

var (
	// ErrNotServed means that no process serves the socket, or no longer: the state can be read from the database.
	ErrNotServed = unixsock.ErrNotServed
	// ErrNotReady means that the holder runs nothing yet, as while the user reviews the plan. Nothing was done.
	ErrNotReady = errors.New("the process that holds the state has not begun its work: try again in a moment")
	// ErrUnanswered means that the holder ended or was too slow. The order may have been carried out; the log shows it.
	ErrUnanswered = errors.New("no answer came, so the order may have been carried out or not: `manager logs` shows it")
	// ErrNoSubmitter means that the process only runs a boulder of its own.
	ErrNoSubmitter = errors.New("the process that holds the state takes no further tasks: wait for it, or stop it")

	errNotUnderstood = errors.New("the process that holds the state is another version of manager: use that version")
	errNoAnswer      = errors.New("no answer in time: the process that holds the state is very busy or hangs")
)

// wireError is an error of the other process: its text, and the sentinels that it wraps.
type wireError struct {
	Message string   `json:"message"`
	Is      []string `json:"is,omitempty"` // keys of sentinels
}

var sentinels = map[string]error{
	"not_found": boulder.ErrNotFound, "refused": boulder.ErrRefused, "finished": boulder.ErrFinished, "running": boulder.ErrRunning,
	"not_ready": ErrNotReady, "unanswered": ErrUnanswered, "no_submitter": ErrNoSubmitter,
	"not_served": ErrNotServed,
}

func onWire(err error) *wireError {
	if err == nil {
		return nil
	}
	w := &wireError{Message: err.Error()}
	for name, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			w.Is = append(w.Is, name)
		}
	}
	return w
}

func (w *wireError) Error() string { return w.Message }

func (w *wireError) Unwrap() (causes []error) {
	for _, name := range w.Is {
		if sentinel, known := sentinels[name]; known {
			causes = append(causes, sentinel)
		}
	}
	return causes
}
