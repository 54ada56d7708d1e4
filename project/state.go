package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project/internal/awake"
	"github.com/bouldermgr/manager/project/internal/control"
	"github.com/bouldermgr/manager/store"
)

// Request says what to run. The configuration supplies what it leaves out.
type Request = orchestrator.Request

// State is the project's database, held by this process, with its orchestrator and the socket for other processes.
type State struct {
	DB *store.DB

	p       *Project
	server  *control.Server
	run     *orchestrator.Orchestrator
	stopped context.Context // done once Stop was called
	stop    context.CancelFunc
	serves  bool
}

// Hold opens the project's database for this process alone. If another process holds it, the error wraps
// [store.ErrHeld] and names the process. serves announces a [State.Serve]. Hold also stops the agents of boulders that
// were cancelled while no process ran them. Call [Project.Connect] before.
func (p *Project) Hold(ctx context.Context, serves bool) (_ *State, err error) {
	dir, err := store.EnsureDir(p.dir)
	if err != nil {
		return nil, err
	}
	s := &State{p: p, serves: serves}
	if s.DB, err = p.openState(ctx, p.opts.LockTimeout); err != nil {
		return nil, err
	}
	s.stopped, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	who := control.Holder{
		PID: os.Getpid(), Since: time.Now(), Limits: &p.cfg.Limits, Command: p.secrets.Text(p.opts.Command), Serves: serves,
		Attached: p.secrets.Text(p.opts.Attach),
	}
	if s.server, err = control.Serve(ctx, filepath.Join(dir, control.SocketName), who, s.DB, p.log); err != nil {
		return nil, errors.Join(err, s.DB.Close())
	}
	if s.run, err = p.orchestrator(s.DB); err == nil {
		err = s.stopLeft(ctx)
	}
	if err != nil {
		s.Release()
		return nil, err
	}
	return s, nil
}

// Access reads the state and takes orders for it.
func (s *State) Access() *Access { return &Access{Reader: s.DB, Orders: s.run, Close: func() {}} }

// Release closes the database. An error is only logged, since all commits are on disk.
func (s *State) Release() {
	s.stop()
	if err := errors.Join(s.server.Close(), s.DB.Close()); err != nil {
		s.p.log.Warn("the state was not closed cleanly", "error", err)
	}
}

// Stop lets the running turns end, and then ends the runs.
func (s *State) Stop() {
	s.run.Stop()
	s.stop()
}

// stopLeft stops agents whose attempts were ended by an order while no process ran the boulder.
func (s *State) stopLeft(ctx context.Context) error {
	all, err := s.DB.Listing(ctx)
	if err != nil { // must not prevent other runs
		s.p.log.Warn("what is stored here cannot be listed: agents that orders ended may be at work", "error", err)
	}
	for _, item := range all {
		if item.Status.Terminal() && item.Status != boulder.Cancelled || !item.ArchivedAt.IsZero() {
			continue
		}
		err := s.run.StopLeft(ctx, item.BoulderID)
		if _, unreadable := errors.AsType[*store.CorruptError](err); err != nil && !unreadable {
			return err
		}
	}
	return nil
}

// Run is [State.RunChecked] after [Project.Check], whose error ends it.
func (s *State) Run(ctx context.Context, req Request) iter.Seq2[boulder.Event, error] {
	return func(yield func(boulder.Event, error) bool) {
		if err := s.p.Check(ctx, &req); err != nil {
			yield(boulder.Event{}, err)
			return
		}
		s.RunChecked(ctx, req)(yield)
	}
}

// RunChecked is [orchestrator.Orchestrator.Run], with a completed request, for other processes to see and steer.
func (s *State) RunChecked(ctx context.Context, req Request) iter.Seq2[boulder.Event, error] {
	return func(yield func(boulder.Event, error) bool) {
		if !s.serves {
			s.server.SetSteerer(s.run)
		}
		var work sync.WaitGroup
		defer work.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		id := ""
		defer func() { s.server.Ended(id) }()
		for e, err := range s.events(ctx, req) {
			if err == nil && id == "" {
				id = e.BoulderID
				s.server.Began(id)
			}
			switch e.Body.(type) {
			case boulder.Resumed, boulder.BlockerRaised, boulder.BlockerSettled:
				work.Go(func() { // the run does not wait
					_, _ = s.p.writeList(context.WithoutCancel(ctx), s.DB, e.BoulderID) // it is tried again with every command
				})
			}
			s.server.Notify()
			if !yield(e, err) {
				return
			}
		}
	}
}

