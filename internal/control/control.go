// Package control lets other processes look at the state that one process holds, and tell it what to do: bbolt gives a
// file to one process only, so that one serves what it knows on a unix socket beside it, .manager/manager.sock.
//
// A request is JSON, as its answer is. [Serve] answers from a [Source], which a *store.DB is; a [Client] is a Source again,
// so that a view does not know which of the two it reads. An order of the user goes to a [Steerer], an
// *orchestrator.Orchestrator, which alone knows what the order means; a task goes to a [Submitter].
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
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/store"
)

// Source is what views read. The methods are those of *store.DB, with its contracts and errors: lists come with an
// error and with what could be read.
type Source interface {
	Listing(ctx context.Context) ([]store.Item, error)
	Get(ctx context.Context, boulderID string) (boulder.Snapshot, error)
	Events(ctx context.Context, boulderID string, afterSeq uint64, limit int) ([]boulder.Event, error)
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

// SocketName is the socket's name in the state directory.
const SocketName = "manager.sock"

// Holder says who serves.
type Holder struct {
	PID     int       `json:"pid"`
	Command string    `json:"command"`           // as the user typed it
	Serves  bool      `json:"serves,omitempty"`  // it runs boulders for others
	Running []string  `json:"running,omitempty"` // boulders; one that does not serve has one at most, from when that exists
	Trouble string    `json:"trouble,omitempty"` // what keeps it from reaching what runs them: all that is known is older
	Since   time.Time `json:"since"`
	// Limits that it runs with: who looks from outside says why something waits by these, not by its own configuration.
	Limits *schedule.Limits `json:"limits,omitempty"`
}

// Submitter runs boulders for others. A [Steerer] that is one takes submissions.
type Submitter interface {
	// Submit begins to run a boulder and returns its id when it is on disk. What the request leaves out is as this process
	// was configured. One that it runs already is [boulder.ErrRunning]. It may be called from any goroutine.
	Submit(ctx context.Context, r orchestrator.Request) (boulderID string, err error)
}

// Beginning reports whether a process has the state and does not say yet what it runs: no answer, or none of that.
func (h *Holder) Beginning() bool { return h == nil || !h.Serves && len(h.Running) == 0 }

// Runs reports whether a boulder is at work. A process that does not say yet what it runs may be at any.
func (h *Holder) Runs(b boulder.Boulder) bool { return !b.Status.Terminal() && h.Has(b.ID) }

// Has is Runs for a boulder that may be over: the process still stops its agents then.
func (h *Holder) Has(id string) bool {
	return h != nil && (h.Beginning() || slices.Contains(h.Running, id))
}

var (
	// ErrNotServed is returned when no process serves the socket, or the one that did is gone: the state can be read
	// from the database.
	ErrNotServed = unixsock.ErrNotServed
	// ErrNotReady is returned for an order that comes before the holder has begun to run anything, as while the user is
	// asked about the plan. It was not carried out.
	ErrNotReady = errors.New("the process that holds the state has not begun its work: try again in a moment")
	// ErrUnanswered is returned for an order that may have been carried out or not: the holder ended, or did not answer in
	// time. The boulder's log tells.
	ErrUnanswered = errors.New("no answer came, so the order may have been carried out or not: `manager logs` shows it")
	// ErrNoSubmitter is returned for a submission to a process that runs a boulder of its own only.
	ErrNoSubmitter = errors.New("the process that holds the state takes no further tasks: wait for it, or stop it")

	errNotUnderstood = errors.New("the process that holds the state is another version of manager: use that version")
	errNoAnswer      = errors.New("no answer in time: the process that holds the state is very busy or hangs")
)

// wireError is an error of the other process: its words, and what errors.Is finds in it.
type wireError struct {
	Message string   `json:"message"`
	Is      []string `json:"is,omitempty"` // keys of sentinels
}

var sentinels = map[string]error{
	"not_found": boulder.ErrNotFound, "refused": boulder.ErrRefused, "finished": boulder.ErrFinished, "running": boulder.ErrRunning,
	"not_ready": ErrNotReady, "unanswered": ErrUnanswered, "no_submitter": ErrNoSubmitter,
	"not_served": ErrNotServed,
}

// onWire returns nil for nil.
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
