// Package executor runs turns of attempts in OpenCode sessions: it creates or finds the session, sends the prompt once,
// follows the events to the end of the turn, and gathers the evidence. It judges nothing.
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
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// Workspace is where sub-tasks work. Its methods may be called concurrently.
type Workspace interface {
	// Snapshot returns an id of the present content, or an empty one where there are no snapshots (outside git). In a slot,
	// a [boulder.UnstoredError] may come with the id.
	Snapshot(ctx context.Context) (string, error)
	// Diff returns what changed between two snapshots, or says why that is unknown. own reports whether the session at
	// hand changed a file (slash-separated, relative to the project).
	Diff(ctx context.Context, from, to string, own func(path string) bool) (boulder.Diff, error)
	// Repo returns where the user's git stands, or nil outside of git.
	Repo(ctx context.Context) (*boulder.Repo, error)
}

// Slots are where sub-tasks of isolated boulders work. Methods may be called concurrently for different slots, and
// again after a crash at any point.
type Slots interface {
	// Prepare returns a slot that is ready for an attempt: at From, with the work of earlier attempts of the sub-task
	// merged onto it. A slot that the sub-task already works in stays as it is. If a set-up command fails, the error is
	// a [boulder.SetUpError]. An error that a retry may cure wraps [boulder.ErrTrouble].
	Prepare(ctx context.Context, c boulder.SlotClaim) (Slot, error)
	// LikeProject returns a copy of the project at c.From with all ignored files of the project, without set-up, to see
	// what commands do in the project. remove has to be called. No copy: why says why there is none; it is empty if the
	// project has no ignored files.
	LikeProject(ctx context.Context, c boulder.SlotClaim) (like Slot, remove func() error, why string, err error)
	// Integrate merges a result onto a tip. It returns the merged tree, and a commit of it unless files conflict.
	Integrate(ctx context.Context, tip, result, message string, at time.Time) (commit, tree string, conflicts []string, err error)
	// Commit commits a tree from [Slot.Shared] on top of parent.
	Commit(ctx context.Context, tree, parent, message string, at time.Time) (string, error)
	// Marked returns those of the paths that have conflict markers in a tree.
	Marked(ctx context.Context, tree string, paths []string) ([]string, error)
	// SetUpKey identifies what set-up brings into slots at present. With the same key, slots at the same tree are alike.
	SetUpKey(ctx context.Context) (string, error)
	// Tree returns the tree of a commit.
	Tree(ctx context.Context, commit string) (string, error)
	// MoveTip moves the ref of a boulder's tip from one commit to the next. A ref that is already there stays.
	MoveTip(ctx context.Context, boulderID, from, to string) error
	// Free removes a boulder's slots and refs, but keeps refs to work that is neither landed nor on the tip.
	Free(ctx context.Context, boulderID, base string, landed bool, onTip func(subTask string) bool) error
	// TakeBack undoes a change in the project's own files, all of it or nothing.
	TakeBack(ctx context.Context, change boulder.TreeChange) error
}

// PassedBefore returns the commands that are known to pass in a slot at a tree, with the set-up of a [Slots.SetUpKey].
type PassedBefore func(ctx context.Context, tree, setUp string) (commands []string)

// Slot is a copy of the project for one sub-task.
type Slot interface {
	Workspace
	Root() string  // the top of its files
	Dir() string   // where the agent and the gates work: the place of the project's directory
	From() string  // commit that the work is based on
	Env() []string // for commands, in addition to the usual environment
	// Lay writes the files of a tree into the slot, but takes paths from From, which must have them.
	Lay(ctx context.Context, tree string, paths []string) error
	// Ignored returns files and directories that git ignores and set-up did not make. They are not captured.
	Ignored(ctx context.Context) ([]string, error)
	// Missing returns the ignored files and directories of the project that the slot lacks.
	Missing(ctx context.Context) ([]string, error)
	// Capture commits a snapshot of the slot on top of From, in the project. An empty tree means the present content.
	Capture(ctx context.Context, tree string) (commit, captured string, err error)
}