func (s *State) events(ctx context.Context, req Request) iter.Seq2[boulder.Event, error] {
	if err := s.p.Complete(ctx, &req); err != nil {
		return func(yield func(boulder.Event, error) bool) { yield(boulder.Event{}, err) }
	}
	return s.run.Run(ctx, req)
}

// Complete fills in what a request leaves out, and cleans its texts.
func (p *Project) Complete(ctx context.Context, req *Request) error {
	req.Ask = p.cleanAnswers(req.Ask)
	if req.LedgerModel, req.ReplanGates = p.ledgers, p.cfg.AllowModelGates; req.Resume != "" {
		return nil
	}
	req.Task, req.Constraints = p.Clean("The task", req.Task)[0], p.Clean("The task", req.Constraints...)
	if req.Plan == nil && req.Fork == nil {
		req.Model, req.GatesApproved = cmp.Or(req.Model, p.opts.Model, p.cfg.Model), p.cfg.AllowModelGates
	}
	if req.Fork == nil {
		req.Effort = cmp.Or(req.Effort, p.Effort())
	}
	req.Describe = p.cfg.Models.Describe
	req.Agent, req.Fallback = cmp.Or(req.Agent, p.agent()), cmp.Or(req.Fallback, p.cfg.Models.Fallback)
	req.LookMode, req.LookModel = cmp.Or(req.LookMode, p.cfg.Plan.Look), cmp.Or(req.LookModel, p.cfg.Plan.LookModel)
	if on, model := p.cfg.Reviews(); on {
		req.Review, req.ReviewModel = true, cmp.Or(req.ReviewModel, model, p.Ledger())
	}
	done := p.Criteria(req.DoneWhen)
	req.DoneWhen, req.Checks, req.Base = done.Words, done.Checks, cmp.Or(req.Base, p.base)
	req.Gates, req.NoWorse, req.Budget = p.cfg.Gates, p.cfg.NoWorse, p.Budget(req.Budget)
	return p.isolate(ctx, req)
}

// Import stores an export as a boulder of this project. from is the project that it comes from. Errors wrap
// [store.ErrBadExport], [store.ErrExists] or [store.ErrHeld]; nothing is stored then.
func (p *Project) Import(ctx context.Context, x store.Export) (s *boulder.State, from string, err error) {
	if s, from, err = x.Adopt(p.dir, time.Now().UTC()); err != nil {
		return nil, "", err
	}
	if _, err = store.EnsureDir(p.dir); err != nil {
		return nil, "", err
	}
	db, err := p.openState(ctx, 0)
	if err != nil {
		return nil, "", err
	}
	return s, from, errors.Join(db.Import(ctx, s, x.Events), db.Close())
}

// Read opens the project's state for reading, through the holder or from the database. It creates nothing; a project
// without runs reads as empty. Close it soon: no run can start while the database is open.
func (p *Project) Read(ctx context.Context) (*Access, error) {
	there, err := p.openAccess(ctx, true)
	if errors.Is(err, fs.ErrNotExist) {
		return &Access{Reader: emptyReader{}, Close: func() {}}, nil
	}
	return there, err
}

// Earlier returns the boulders of the project that can be read.
func (p *Project) Earlier(ctx context.Context) (all []store.Item) {
	if there, err := p.Read(ctx); err == nil {
		defer there.Close()
		all, _ = there.Listing(ctx)
	}
	return all
}

// Get reads the boulder that [Resolve] finds. With an error it returns what could be read: at least the head, or
// nothing.
func Get(ctx context.Context, r Reader, ref string) (boulder.Snapshot, error) {
	id, err := Resolve(ctx, r, ref)
	if err != nil {
		return boulder.Snapshot{}, err
	}
	return r.Get(ctx, id)
}

