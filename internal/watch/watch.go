// Package watch keeps the user's own OpenCode sessions going: it follows what happens in a project's main sessions, asks
// the arbiter (package enforcer) after every turn and at every time that the arbiter names, and does what it says: a
// countdown on the screen, one prompt, or nothing.
//
// What is known of a session is a [session.Tree], which is pure; what is remembered is a [Record] in a [Store]. One
// goroutine owns both and talks to OpenCode ([Watch.Run]); session.go is the way of an event through it. Only the checks,
// which may take long, run beside it and hand back what came of them. Every decision that something is done about is on
// disk before it is done.
package watch

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// Config of [New].
type Config struct {
	// Project is the directory whose sessions are watched, with symbolic links resolved, as OpenCode reports it.
	Project string
	// Attach connects to the OpenCode server. It is called again, after a second, while the error is
	// [opencode.ErrUnavailable]; every other error ends [Watch.Run].
	Attach func(ctx context.Context) (*opencode.Client, error)
	// Store keeps the records. The caller closes it. It may be nil for a dry run.
	Store *Store
	// Records are those that were stored.
	Records []Record

	Policy   enforcer.Policy // the numbers of the gates
	DoneWhen []string        // the criteria of completion, in the words of [boulder.DoneWords]
	Tests    []string        // the commands of the criterion tests
	// Lint are commands that stand in for a language server, for the criterion diagnostics, where OpenCode has none that
	// works.
	Lint []string
	// Run runs such a command in the project, as a gate is run.
	Run func(ctx context.Context, command string) boulder.Gate
	// Judge asks a model, for the criterion judge, whether a request of the user is fulfilled, and gives what is missing.
	Judge func(ctx context.Context, request string, e *boulder.Evidence) (missing []string, err error)
	// Budget of each session since its loop began: tokens, cost and time, sub-agents included. Nil: none.
	Budget *boulder.Budget
	// Since is how long a session may have rested that is watched from the beginning. Others are watched when they show
	// life, and if they were watched within the last day and were not done.
	Since time.Duration
	// All watches the sessions of sub-agents as well, each for itself.
	All bool
	// Once ends after one look at each session, and what comes of it.
	Once bool
	// DryRun does nothing and stores nothing.
	DryRun bool
	// Diverter takes down what agents want the user to answer. Nil: asks wait for the user.
	Diverter session.Diverter
	// Typed does what was typed after /blockers in a session, and says what came of it. It may take some seconds, and is
	// called beside the loop.
	Typed func(ctx context.Context, sessionID, word string) string

	Show   func(Entry)              // is told every decision, on the loop goroutine
	Note   func(text string)        // is told, in a sentence, what else happens, such as a lost connection
	Redact func(text string) string // takes secrets out of what is stored and sent
	Logger *slog.Logger

	Now   func() time.Time                       // Defaults to time.Now.
	After func(d time.Duration) <-chan time.Time // waits by that clock. Defaults to time.After.
}

const (
	reconnect = time.Second          // before something that failed is tried again
	settle    = 2 * time.Millisecond // what comes in one burst is decided about once
	idleAsk   = time.Hour            // with nothing due there is no harm in asking again
)

// Watch watches the sessions of one project.
type Watch struct {
	cfg    Config
	log    *slog.Logger
	holder Holder
	posts  chan func() // to be run on the loop goroutine
	work   sync.WaitGroup

	// Owned by the loop goroutine:

	client   *opencode.Client
	dir      *opencode.Directory
	online   bool
	told     bool // that the connection is lost
	offers   session.Offers
	offered  []string            // the tools of manager's own that the server was told of, since it is online
	sessions map[string]*watched // those that are watched now, and those of which a record is left
	strange  map[string]bool     // sessions that were looked up, and are none of ours
	typed    map[string]typed    // by token, what was typed in a session that is yet to be found
	inFlight int                 // checks that run, and words that were typed
	entries  []Entry             // to be stored
	fatal    error
}

// New makes a watch of a complete configuration.
func New(cfg Config) *Watch {
	if cfg.DryRun {
		cfg.Policy.Countdown = 0 // nobody is shown one
	}
	if cfg.Now == nil {
		cfg.Now, cfg.After = time.Now, time.After
	}
	w := &Watch{
		cfg: cfg, log: cfg.Logger, posts: make(chan func()), sessions: map[string]*watched{}, strange: map[string]bool{},
		typed: map[string]typed{},
	}
	for _, r := range cfg.Records {
		w.sessions[r.SessionID] = &watched{rec: r}
	}
	return w
}

