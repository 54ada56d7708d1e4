// Package watch keeps a person's own OpenCode sessions going: it follows what happens in a project's main sessions,
// asks the arbiter (package enforcer) after every turn and at every time that the arbiter names, and does what it says:
// a countdown on the screen, one prompt, or nothing.
//
// What is known of a session is a [session.Tree], which is pure; what is remembered is a [Record] in a [Store]; one goroutine
// owns both ([Watch.Run]). Reading the server, running checks and sending are done by others, which hand what came of
// it back. Every decision that something is done about is on disk before it is done.
package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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
	// Store holds the records. The caller closes it. Nil: nothing is remembered, for a dry run.
	Store *Store
	// Records are what a dry run begins with, in the place of Store.
	Records []Record

	// Policy are the numbers of the gates. Defaults to [enforcer.WatchPolicy].
	Policy *enforcer.Policy
	// DoneWhen are the criteria of completion, in the words of [boulder.DoneWords]. Defaults to todos.
	DoneWhen []string
	// Tests are the commands of the criterion tests. They are run with Run.
	Tests []string
	// Lint are commands that stand in for a language server, for the criterion diagnostics. They are run with Run, and only
	// where OpenCode has no language server that works.
	Lint []string
	// Run runs a command in the project, as a gate is run. Needed with Tests and Lint.
	Run func(ctx context.Context, command string) boulder.Gate
	// Judge asks a model whether the work is complete, and gives what is missing; nothing: it is. Needed with the
	// criterion judge.
	Judge func(ctx context.Context, q Question) (missing []string, err error)
	// Budget of each session since its loop began: tokens, cost and time, sub-agents included. Nil: none.
	Budget *boulder.Budget
	// Since is how long a session may have rested that is watched from the beginning. Others are watched when they show
	// life, and if they were watched within the last day and were not done. Defaults to 15 minutes: what a person left
	// longer ago may have been left for good.
	Since time.Duration
	// All watches the sessions of sub-agents as well, each for itself.
	All bool
	// Once ends after one look at each session, and what comes of it.
	Once bool
	// DryRun does nothing and stores nothing.
	DryRun bool

	// Diverter takes down what agents want a person to answer. Defaults to none: asks wait for the person.
	Diverter session.Diverter

	// Show is told every decision, on the loop goroutine. Defaults to nothing.
	Show func(Entry)
	// Note is told, in a sentence for people, what else happens: that the connection is lost, and is there again.
	Note func(text string)
	// Redact takes secrets out of what is stored and sent. Defaults to nothing.
	Redact func(text string) string
	// Now is the clock. Defaults to time.Now.
	Now    func() time.Time
	Logger *slog.Logger // defaults to none

	// stored is called when an intent is on disk, before it is sent. An error ends Run, as a crash would. Of tests.
	stored func(Intent) error
}

// Question is what a judge is asked about.
type Question struct {
	Request string         // what the person asked for last
	Answer  string         // what the agent said last
	Todos   []boulder.Todo // its list
	Gates   []boulder.Gate // commands that were run
	// Of the newest turn:

	Finish string             // OpenCode's reason for its end, such as stop
	Tools  []boulder.ToolCall // the last 30, the oldest first
	Called int                // all of them
}

// DefaultSince is the default of [Config].Since.
const DefaultSince = 15 * time.Minute

const (
	reconnect  = time.Second // between two tries to attach
	maxReaders = 4           // readings of the server's state at the same time
	beatSave   = time.Minute // how old what is stored of a sign of life may be; a reading tells it anew after a crash
	idleAsk    = time.Hour   // with nothing due there is no harm in asking again
)