// Resolve finds a boulder by its id, or by a unique beginning or end of it. Without ref it is the active boulder, else
// the newest; archived ones do not count. A missing or ambiguous boulder is a [UsageError].
func Resolve(ctx context.Context, r Reader, ref string) (string, error) {
	all, err := r.Listing(ctx)
	var found []string // newest first
	for _, i := range all {
		switch {
		case ref == "" && !i.ArchivedAt.IsZero():
		case i.BoulderID == ref, ref == "" && i.Active:
			return i.BoulderID, nil
		case strings.HasPrefix(i.BoulderID, ref), strings.HasSuffix(i.BoulderID, ref):
			found = append(found, i.BoulderID)
		}
	}
	switch {
	case ref == "" && err != nil: // an unreadable one may be the active one
		return "", err
	case len(found) == 1, ref == "" && len(found) > 0:
		return found[0], nil
	case len(found) > 1:
		return "", usagef("%q fits %d boulders, give more of the id: %s", ref, len(found), strings.Join(found, ", "))
	case len(all) == 0 && err == nil:
		err = ErrNothing
	case ref == "":
		err = ErrAllArchived
	default:
		var ids []string
		for _, i := range all {
			ids = append(ids, boulder.ShortID(i.BoulderID))
		}
		do := "see `manager list`"
		if near := text.Nearest(ref, ids); near != "" {
			do = "did you mean " + near + "?"
		}
		err = errors.Join(fmt.Errorf("%w: %q: %s", boulder.ErrNotFound, ref, do), err)
	}
	return "", &UsageError{Err: err}
}

type emptyReader struct{}

func (emptyReader) Listing(context.Context) ([]store.Item, error) { return nil, nil }

func (emptyReader) Get(context.Context, string) (boulder.Snapshot, error) {
	return boulder.Snapshot{}, ErrNothing
}

func (emptyReader) Events(context.Context, string, uint64, int) ([]boulder.Event, error) {
	return nil, ErrNothing
}

var (
	// ErrNothing is returned for any boulder in a project without runs.
	ErrNothing error = notFound("nothing has been run here yet: start with `manager plan \"TASK\"`")
	// ErrAllOver is returned by [Access.Find] without a ref if all boulders are over.
	ErrAllOver = errors.New("nothing to resume or to steer: every boulder here is over; `manager report` says what can be " +
		"done next, `manager list` which there are")
	// ErrAllArchived is returned by [Resolve] without a ref if all boulders are archived.
	ErrAllArchived error = notFound("everything that was run here is archived: see `manager list --archived`")
)

// notFound says why there is no boulder, as a [boulder.ErrNotFound].
type notFound string

func (n notFound) Error() string { return string(n) }

// Is implements [errors.Is].
func (notFound) Is(target error) bool { return target == boulder.ErrNotFound }

// Exists reports whether anything was ever run in the project.
func (p *Project) Exists() bool { return exists(p.database()) }

func (p *Project) database() string { return filepath.Join(p.stateDir(), store.FileName) }