// Config configures an [Executor]. Host, Project and Workspace are required.
type Config struct {
	Host          *opencode.Host
	Project       string // absolute directory
	Workspace     Workspace
	BlockersFiles []string     // relative to Project; writing them is no escape from a slot
	Slots         Slots        // nil: isolated boulders cannot run
	PassedBefore  PassedBefore // nil: a trial runs every gate
	// Lacking returns what to add to the configuration for slots to get missing ignored files; empty, or nil: it is not known.
	Lacking     func(missing []string) string
	Rules       *enforcer.Rules  // defaults to [enforcer.DefaultRules]
	GateTimeout time.Duration    // of one gate; defaults to [DefaultGateTimeout]
	Env         []string         // of gates; defaults to os.Environ()
	Asks        Asks             // policy for permissions; defaults to [AsksReject]
	Diverter    session.Diverter // records what agents ask the user; where it is off or nil, Asks applies
	// Price returns what a call of a model (provider/model) cost, if OpenCode has no price for it. It may be called
	// concurrently. Nil: no prices are known.
	Price func(model string, u boulder.Usage) (dollars float64, known bool)
	// Attach connects to a server that an earlier run used. Defaults to [opencode.Attach] without a password.
	Attach func(ctx context.Context, address string) (*opencode.Client, error)
	// Redact removes secrets from all output. It may be called concurrently. Defaults to removing those of known form.
	Redact secret.Cleaner
	Logger *slog.Logger                         // defaults to none
	Now    func() time.Time                     // set with After; defaults to time.Now
	After  func(time.Duration) <-chan time.Time // by the clock of Now; defaults to time.After
}

// Executor implements orchestrator.Runner on an OpenCode server. It is safe for concurrent use.
type Executor struct {
	cfg      Config
	tool     session.Offers
	measured sync.Map // from measuredKey to *measured
	reloaded sync.Map // the directories of slots, by boulder: OpenCode knows their configuration as it is there
}

// New validates cfg and fills in the defaults.
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
		cfg.Now = time.Now
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	return &Executor{cfg: cfg}, nil
}

type turn struct {
	*Executor
	job    boulder.Job
	report func(boulder.Body) error
	conn   opencode.Connection
	done   func() // releases conn
	dir    *opencode.Directory
	sub    *opencode.Subscription
	model  opencode.ModelRef
	effort string // of the model; empty: its default
	tree   *session.Turn
	asks   *session.StandIn
	seen   observation
	place

	oneNudge bool // stop at what would be a second one
}

