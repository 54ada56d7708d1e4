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
	"path/filepath"
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

// Config is what an Executor works with. Host, Project and Workspace are required.
type Config struct {
	Host        *opencode.Host
	Project     string // absolute directory
	Workspace   Workspace
	Rules       *enforcer.Rules  // defaults to [enforcer.DefaultRules]
	GateTimeout time.Duration    // of one gate; defaults to [DefaultGateTimeout]
	Env         []string         // of gates; defaults to os.Environ()
	Asks        Asks             // what an agent is told that asks for a permission; defaults to [AsksReject]
	Diverter    session.Diverter // takes down what agents want a person to answer; where it is off, or nil, Asks holds
	// Price says what a call of a model, provider/model, cost in US dollars, where OpenCode knows no price. It may be called
	// from any goroutine. Defaults to knowing none.
	Price func(model string, u boulder.Usage) (dollars float64, known bool)
	// Attach connects to a server that an earlier run was attached to. Defaults to [opencode.Attach] without a password.
	Attach func(ctx context.Context, address string) (*opencode.Client, error)
	// Redact takes secrets out of all that is written, reported or handed over. It may be called from any goroutine. Defaults
	// to those that are known by their form.
	Redact secret.Cleaner
	Logger *slog.Logger // defaults to none
	Now    func() time.Time
	After  func(time.Duration) <-chan time.Time
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
	if cfg.Attach == nil {
		cfg.Attach = func(ctx context.Context, address string) (*opencode.Client, error) {
			return opencode.Attach(ctx, address, opencode.AttachConfig{})
		}
	}
	if cfg.Price == nil {
		cfg.Price = func(string, boulder.Usage) (float64, bool) { return 0, false }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	if cfg.Rules == nil {
		cfg.Rules = new(enforcer.DefaultRules())
	}
	return &Executor{cfg: cfg}, nil
}

// turn is one call of Run.
type turn struct {
	*Executor
	job    boulder.Job
	report func(boulder.Body) error
	conn   opencode.Connection
	dir    *opencode.Directory
	sub    *opencode.Subscription
	model  opencode.ModelRef
	tree   *session.Turn
	asks   *session.StandIn
	seen   observation
}

func (e *Executor) newTurn(job boulder.Job, report func(boulder.Body) error) *turn {
	t := &turn{Executor: e, job: job, report: e.reporting(report), model: opencode.Model(job.Attempt.Model), seen: observation{
		counted: map[string]bool{}, touched: map[string]bool{}, offered: map[string]bool{},
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
	evidence, err := t.run(ctx)
	evidence = handOver(e, evidence)
	switch {
	case err == nil:
		return evidence, nil
	case ctx.Err() != nil:
		t.leave(ctx, true)
		return evidence, context.Cause(ctx)
	}
	t.leave(ctx, false)
	return evidence, &cleanedError{err, e.cfg.Redact.Text(err.Error())}
}

func (t *turn) run(ctx context.Context) (boulder.Evidence, error) {
	if err := checkIDs(t.job.BoulderID, t.job.Attempt.SubTaskID); err != nil {
		return boulder.Evidence{}, err
	}
	if err := t.writeFiles(); err != nil {
		return boulder.Evidence{}, err
	}
	conn, err := t.cfg.Host.Connect(ctx)
	if err != nil {
		return boulder.Evidence{}, startFault(err)
	}
	t.conn, t.dir = conn, conn.Client.In(t.cfg.Project)
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
	if err := t.offerTool(ctx); err != nil {
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

// leave is for a turn that did not come to its end: whoever takes it up reads everything again. It is best effort.
func (t *turn) leave(ctx context.Context, cancelled bool) {
	ctx = context.WithoutCancel(ctx)
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
func handOver[T any](e *Executor, v T) T {
	return secret.Each(v, e.cfg.Redact)
}

// reporting gives a report function that tells no secrets.
func (e *Executor) reporting(report func(boulder.Body) error) func(boulder.Body) error {
	return func(b boulder.Body) error { return report(handOver(e, b)) }
}

// cleanedError is an error whose text holds no secrets.
type cleanedError struct {
	error
	text string
}

func (e *cleanedError) Error() string { return e.text }
func (e *cleanedError) Unwrap() error { return e.error }