// Watch watches the sessions of one project.
type Watch struct {
	cfg    Config
	policy enforcer.Policy
	log    *slog.Logger

	posts   chan func() // to be run on the loop goroutine
	work    sync.WaitGroup
	readers chan struct{}
	offers  session.Offers // of the blocker tool

	// Owned by the loop goroutine:

	client   *opencode.Client
	dir      *opencode.Directory
	online   bool
	listed   bool // the directory's sessions were listed since it is online
	told     bool // that the connection is lost
	offered  bool // the server was told of the blocker tool, since it is online
	sessions map[string]*watched
	records  map[string]Record // of sessions that are not watched now
	strange  map[string]bool   // sessions that are being looked up, or are none of ours
	inFlight int               // readings, checks and sendings
	entries  []Entry           // to be stored
	fatal    error
}

// New checks and completes a configuration.
func New(cfg Config) (*Watch, error) {
	if cfg.Project == "" || cfg.Attach == nil || cfg.Store == nil && !cfg.DryRun {
		return nil, errors.New("watch: Project, Attach and Store are needed")
	}
	policy := enforcer.WatchPolicy()
	if cfg.Policy != nil {
		policy = *cfg.Policy
	}
	if cfg.DryRun {
		policy.Countdown = 0 // nobody is shown one
	}
	if len(cfg.DoneWhen) == 0 {
		cfg.DoneWhen = []string{boulder.DoneTodos}
	}
	for _, word := range cfg.DoneWhen {
		switch {
		case !boulder.IsDoneWord(word):
			return nil, fmt.Errorf("watch: there is no criterion %q", word)
		case word == boulder.DoneTests && (len(cfg.Tests) == 0 || cfg.Run == nil):
			return nil, errors.New("watch: the criterion tests needs a command")
		case word == boulder.DoneDiagnostics && len(cfg.Lint) > 0 && cfg.Run == nil:
			return nil, errors.New("watch: the criterion diagnostics has commands, and nothing to run them with")
		case word == boulder.DoneJudge && cfg.Judge == nil:
			return nil, errors.New("watch: the criterion judge needs a judge")
		}
	}
	if cfg.Since == 0 {
		cfg.Since = DefaultSince
	}
	if cfg.Show == nil {
		cfg.Show = func(Entry) {}
	}
	if cfg.Note == nil {
		cfg.Note = func(string) {}
	}
	if cfg.Redact == nil {
		cfg.Redact = func(text string) string { return text }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Watch{
		cfg: cfg, policy: policy, log: cfg.Logger, posts: make(chan func()), readers: make(chan struct{}, maxReaders),
		sessions: map[string]*watched{}, records: map[string]Record{}, strange: map[string]bool{},
	}, nil
}

// needs reports whether a criterion counts.
func (w *Watch) needs(criterion string) bool { return slices.Contains(w.cfg.DoneWhen, criterion) }

// costly reports whether there is a criterion that takes time or money to look at.
func (w *Watch) costly() bool {
	return w.needs(boulder.DoneTests) || w.needs(boulder.DoneJudge) || w.needs(boulder.DoneDiagnostics)
}

// Run watches until ctx ends, which is its error then, or with Once until everything was looked at. Nothing is sent
// after it returned. It is called once.
func (w *Watch) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer w.work.Wait()
	defer cancel()
	if err := w.remember(); err != nil {
		return err
	}
	if err := w.attach(ctx); err != nil {
		return err
	}
	defer w.client.Close()
	defer w.withdraw(ctx)
	sub := w.client.Subscribe(opencode.Filter{Directory: w.cfg.Project})
	defer sub.Close()
	timer := time.NewTimer(idleAsk)
	defer timer.Stop()
	for {
		if err := w.decideAll(ctx); err != nil {
			return err
		}
		if w.cfg.Once && w.done() {
			return nil
		}
		timer.Reset(w.next())
		select {
		case e, ok := <-sub.C():
			if !ok {
				return fmt.Errorf("watch: %w", opencode.ErrClosed)
			}
			w.event(ctx, e)
			w.drain(ctx, sub)
		case f := <-w.posts:
			f()
		case <-timer.C:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), w.save())
		}
	}
}

