// Package executor runs turns of attempts in OpenCode sessions: it creates the session or finds it again, sends the prompt
// once, follows the events until the turn has ended or has to be ended, and gathers the evidence itself: what changed, what
// the gates say, what was called and said. It judges nothing.
package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// Workspace is where the sub-tasks work. Its methods may be called from many goroutines at once.
type Workspace interface {
	// Snapshot names the present content of the workspace; empty where there are no snapshots (outside git).
	Snapshot(ctx context.Context) (string, error)
	// Diff says what changed between two snapshots, or why that cannot be said. own says whether a changed file
	// (slash-separated, relative to the project) is the work of the session that is being looked at.
	Diff(ctx context.Context, from, to string, own func(path string) bool) (boulder.Diff, error)
}

// Slots are where the sub-tasks of isolated boulders work. Methods may be called from many goroutines at once, for different
// slots; each may be called again after a crash at any point.
type Slots interface {
	// Prepare makes a slot ready for an attempt: at From, with what earlier attempts of the sub-task left merged onto that. One
	// that the sub-task works in already stays as it is. Where a command that sets it up fails, the error is a
	// [boulder.SetUpError]; one that a retry may cure wraps [boulder.ErrTrouble].
	Prepare(ctx context.Context, c boulder.SlotClaim) (Slot, error)
	// Integrate puts a result onto a tip: the tree that they come to, and a commit of it unless they conflict.
	Integrate(ctx context.Context, tip, result, message string, at time.Time) (commit, tree string, conflicts []string, err error)
	// Commit is one of a tree that [Slot.Shared] gave, on top of parent.
	Commit(ctx context.Context, tree, parent, message string, at time.Time) (string, error)
	// Marked are those of the paths that have conflict markers in a tree.
	Marked(ctx context.Context, tree string, paths []string) ([]string, error)
	// Tree is that of a commit.
	Tree(ctx context.Context, commit string) (string, error)
	// MoveTip moves the ref of a boulder's tip from one commit to the next; one that is there already stays.
	MoveTip(ctx context.Context, boulderID, from, to string) error
	// Free removes the slots of a boulder, and its refs but those of what is neither landed nor on the tip.
	Free(ctx context.Context, boulderID, base string, landed bool, onTip func(subTask string) bool) error
	// TakeBack undoes a change in the project's own files, or nothing of it. It may be called again after a crash.
	TakeBack(ctx context.Context, change boulder.Span) error
}

// Slot is a copy of the project for one sub-task.
type Slot interface {
	Workspace
	Dir() string   // in which the agent and the gates work
	From() string  // commit that the work goes on top of
	Env() []string // for commands, besides the usual
	// Lay puts the files of a tree into it, but of some paths what From has. An error if that has one of them not.
	Lay(ctx context.Context, tree string, paths []string) error
	// Shared is the tree of its files, which the project has from now on.
	Shared(ctx context.Context) (tree string, err error)
	// Missing are the ignored files and directories of the project that are not in it.
	Missing(ctx context.Context) ([]string, error)
	// Capture keeps a snapshot of it, or with "" the present content, in the project, as a commit on top of From.
	Capture(ctx context.Context, tree string) (commit, captured string, err error)
}

// Config is what an Executor works with. Host, Project and Workspace are required.
type Config struct {
	Host         *opencode.Host
	Project      string // absolute directory
	Workspace    Workspace
	BlockersFile string           // in the project, relative: no escape from a slot; empty: there is none
	Slots        Slots            // nil: no isolated boulder can run
	Rules        *enforcer.Rules  // defaults to [enforcer.DefaultRules]
	GateTimeout  time.Duration    // of one gate; defaults to [DefaultGateTimeout]
	Env          []string         // of gates; defaults to os.Environ()
	Asks         Asks             // what an agent is told that asks for a permission; defaults to [AsksReject]
	Diverter     session.Diverter // takes down what agents want the user to answer; where it is off, or nil, Asks holds
	// Price says what a call of a model, provider/model, cost in US dollars, where OpenCode knows no price. It may be called
	// from any goroutine. Nil: it knows none.
	Price func(model string, u boulder.Usage) (dollars float64, known bool)
	// Attach connects to a server that an earlier run was attached to. Defaults to [opencode.Attach] without a password.
	Attach func(ctx context.Context, address string) (*opencode.Client, error)
	// Redact takes secrets out of all that is written, reported or handed over. It may be called from any goroutine. Defaults
	// to those that are known by their form.
	Redact secret.Cleaner
	Logger *slog.Logger                         // defaults to none
	Now    func() time.Time                     // defaults to time.Now
	After  func(time.Duration) <-chan time.Time // by that clock; defaults to time.After
}

// Executor implements orchestrator.Runner on an OpenCode server. It is safe for concurrent use.
type Executor struct {
	cfg  Config
	tool session.Offers
}

