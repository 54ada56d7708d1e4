// Package watch keeps the user's own OpenCode sessions going. It follows a project's main sessions, asks the arbiter
// (package enforcer) after every turn and at every time that the arbiter names, and carries out its decision: a
// countdown on the screen, one prompt, or nothing.
//
// The state of a session is a [session.Tree], which is pure; what is remembered is a [Record] in a [Store]. One
// goroutine owns both and talks to OpenCode ([Watch.Run]); session.go shows the path of an event. Only slow checks run
// on other goroutines, and post their results. Every decision is on disk before it is carried out.
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
	// Attach connects to OpenCode. It is retried every second on [opencode.ErrUnavailable]; other errors end [Watch.Run].
	Attach func(ctx context.Context) (*opencode.Client, error)
	// Store keeps the records. The caller closes it. May be nil for a dry run.
	Store *Store
	// Records are the stored ones.
	Records []Record

	Policy enforcer.Policy // the numbers of the gates
	// MinOutput is [enforcer.Rules.MinOutput]: a turn that was cut off is not the end of the work.
	MinOutput int
	DoneWhen  []string // the criteria of completion, in the words of [boulder.DoneWords]
	Tests     []string // the commands of the criterion tests
	// Lint are commands for the criterion diagnostics where OpenCode has no working language server.
	Lint []string
	// Run runs a command of Tests or Lint in the project, as a gate.
	Run func(ctx context.Context, command string) boulder.Gate
	// Judge asks a model, for the criterion judge, what is missing from a request of the user.
	Judge func(ctx context.Context, request string, e *boulder.Evidence) (missing []string, err error)
	// Budget limits each session since its loop began: tokens, cost and time, sub-agents included. Nil: none.
	Budget *boulder.Budget
	// Since is how long a session may have rested to be watched from the start. Older ones are watched once they are
	// active, or if a watch left them undone within the last day.
	Since time.Duration
	// All watches the sessions of sub-agents as well, each for itself.
	All bool
	// Once ends after one look at each session and its consequences.
	Once bool
	// DryRun sends and stores nothing.
	DryRun bool
	// Diverter records what agents want the user to answer. Nil: asks wait for the user.
	Diverter session.Diverter
	// Forget drops what is stored elsewhere about a session that was deleted: its switch of blockers. May be nil.
	Forget func(ctx context.Context, sessionID string) error
	// Typed carries out what was typed after /blockers in a session, outside the loop, and returns the agent's text.
	Typed func(ctx context.Context, sessionID, word string) string

	Show   func(Entry)              // gets every decision, on the loop goroutine
	Note   func(text string)        // gets other news as a sentence, such as a lost connection
	Redact func(text string) string // removes secrets from what is stored and sent
	Logger *slog.Logger

	Now   func() time.Time                       // Defaults to time.Now.
	After func(d time.Duration) <-chan time.Time // by that clock. Defaults to time.After.
}

const (
	reconnect = time.Second          // before a retry
	burst     = 2 * time.Millisecond // collects a burst of events before a decision
	idleAsk   = time.Hour            // the longest wait with nothing due; waking early does no harm
)

// Watch watches the sessions of one project.
type Watch struct {
	cfg    Config
	log    *slog.Logger
	holder Holder
	posts  chan func() // to run on the loop goroutine
	work   sync.WaitGroup

	// Owned by the loop goroutine:

	client   *opencode.Client
	dir      *opencode.Directory
	online   bool
	saidLost bool // the lost connection was noted
	offers   session.Offers
	offered  []string            // manager's tools that the server has, on this connection
	sessions map[string]*watched // those watched now, and those with a record only
	foreign  map[string]bool     // sessions that were looked up and are not ours
	typed    map[string]typed    // by token: words whose session is not found yet
	inFlight int                 // running checks and typed words
	entries  []Entry             // to be stored
	fatal    error
}

// New returns a watch for a complete configuration.
func New(cfg Config) *Watch {
	if cfg.DryRun {
		cfg.Policy.Countdown = 0 // none is shown
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	w := &Watch{
		cfg: cfg, log: cfg.Logger, posts: make(chan func()), sessions: map[string]*watched{}, foreign: map[string]bool{},
		typed: map[string]typed{},
	}
	for _, r := range cfg.Records {
		w.sessions[r.SessionID] = &watched{rec: r}
	}
	return w
}

// Run watches until ctx ends, whose cause it returns, or with Once until each session had its look. It sends nothing
// after it returned. Call it once.
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
			if _, cut := e.Payload.(opencode.Disconnected); cut { // it may return elsewhere, as OpenCode 2's service does
				w.client.Close()
				if err := w.attach(ctx); err != nil {
					return errors.Join(err, w.save())
				}
				sub = w.client.Subscribe(opencode.Filter{Directory: w.cfg.Project})
			}
		case f := <-w.posts:
			f()
		case <-w.cfg.After(max(due, burst)):
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

// attach connects, and waits for a server that does not answer yet.
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
		w.disconnected(err)
		select {
		case f := <-w.posts: // requests are answered meanwhile
			f()
			if err := w.save(); err != nil {
				return err
			}
		case <-w.cfg.After(reconnect):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// disconnected notes once that there is no connection.
func (w *Watch) disconnected(err error) {
	w.online = false
	if !w.saidLost {
		w.saidLost = true
		w.cfg.Note("OpenCode does not answer; waiting for it.")
		w.log.Info("no connection", "error", err)
	}
}

// connected is called when the event stream is connected, at first and after every gap. It reads what happened before.
func (w *Watch) connected(ctx context.Context) {
	w.online, w.offered = true, nil // a restarted server has none
	if w.saidLost {
		w.saidLost = false
		w.cfg.Note("OpenCode answers again.")
	}
	if w.cfg.Diverter != nil { // before the first session
		if err := w.offer(ctx, w.cfg.Diverter.On(boulder.BlockerScope{})); err != nil {
			w.failed(err)
		}
	}
	for s := range w.watched() {
		// An ask before the gap may have vanished without an event: idle time starts again.
		w.apply(s, enforcer.Activity{At: w.cfg.Now()})
		s.loaded, s.standIn.Dir = false, w.dir
	}
	clear(w.foreign)
	recent, err := w.dir.Sessions(ctx, opencode.SessionFilter{Roots: !w.cfg.All, UpdatedSince: w.cfg.Now().Add(-w.cfg.Since)})
	if err != nil {
		w.failed(err)
	}
	for _, info := range recent {
		w.lookUp(ctx, info.ID)
	}
	for id, s := range maps.Clone(w.sessions) {
		if s.rec.Asked || s.rec.unfinished(w.cfg.Now()) {
			w.lookUp(ctx, id)
		}
	}
}

// failed handles a failed call. The event stream tells when the server is back.
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

// next returns the session to decide about first, and the time until then.
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

// done reports whether each session has had its look.
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
