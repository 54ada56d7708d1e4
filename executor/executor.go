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
	RunsDir     string           // where transcripts are written; defaults to .manager/runs in Project
	Rules       *enforcer.Rules  // defaults to [enforcer.DefaultRules]
	GateTimeout time.Duration    // of one gate; defaults to [DefaultGateTimeout]
	Env         []string         // of gates; defaults to os.Environ()
	Asks        Asks             // what an agent is told that asks for a permission; defaults to [AsksReject]
	Diverter    session.Diverter // takes down what agents want a person to answer; where it is off, or nil, Asks holds
	// Price says what a call of a model, provider/model, cost in US dollars, where OpenCode knows no price. It may be called
	// from any goroutine. Defaults to knowing none.
	Price  func(model string, u boulder.Usage) (dollars float64, known bool)
	Redact Redactor     // goes over all that is written, reported or handed over; defaults to leaving it as it is
	Logger *slog.Logger // defaults to none
	Now    func() time.Time
	After  func(time.Duration) <-chan time.Time
}

// Executor implements orchestrator.Runner on an OpenCode server. It is safe for concurrent use.
type Executor struct {
	cfg   Config
	rules enforcer.Rules
	tool  session.Offers
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
	cfg.RunsDir = cmp.Or(cfg.RunsDir, filepath.Join(cfg.Project, ".manager", "runs"))
	cfg.GateTimeout = cmp.Or(cfg.GateTimeout, DefaultGateTimeout)
	cfg.Redact = cmp.Or[Redactor](cfg.Redact, asItIs{})
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Price == nil {
		cfg.Price = func(string, boulder.Usage) (float64, bool) { return 0, false }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	e := &Executor{cfg: cfg, rules: enforcer.DefaultRules()}
	if cfg.Rules != nil {
		e.rules = *cfg.Rules
	}
	return e, nil
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
	t := &turn{Executor: e, job: job, report: e.reporting(report), seen: newObservation()}
	t.asks = &session.StandIn{
		Diverter: e.cfg.Diverter, Policy: t.policy, About: t.about, Tell: t.tellRuled, In: t.directoryOf, Now: e.cfg.Now,
		Log: e.cfg.Logger,
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
	if err != nil {
		defer t.leave(ctx, ctx.Err() != nil || t.serverDied())
	}
	if err != nil && ctx.Err() != nil {
		if t.dir != nil && t.job.Attempt.SessionID != "" && t.job.Turn.MessageID != "" {
			t.abort(context.WithoutCancel(ctx)) // wherever it was: an agent that nobody follows does not go on
		}
		return evidence, context.Cause(ctx)
	}
	return evidence, e.fault(err)
}

func (t *turn) run(ctx context.Context) (boulder.Evidence, error) {
	if err := t.prepare(ctx); err != nil {
		return boulder.Evidence{}, err
	}
	// Before the session is created, which has no id yet: the connection for events comes to stand meanwhile. All directories
	// are listened to, since sub-agents may work in others.
	t.sub = t.conn.Client.Subscribe(opencode.Filter{Sessions: []string{t.job.Attempt.Tag}})
	defer t.sub.Close()
	if err := t.openSession(ctx); err != nil {
		return boulder.Evidence{}, err
	}
	t.sub.Follow(t.job.Attempt.SessionID)
	t.asks.Scope.SessionID = t.job.Attempt.SessionID
	var nudges []string
	for _, n := range t.job.Turn.Nudges {
		nudges = append(nudges, n.MessageID)
	}
	t.tree = session.NewTurn(t.job.Attempt.SessionID, t.rules, nudges)
	if err := t.offerTool(ctx); err != nil {
		return boulder.Evidence{}, err
	}
	if !t.job.Recovered {
		t.skip()
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
	return evidence, t.conclude(ctx)
}

// prepare gets a live server and writes the files that the prompt points to.
func (t *turn) prepare(ctx context.Context) error {
	if m := t.job.Attempt.Model; m != "" {
		t.model = modelRef(m)
	}
	if err := checkIDs(t.job.BoulderID, t.job.Attempt.SubTaskID); err != nil {
		return err
	}
	if err := t.writeFiles(); err != nil {
		return err
	}
	conn, err := t.cfg.Host.Connect(ctx)
	if err != nil {
		return startFault(err)
	}
	t.conn, t.dir = conn, conn.Client.In(t.cfg.Project)
	return nil
}

// serverDied reports whether it is known that what was pending is no more.
func (t *turn) serverDied() bool {
	select {
	case <-t.conn.Down: // nil, and never ready, where nothing can be known
		return true
	default:
		return false
	}
}