// New checks the configuration and fills in the defaults.
func New(cfg Config) (*Executor, error) {
	switch {
	case cfg.Host == nil:
		return nil, errors.New("executor: Config.Host is nil")
	case cfg.Workspace == nil:
		return nil, errors.New("executor: Config.Workspace is nil")
	case !filepath.IsAbs(cfg.Project):
		return nil, fmt.Errorf("executor: project %q is not an absolute path", cfg.Project)
	case cfg.Asks != "" && cfg.Asks != AsksReject && cfg.Asks != AsksAllow:
		return nil, fmt.Errorf("executor: Config.Asks is %q: use %q or %q", cfg.Asks, AsksReject, AsksAllow)
	}
	cfg.GateTimeout = cmp.Or(cfg.GateTimeout, DefaultGateTimeout)
	cfg.Redact = cmp.Or[secret.Cleaner](cfg.Redact, (*secret.Redactor)(nil))
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	cfg.Rules = cmp.Or(cfg.Rules, new(enforcer.DefaultRules()))
	if cfg.Attach == nil {
		cfg.Attach = func(ctx context.Context, address string) (*opencode.Client, error) {
			return opencode.Attach(ctx, address, opencode.AttachConfig{})
		}
	}
	if cfg.Env == nil {
		cfg.Env = os.Environ()
	}
	if cfg.Now == nil {
		cfg.Now, cfg.After = time.Now, time.After
	}
	return &Executor{cfg: cfg}, nil
}

type turn struct {
	*Executor
	job    boulder.Job
	report func(boulder.Body) error
	conn   opencode.Connection
	done   func() // gives conn back
	dir    *opencode.Directory
	sub    *opencode.Subscription
	model  opencode.ModelRef
	tree   *session.Turn
	asks   *session.StandIn
	seen   observation
	place
}

// place is where a turn or a gate works: the project, or a slot.
type place struct {
	path  string // absolute
	files Workspace
	env   []string // of gates
	slot  Slot     // nil: in the project
}

func (e *Executor) project() place {
	return place{path: e.cfg.Project, files: e.cfg.Workspace, env: e.cfg.Env}
}

func (e *Executor) slot(ctx context.Context, c boulder.SlotClaim) (place, error) {
	if e.cfg.Slots == nil {
		return place{}, fmt.Errorf("%w: executor: Config.Slots is nil", boulder.ErrFatal)
	}
	s, err := e.cfg.Slots.Prepare(ctx, c)
	switch {
	case errors.Is(err, boulder.ErrTrouble):
		return place{}, err
	case err != nil:
		return place{}, fmt.Errorf("%w: %w", boulder.ErrFatal, err)
	}
	return place{path: s.Dir(), files: s, env: slices.Concat(e.cfg.Env, s.Env()), slot: s}, nil
}

func (e *Executor) newTurn(job boulder.Job, report func(boulder.Body) error) *turn {
	t := &turn{Executor: e, place: e.project(), job: job, report: e.reporting(report), done: func() {}, model: opencode.Model(job.Attempt.Model), seen: observation{
		counted: map[string]bool{}, touched: map[string]bool{}, offered: map[string][]string{},
	}}
	t.asks = &session.StandIn{
		Diverter: e.cfg.Diverter, Policy: t.policy, About: t.about, Tell: t.tellRuled, Redact: e.cfg.Redact.Text,
		Now: e.cfg.Now, Log: e.cfg.Logger,
		Scope: boulder.BlockerScope{
			BoulderID: job.BoulderID, SubTaskID: job.Attempt.SubTaskID, Attempt: job.Attempt.Attempt,
			SessionID: job.Attempt.SessionID, Diverted: job.Diverted,
		},
	}
	return t
}

// Run brings one turn to its end; see orchestrator.Runner for the contract.
func (e *Executor) Run(
	ctx context.Context, job boulder.Job, report func(boulder.Body) error,
) (boulder.Evidence, error) {
	t := e.newTurn(job, report)
	defer func() { t.done() }()
	evidence, err := t.run(ctx)
	evidence = redacted(e, evidence)
	switch {
	case err == nil:
		return evidence, nil
	case ctx.Err() != nil:
		t.abandon(ctx, true)
		return evidence, context.Cause(ctx)
	}
	t.abandon(ctx, false)
	return evidence, &cleanedError{err, e.cfg.Redact.Text(err.Error())}
}