// Serve resumes the boulders that a crash left and runs those that other processes submit, all under the same limits.
// It calls follow for each, on its own goroutine, to range over the events. Serve returns when ctx ends, after
// [State.Stop] ([orchestrator.ErrStopped]), or when nothing ran for patience (0: never), once every follow has
// returned. While boulders run or wait for their start, the machine is kept from going to sleep, where it can be.
func (s *State) Serve(
	ctx context.Context, patience time.Duration, follow func(events iter.Seq2[boulder.Event, error]),
) error {
	sv := &service{State: s, Steerer: s.run, ctx: ctx, follow: follow, rest: make(chan struct{}, 1)}
	defer sv.close()
	all, err := s.DB.Listing(ctx)
	for _, b := range all { // those that a crashed process left running, or any process left waiting for their start
		if b.Status == boulder.Running || b.Status == boulder.Synthesizing || b.Status == boulder.Planning && !b.StartAt.IsZero() {
			if _, resumeErr := sv.Submit(ctx, Request{Resume: b.BoulderID}); resumeErr != nil {
				err = errors.Join(err, fmt.Errorf("resume %s: %w", b.BoulderID, resumeErr))
			}
		}
	}
	if err != nil {
		s.p.warn("%v", err)
	}
	s.server.SetSteerer(sv)
	var idle <-chan time.Time // once nothing has run for patience
	sv.rests()
	for {
		select {
		case <-sv.rest:
			if patience > 0 {
				idle = time.After(patience)
			}
		case <-idle:
			sv.mu.Lock()
			sv.closed = sv.begun == 0 && len(sv.rest) == 0 // else the end of what ran begins the wait anew
			over := sv.closed
			sv.mu.Unlock()
			if over {
				return nil
			}
		case <-s.stopped.Done():
			return orchestrator.ErrStopped
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// service takes orders and submissions from other processes. Its methods may be called from any goroutine.
type service struct {
	*State
	Steerer
	ctx    context.Context // of the boulders
	follow func(iter.Seq2[boulder.Event, error])

	mu     sync.Mutex
	begun  int            // boulders that are starting or running
	closed bool           // nothing more is started
	work   sync.WaitGroup // one goroutine per boulder
	rest   chan struct{}  // signals that nothing runs any more
}

// rests signals, unless something is running.
func (s *service) rests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun == 0 {
		select {
		case s.rest <- struct{}{}:
		default: // signalled already
		}
	}
}

var _ Submitter = (*service)(nil)

// Submit runs a boulder on its own goroutine, and returns when its first event is on disk.
//
// One that was judged by another model, or by OpenCode's own choice (none is stored then), is refused unless the request
// names the server's: its evidence goes only where the user chose.
func (s *service) Submit(ctx context.Context, req Request) (string, error) {
	if req.Engine != "" {
		return "", fmt.Errorf("%w: this server runs boulders itself: stop it, and start `manager-%s gateway`", boulder.ErrRefused, req.Engine)
	}
	if req.LedgerModel != "" && req.LedgerModel != s.p.ledgers {
		return "", fmt.Errorf("%w: the server plans and judges with %s, not with %s:"+
			" stop it, and start it with --ledger-model",
			boulder.ErrRefused, cmp.Or(s.p.ledgers, "the default model"), req.LedgerModel)
	}
	if req.Resume != "" && req.LedgerModel == "" {
		there, err := s.DB.Get(ctx, req.Resume)
		if judge := there.Boulder.LedgerModel; err == nil && judge != s.p.ledgers {
			return "", fmt.Errorf("%w: the server plans and judges with %s, boulder %s with %s: stop the server, and run"+
				" `manager resume %s`, with --ledger-model for another judge", boulder.ErrRefused,
				cmp.Or(s.p.ledgers, "the default model"), boulder.ShortID(req.Resume), cmp.Or(judge, "the default model"), boulder.ShortID(req.Resume))
		}
	}
	if req.Resume == "" && req.Fork == nil { // who submits may have asked another OpenCode, or none
		model, err := s.p.CheckNeeds(ctx, req.Plan, req.Settings, s.p.Criteria(req.DoneWhen))
		if _, bad := errors.AsType[*UsageError](err); bad {
			return "", fmt.Errorf("%w: %w", boulder.ErrRefused, err)
		}
		req.Model = cmp.Or(model, req.Model) // a fault is the run's, which waits it out
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return "", fmt.Errorf("%w: the server is stopping", boulder.ErrRefused)
	}
	s.begun++
	s.work.Add(1) // under the lock, so that close waits for it
	s.mu.Unlock()
	sleeps := awake.Keep()
	ended := func() {
		sleeps()
		s.mu.Lock()
		s.begun--
		s.mu.Unlock()
		s.rests()
		s.work.Done()
	}
	next, stop := iter.Pull2(s.RunChecked(s.ctx, req))
	e, err, ok := next()
	if err != nil || !ok {
		stop()
		ended()
		return "", err
	}
	id := e.BoulderID
	go func() {
		defer ended()
		defer stop()
		s.follow(func(yield func(boulder.Event, error) bool) {
			for ok && yield(e, err) {
				e, err, ok = next()
			}
		})
	}()
	return id, nil
}

// close refuses further submissions and waits until every run has ended.
func (s *service) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.work.Wait()
}