// place is where a turn or a gate works: the project, or a slot.
type place struct {
	path  string // absolute
	files Workspace
	env   []string // of gates
	slot  Slot     // nil in the project
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

// snapshot returns the id of the present content, and what it lacks in a slot.
func (p place) snapshot(ctx context.Context) (id string, unstored []string, err error) {
	id, err = p.files.Snapshot(ctx)
	if partly, ok := errors.AsType[*boulder.UnstoredError](err); ok {
		return id, partly.Files(), nil
	}
	return id, nil, err
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

// Run brings one turn to its end. See orchestrator.Runner for the contract.
func (e *Executor) Run(
	ctx context.Context, job boulder.Job, report func(boulder.Body) error,
) (boulder.Evidence, error) {
	t := e.newTurn(job, report)
	defer func() { t.done() }()
	if e.cfg.Diverter != nil {
		defer e.cfg.Diverter.Bind(t.asks.Scope, book{t})()
	}
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
		return boulder.Evidence{}, fmt.Errorf("%w: diagnostics were to decide here: %s, and run the plan again, or continue with OpenCode 1",
			boulder.ErrFatal, why)
	}
	if err := t.converse(ctx, t.openSession); err != nil {
		return boulder.Evidence{}, err
	}
	evidence, err := t.gather(ctx)
	if err != nil {
		return evidence, err
	}
	t.asks.End(ctx)
	t.readRaised(ctx, true)
	return evidence, nil
}

// converse brings the turn to its end in the session that open creates or finds. t.sub then stays open until t.done.
func (t *turn) converse(ctx context.Context, open func(context.Context) error) error {
	if was := t.job.Attempt.Server; was != "" && was != t.conn.Server() {
		if err := t.stopAt(ctx, was, t.job.Attempt.SessionID); err != nil {
			return err
		}
	}
	// Connect the stream while the session is created. Do not filter by directory: sub-agents may work in others.
	t.sub = t.conn.Client.Subscribe(opencode.Filter{Sessions: []string{t.job.Attempt.Tag}})
	release := t.done
	t.done = func() {
		t.sub.Close()
		release()
	}
	if err := t.reload(ctx); err != nil {
		return fault(err)
	}
	if t.job.Attempt.SessionID == "" { // before files are compared: OpenCode 1 writes a missing $schema into the project's configuration
		if _, err := t.dir.DefaultModel(ctx); err != nil {
			return fault(err)
		}
	}
	if err := open(ctx); err != nil {
		return err
	}
	t.sub.Follow(t.job.Attempt.SessionID)
	t.tree = session.NewTurn(t.job.Attempt.SessionID, *t.cfg.Rules, t.job.Turn.Nudges)
	t.asks.Scope.SessionID, t.asks.Tree, t.asks.Dir = t.job.Attempt.SessionID, t.tree.Tree, t.dir
	if err := t.offerTools(ctx); err != nil {
		return err
	}
	// Events before the prompt do not belong to the turn. A Resync says that from now on none will be missed.
	for !t.job.Recovered && len(t.sub.C()) > 0 {
		switch (<-t.sub.C()).Payload.(type) {
		case opencode.Resync:
			t.seen.OfflineSince = time.Time{}
		case opencode.Disconnected:
			t.seen.OfflineSince = t.cfg.Now()
		}
	}
	t.seen.activity = "" // reported before the turn
	ended, err := t.send(ctx)
	if !ended && err == nil {
		err = t.follow(ctx)
	}
	t.seen.ended = t.cfg.Now()
	return err
}

// reload has OpenCode read the configuration of a slot once for each boulder: another boulder may have worked there, with
// the project's agents and permissions of that time.
func (t *turn) reload(ctx context.Context) error {
	if t.place.slot == nil || t.job.Attempt.SessionID != "" {
		return nil
	}
	slot := [2]string{t.job.BoulderID, t.path}
	if _, done := t.reloaded.Load(slot); done {
		return nil
	}
	err := t.dir.Reload(ctx)
	if err == nil {
		t.reloaded.Store(slot, true)
	}
	return err
}

// enterSlot moves the turn of an isolated boulder into its slot.
func (t *turn) enterSlot(ctx context.Context) (err error) {
	s, l := t.job.SubTask, t.job.Trunk
	if l.Base == "" {
		return nil
	}
	t.place, err = t.Executor.slot(ctx, boulder.SlotClaim{
		BoulderID: t.job.BoulderID, Slot: s.Slot, SubTaskID: s.ID, Attempt: t.job.Attempt.Attempt, Base: l.Base,
		From: cmp.Or(s.From, l.Tip), Since: s.Since,
	})
	return err
}

// abandon cleans up after a turn that did not come to its end, as far as it can. A resume reads everything again.
func (t *turn) abandon(ctx context.Context, cancelled bool) {
	ctx = context.WithoutCancel(ctx)
	defer func() {
		if t.place.slot != nil { // the next attempt may get another slot
			if _, _, err := t.place.slot.Capture(ctx, ""); err != nil {
				t.cfg.Logger.Warn("a slot could not be captured", "slot", t.path, "error", err)
			}
		}
	}()
	if cancelled && t.dir != nil && t.job.Attempt.SessionID != "" && t.job.Turn.MessageID != "" {
		aborting, cancel := context.WithTimeout(ctx, session.ReplyTimeout)
		defer cancel() // stop an agent that is no longer followed
		if err := t.stopSession(aborting, t.dir, t.job.Attempt.SessionID); err != nil {
			t.cfg.Logger.Warn("the turn could not be aborted", "session", t.job.Attempt.SessionID, "error", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, session.ReplyTimeout)
	defer cancel()
	select {
	case <-t.conn.Down: // nil, and never ready, if manager cannot tell
		cancelled = true
	default:
	}
	if cancelled { // else the server may only be out of reach, with the asks still pending
		t.asks.End(ctx)
	}
}

// redacted removes secrets from v. Apply it to messages before they are cut, since half a secret is missed, and to
// output.
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