func (t *turn) run(ctx context.Context) (boulder.Evidence, error) {
	if err := checkIDs(t.job.BoulderID, t.job.Attempt.SubTaskID); err != nil {
		return boulder.Evidence{}, err
	}
	if err := t.writeFiles(); err != nil {
		return boulder.Evidence{}, err
	}
	if err := t.enterSlot(ctx); err != nil {
		return boulder.Evidence{}, err
	}
	conn, done, err := t.cfg.Host.Use(ctx)
	if err != nil {
		return boulder.Evidence{}, startFault(err)
	}
	t.done = done
	t.conn, t.dir = conn, conn.Client.In(t.path)
	if why := NoDiagnostics(conn.Client.Caps(), t.job.Checks.Lint); why != "" && t.job.SubTask.DoneNeeds(boulder.DoneDiagnostics) {
		return boulder.Evidence{}, fmt.Errorf("%w: diagnostics were to decide here: %s, and run the plan again, or go on with OpenCode 1",
			boulder.ErrFatal, why)
	}
	if was := t.job.Attempt.Server; was != "" && was != conn.Server() {
		if err := t.stopAt(ctx, was, t.job.Attempt.SessionID); err != nil {
			return boulder.Evidence{}, err
		}
	}
	// Before the session is created, which has no id yet: the connection for events comes to stand meanwhile. All directories
	// are listened to, since sub-agents may work in others.
	t.sub = t.conn.Client.Subscribe(opencode.Filter{Sessions: []string{t.job.Attempt.Tag}})
	defer t.sub.Close()
	if err := t.openSession(ctx); err != nil {
		return boulder.Evidence{}, err
	}
	t.sub.Follow(t.job.Attempt.SessionID)
	t.tree = session.NewTurn(t.job.Attempt.SessionID, *t.cfg.Rules, t.job.Turn.Nudges)
	t.asks.Scope.SessionID, t.asks.Tree, t.asks.Dir = t.job.Attempt.SessionID, t.tree.Tree, t.dir
	if err := t.offerTools(ctx); err != nil {
		return boulder.Evidence{}, err
	}
	// What came before the prompt is sent is nothing of the turn. A Resync among it says that the connection stands: then
	// nothing will be missing, and there is no need to ask.
	for !t.job.Recovered && len(t.sub.C()) > 0 {
		switch (<-t.sub.C()).Payload.(type) {
		case opencode.Resync:
			t.seen.OfflineSince = time.Time{}
		case opencode.Disconnected:
			t.seen.OfflineSince = t.cfg.Now()
		}
	}
	t.seen.activity = "" // what was reported up to here is not the turn's
	ended, err := t.send(ctx)
	if !ended && err == nil {
		err = t.follow(ctx)
	}
	if err != nil {
		return boulder.Evidence{}, err
	}
	t.seen.ended = t.cfg.Now()
	evidence, err := t.gather(ctx)
	if err != nil {
		return evidence, err
	}
	err = t.conclude(ctx)
	evidence.Replied = t.seen.replied
	return evidence, err
}

// enterSlot has the turn of an isolated boulder work in its slot.
func (t *turn) enterSlot(ctx context.Context) (err error) {
	s, l := t.job.SubTask, t.job.Line
	if l.Base == "" {
		return nil
	}
	t.place, err = t.Executor.slot(ctx, boulder.SlotClaim{
		BoulderID: t.job.BoulderID, Slot: s.Slot, SubTaskID: s.ID, Attempt: t.job.Attempt.Attempt, Base: l.Base,
		From: cmp.Or(s.From, l.Tip), Since: s.Since,
	})
	return err
}

// leave is for a turn that did not come to its end: whoever takes it up reads everything again. It is best effort.
func (t *turn) abandon(ctx context.Context, cancelled bool) {
	ctx = context.WithoutCancel(ctx)
	defer func() {
		if t.place.slot != nil { // the next attempt may work in another one
			if _, _, err := t.place.slot.Capture(ctx, ""); err != nil {
				t.cfg.Logger.Warn("a slot could not be captured", "slot", t.path, "error", err)
			}
		}
	}()
	if cancelled && t.dir != nil && t.job.Attempt.SessionID != "" && t.job.Turn.MessageID != "" {
		aborting, cancel := context.WithTimeout(ctx, session.ReplyTimeout)
		defer cancel() // an agent that nobody follows does not go on
		if err := t.stopSession(aborting, t.dir, t.job.Attempt.SessionID); err != nil {
			t.cfg.Logger.Warn("the turn could not be aborted", "session", t.job.Attempt.SessionID, "error", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, session.ReplyTimeout)
	defer cancel()
	if err := t.reportRaised(ctx, false); err != nil {
		t.cfg.Logger.Warn("a blocker is not reported yet", "error", err)
		return
	}
	select {
	case <-t.conn.Down: // nil, and never ready, where nothing can be known
		cancelled = true
	default:
	}
	if cancelled { // otherwise the server may be out of reach only, and the asks still there
		t.asks.End(ctx)
	}
}

// handOver is a value without secrets: a message as soon as it is read, since a secret that is cut in two is not recognised
// any more; and whatever leaves the executor.
func redacted[T any](e *Executor, v T) T {
	return secret.Each(v, e.cfg.Redact)
}

func (e *Executor) reporting(report func(boulder.Body) error) func(boulder.Body) error {
	return func(b boulder.Body) error { return report(redacted(e, b)) }
}

type cleanedError struct {
	error
	text string
}

func (e *cleanedError) Error() string { return e.text }
func (e *cleanedError) Unwrap() error { return e.error }