// Run watches until ctx ends, which is its error then, or with Once until everything was looked at. Nothing is sent
// after it returned. It is called once.
func (w *Watch) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer w.work.Wait()
	defer cancel()
	if err := w.attach(ctx); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
		defer cancel()
		if err := w.offers.Withdraw(ctx); err != nil {
			w.log.Warn("manager's tools could not be taken back", "error", err)
		}
		w.client.Close()
	}()
	sub := w.client.Subscribe(opencode.Filter{Directory: w.cfg.Project})
	for {
		next, due := w.next()
		select {
		case e, ok := <-sub.C():
			if !ok {
				return opencode.ErrClosed
			}
			w.event(ctx, e)
			if _, cut := e.Payload.(opencode.Disconnected); cut { // it may come back elsewhere, as OpenCode 2's service does
				w.client.Close()
				if err := w.attach(ctx); err != nil {
					return errors.Join(err, w.save())
				}
				sub = w.client.Subscribe(opencode.Filter{Directory: w.cfg.Project})
			}
		case f := <-w.posts:
			f()
		case <-w.cfg.After(max(due, settle)):
			if next != nil {
				w.decide(ctx, next)
			}
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), w.save())
		}
		if err := errors.Join(w.fatal, w.save()); err != nil {
			return err
		}
		if w.cfg.Once && w.done() {
			return nil
		}
	}
}

// attach connects, and waits for a server that is not there yet.
func (w *Watch) attach(ctx context.Context) error {
	for {
		client, err := w.cfg.Attach(ctx)
		if err == nil {
			w.client, w.dir, w.holder.URL = client, client.In(w.cfg.Project), client.Address()
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if w.cfg.Once || !errors.Is(err, opencode.ErrUnavailable) {
			return err
		}
		w.lost(err)
		select {
		case f := <-w.posts: // people may ask how it is
			f()
			if err := w.save(); err != nil {
				return err
			}
		case <-time.After(reconnect):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// lost says once that there is no connection.
func (w *Watch) lost(err error) {
	w.online = false
	if !w.told {
		w.told = true
		w.cfg.Note("OpenCode does not answer; waiting for it.")
		w.log.Info("no connection", "error", err)
	}
}

// found is called when the event stream stands, the first time and after every gap: what happened before is read.
func (w *Watch) found(ctx context.Context) {
	w.online, w.offered = true, nil // a server that was started again has forgotten them
	if w.told {
		w.told = false
		w.cfg.Note("OpenCode answers again.")
	}
	if w.cfg.Diverter != nil { // before there is a session
		if err := w.offer(ctx, w.cfg.Diverter.On(boulder.BlockerScope{})); err != nil {
			w.failed(err)
		}
	}
	for s := range w.watched() {
		// Who was asked something before the gap may not know that the question is gone: idleness begins again.
		w.apply(s, enforcer.Activity{At: w.cfg.Now()})
		s.loaded, s.standIn.Dir = false, w.dir
	}
	clear(w.strange)
	recent, err := w.dir.Sessions(ctx, opencode.SessionFilter{Roots: !w.cfg.All, UpdatedSince: w.cfg.Now().Add(-w.cfg.Since)})
	if err != nil {
		w.failed(err)
	}
	for _, info := range recent {
		w.meet(ctx, info.ID)
	}
	for id, s := range maps.Clone(w.sessions) {
		if s.rec.Asked || s.rec.unfinished(w.cfg.Now()) {
			w.meet(ctx, id)
		}
	}
}

// failed takes in a call that failed. The event stream says when the server is there again.
func (w *Watch) failed(err error) {
	switch {
	case errors.Is(err, context.Canceled):
	case errors.Is(err, opencode.ErrUnauthorized), w.cfg.Once:
		w.fatal = err
	default:
		w.log.Warn("could not read OpenCode's state", "error", err)
	}
}

func (w *Watch) watched() iter.Seq[*watched] {
	return func(yield func(*watched) bool) {
		for _, s := range maps.Clone(w.sessions) {
			if s.tree != nil && !yield(s) {
				return
			}
		}
	}
}

// next is the session to decide about first, and how long there is nothing to do by itself.
func (w *Watch) next() (next *watched, due time.Duration) {
	if w.online {
		for s := range w.watched() {
			if !s.due.IsZero() && (next == nil || s.due.Before(next.due)) {
				next = s
			}
		}
	}
	if next == nil {
		return nil, idleAsk
	}
	return next, next.due.Sub(w.cfg.Now())
}

// done reports whether one look at each session has come to its end.
func (w *Watch) done() bool {
	for s := range w.watched() {
		if !s.lookedAt {
			return false
		}
	}
	return w.online && w.inFlight == 0
}

func (w *Watch) save() error {
	entries := w.entries
	w.entries = nil
	var records []Record
	for _, s := range w.sessions {
		if s.changed {
			s.changed, s.rec.UpdatedAt = false, w.cfg.Now()
			records = append(records, s.rec)
		}
	}
	if w.cfg.DryRun || len(records)+len(entries) == 0 {
		return nil
	}
	return w.cfg.Store.Save(records, entries...)
}