// drain takes in what has come meanwhile, so that a burst of events is decided about once.
func (w *Watch) drain(ctx context.Context, sub *opencode.Subscription) {
	for range 256 {
		select {
		case e, ok := <-sub.C():
			if !ok {
				return
			}
			w.event(ctx, e)
		default:
			return
		}
	}
}

// attach connects, and waits for a server that is not there yet.
func (w *Watch) attach(ctx context.Context) error {
	for {
		client, err := w.cfg.Attach(ctx)
		if err == nil {
			w.client, w.dir = client, client.In(w.cfg.Project)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if w.cfg.Once || !errors.Is(err, opencode.ErrUnavailable) {
			return err
		}
		w.lost(err)
		pause := time.NewTimer(reconnect)
		select {
		case f := <-w.posts: // people may ask how it is
			f()
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		}
		pause.Stop()
	}
}

// lost says once that there is no connection.
func (w *Watch) lost(err error) {
	w.online, w.listed = false, false
	if !w.told {
		w.told = true
		w.cfg.Note("OpenCode does not answer; waiting for it.")
		w.log.Info("no connection", "error", err)
	}
}

// found is called when the event stream stands, the first time and after every gap: what happened before is read.
func (w *Watch) found(ctx context.Context) {
	w.online = true
	if w.told {
		w.told = false
		w.cfg.Note("OpenCode answers again.")
	}
	clear(w.strange)
	w.offerEarly(ctx)
	for _, s := range w.sessions {
		// Who was asked something before the gap may not know that the question is gone: idleness begins anew.
		w.apply(s, enforcer.Activity{At: w.cfg.Now()})
		s.fresh = false
		w.read(ctx, s)
	}
	w.list(ctx)
}

// background has a function run in the background, and what it gives back on the loop goroutine.
func (w *Watch) background(ctx context.Context, work func() (then func())) {
	w.inFlight++
	w.work.Go(func() {
		then := work()
		select {
		case w.posts <- func() { w.inFlight--; then() }:
		case <-ctx.Done():
		}
	})
}

// next is how long there is nothing to do by itself.
func (w *Watch) next() time.Duration {
	wait := idleAsk
	now := w.cfg.Now()
	for _, s := range w.sessions {
		if !s.due.IsZero() {
			wait = min(wait, max(0, s.due.Sub(now)))
		}
		if s.dirty {
			wait = min(wait, beatSave)
		}
	}
	return wait
}

// decideAll decides about every session of which something was heard or whose time has come, and stores what came of it.
func (w *Watch) decideAll(ctx context.Context) error {
	if w.online {
		for _, id := range w.ids() {
			s := w.sessions[id]
			if s == nil || !s.news && (s.due.IsZero() || w.cfg.Now().Before(s.due)) {
				continue
			}
			s.news = false
			if err := w.decide(ctx, s); err != nil {
				return err
			}
			w.divert(ctx, s, w.cfg.Now())
		}
	}
	return errors.Join(w.fatal, w.save())
}

// ids are the watched sessions in a fixed order.
func (w *Watch) ids() []string {
	ids := make([]string, 0, len(w.sessions))
	for id := range w.sessions {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// done reports whether one look at each session has come to its end.
func (w *Watch) done() bool {
	if !w.online || !w.listed || w.inFlight > 0 {
		return false
	}
	for _, s := range w.sessions {
		if !s.lookedAt {
			return false
		}
	}
	return true
}

// save stores what has changed. What is only a sign of life may wait.
func (w *Watch) save() error {
	if w.cfg.DryRun {
		w.entries = nil
		return nil
	}
	now := w.cfg.Now()
	var records []Record
	for _, s := range w.sessions {
		if s.changed || s.dirty && now.Sub(s.rec.UpdatedAt) >= beatSave {
			s.rec.UpdatedAt, s.changed, s.dirty = now, false, false
			records = append(records, s.rec)
		}
	}
	if len(records) == 0 && len(w.entries) == 0 {
		return nil
	}
	entries := w.entries
	w.entries = nil
	return w.cfg.Store.Save(records, entries...)
}
