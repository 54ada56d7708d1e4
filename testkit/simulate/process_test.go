package simulate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/store"
)

// process is one life of the manager, from opening the database to its end of any kind.
type process struct {
	w      *world
	number int
	fate   fate
	offset time.Duration // of its clock

	path  string
	db    *store.DB
	orch  *orchestrator.Orchestrator
	store disk
	gone  context.Context // ends with the process
	end   context.CancelFunc
	ctx   context.Context // of the run
	leave context.CancelCauseFunc

	others sync.WaitGroup // fate and user

	asked atomic.Int64 // calls of clock since the last commit

	// guarded by w.mu
	torn    []byte // the file as a power cut leaves it
	dead    bool
	found   *boulder.State // what the database held, until the first Load or Commit
	commits int
	moving  bool // the tip's ref, perhaps
	stopped time.Time
	paused  time.Time // when an order paused it; zero: not paused
	calls   []running
}

// running is a call of Run. ctx is nil once it returned.
type running struct {
	ref   boulder.AttemptRef
	model string
	ctx   context.Context
}

var (
	errCrash     = errors.New("the process has crashed")
	errDiskFull  = errors.New("no space left on device")
	errInterrupt = errors.New("interrupted")
)

// fate is a process's early end, and what the user orders.
type fate struct {
	kind    string // "", crash, full, kill, stop, cancel, abandon
	commit  int    // of crash and full: number of the commit
	written bool   // crash after the write, not before
	after   time.Duration
	events  int  // of abandon
	server  bool // the OpenCode server ends too
	orders  int  // of the user
}

// maxDisturbed is the last process that fate may strike: every run has to end.
const maxDisturbed = 5

func (sc *scenario) fateOf(number int, crashed bool) fate {
	d := throw(sc.seed, "fate", number)
	var f fate
	if sc.calm || number >= maxDisturbed {
		return f
	}
	if d.is(sc.orders) {
		f.orders = d.from(1, 6)
	}
	f.server = d.is(0.3)
	switch x := d.Float64(); {
	case x < 0.55:
		f.kind, f.written, f.commit = "crash", d.is(0.5), 1
		for !d.is(sc.crash) && f.commit < 200 {
			f.commit++
		}
		if crashed && d.is(0.4) {
			f.commit = d.from(1, 2) // during recovery
		}
	case x < 0.62:
		f.kind, f.commit = "full", d.from(1, 20)
	case x < 0.85:
		f.kind, f.after = pick(d, "kill", "kill", "stop", "cancel"), d.span(time.Second, 2*time.Hour)
	case x < 0.9:
		f.kind, f.events = "abandon", d.from(1, 40)
	}
	return f
}

// die ends the process like kill -9: nothing that it does later has an effect. The caller holds w.mu.
func (p *process) die() {
	if p.dead {
		return
	}
	p.dead = true
	p.w.seen["fate "+p.fate.kind]++
	p.w.note("process %d is dead", p.number)
	if p.fate.server && p.fate.kind != "" {
		for _, s := range p.w.sessions {
			p.w.cut(s, "the server is killed")
		}
		for _, l := range p.w.lookouts {
			l.cut()
		}
	}
	p.leave(errCrash)
	p.end()
}

func (p *process) now() time.Time { return time.Now().Add(p.offset) }

// clock is the orchestrator's clock. It panics if read too often while time stands still: the loop must be spinning.
func (p *process) clock() time.Time {
	const forEver = 100_000
	if p.asked.Add(1) > forEver {
		panic("every run ends: the loop goes in circles")
	}
	return p.now()
}

// disk is the real store, until the process is dead.
type disk struct{ p *process }

func (s disk) Commit(ctx context.Context, state *boulder.State, events []boulder.Event) error {
	p := s.p
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if p.dead {
		return errCrash
	}
	p.commits++
	p.found = nil
	p.asked.Store(0)
	p.w.note("process %d commits %d", p.number, p.commits)
	hit := p.commits == p.fate.commit
	if hit && p.fate.kind == "full" {
		p.w.seen["fate full"]++
		return errDiskFull
	}
	if hit && p.fate.kind == "crash" && !p.fate.written {
		if throw(p.w.sc.seed, "cut", p.number).is(0.5) {
			if err := p.cutPower(func() error { return p.db.Commit(ctx, state, events) }); err != nil {
				p.w.violate("the store takes what the loop commits", "%v", err)
			}
		}
		p.die()
		return errCrash
	}
	if err := p.db.Commit(ctx, state, events); err != nil {
		p.w.violate("the store takes what the loop commits", "%v", err)
		return err
	}
	p.w.committed(p, events)
	if hit && p.fate.kind == "crash" {
		p.die()
	}
	if p.dead {
		return errCrash
	}
	return nil
}

func (s disk) Load(ctx context.Context, id string) (*boulder.State, error) {
	s.p.w.mu.Lock()
	defer s.p.w.mu.Unlock()
	if s.p.dead {
		return nil, errCrash
	}
	if found := s.p.found; found != nil {
		s.p.found = nil
		return found, nil
	}
	return s.p.db.Load(ctx, id)
}

// start opens the database and makes an orchestrator.
func (w *world) start(dir string, number int, crashed bool) (*process, error) {
	p := &process{w: w, number: number, fate: w.sc.fateOf(number, crashed)}
	d := throw(w.sc.seed, "clock", number)
	if !w.sc.calm && number > 1 && d.is(0.3) {
		p.offset = pick(d, -time.Hour, 24*time.Hour, 10*time.Minute, -time.Second)
	}
	p.gone, p.end = context.WithCancel(context.Background())
	p.ctx, p.leave = context.WithCancelCause(context.Background())
	p.path = filepath.Join(dir, "manager.db")
	db, err := store.Open(p.path, store.Options{})
	if err != nil {
		return nil, err
	}
	p.db, p.store = db, disk{p}
	limits := w.sc.limits
	var runner orchestrator.Runner = p
	if w.sc.isolated {
		runner = isolated{p}
	}
	p.orch, err = orchestrator.New(orchestrator.Config{
		Project: "/project", Planner: p, Judge: p, Runner: runner, Store: p.store, Limits: &limits, StopGrace: w.sc.grace,
		BlockerID: func(int) string { return db.BlockerID() }, Now: p.clock, NewID: func() string { return boulderID },
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.process = p
	w.note("process %d starts, clock %s, fate %+v", number, p.offset, p.fate)
	w.seen["processes"]++
	switch {
	case p.offset > 0:
		w.seen["clock forward"]++
	case p.offset < 0:
		w.seen["clock back"]++
	}
	w.checkReopened(p)
	return p, nil
}

func (p *process) live(budgets orchestrator.Request) (err error) {
	defer func() {
		if r := recover(); r != nil {
			p.w.mu.Lock()
			p.w.violate("nothing panics", "%v", r)
			p.w.mu.Unlock()
			err = errCrash
		}
	}()
	p.begin()
	req := p.w.sc.request(p)
	if p.w.disk.Boulder.ID != "" {
		req, req.Resume = budgets, boulderID
	}
	events := 0
	for e, problem := range p.orch.Run(p.ctx, req) {
		if problem != nil {
			err = problem
			continue
		}
		if events++; p.watch(e, events) {
			break
		}
	}
	return err
}

// watch checks the n-th event of the run, and reports whether to stop reading.
func (p *process) watch(e boulder.Event, n int) (enough bool) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.checkYielded(e)
	if p.fate.kind != "abandon" || n != p.fate.events {
		return false
	}
	p.w.seen["fate abandon"]++
	return true
}

func (p *process) close(err error) {
	synctest.Wait() // a pending order gets its answer: otherwise its effect would be chance
	p.end()
	p.leave(errCrash)
	p.others.Wait()
	p.w.mu.Lock()
	if p.dead {
		err = errCrash // whether the loop learned it from its context or the store is chance
	}
	p.w.note("process %d is over: %v", p.number, err)
	p.w.checkEnded(p)
	p.w.process = nil
	p.w.mu.Unlock()
	err = p.db.Close()
	if p.torn != nil { // the file after the power cut
		err = errors.Join(err, os.WriteFile(p.path, p.torn, 0o600))
	}
	if err != nil {
		panic(err)
	}
}

func (p *process) begin() {
	if p.fate.after > 0 {
		p.others.Go(p.strike)
	}
	if p.fate.orders > 0 {
		p.others.Go(p.user)
	}
	if p.w.sc.asks > 0 && !p.w.sc.calm && p.w.sc.class != serial {
		p.others.Go(p.answers)
	}
}

func (p *process) strike() {
	if p.w.nap(p.gone, laneFate, p.fate.after) != nil {
		return
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.note("fate: %s", p.fate.kind)
	switch p.fate.kind {
	case "kill":
		p.die()
	case "stop":
		p.w.seen["fate stop"]++
		p.stopped = time.Now()
		p.orch.Stop()
	case "cancel":
		p.w.seen["fate cancel"]++
		p.leave(errInterrupt)
	}
}

func (sc *scenario) request(p *process) orchestrator.Request {
	req := orchestrator.Request{
		Task: sc.plan.Task,
		Settings: boulder.Settings{
			Constraints: sc.plan.Constraints, Budget: sc.budget, LedgerModel: sc.ledgers, AskReplans: sc.asked, Review: sc.reviews,
		},
	}
	if sc.startsIn > 0 {
		req.StartAt = p.w.epoch.Add(sc.startsIn)
	}
	if sc.asked {
		req.ApproveReplan = p.approveReplan
	}
	if sc.isolated {
		req.SlotBase, req.IntegrationGates = p.w.repo.base, []string{noMarkers}
	}
	if sc.atTerminal {
		req.Ask = p.ask
	}
	if !sc.planned {
		plan := sc.plan.Clone()
		req.Plan = &plan
	} else if sc.approval != "" {
		req.Approve = p.approve
	}
	return req
}

// live runs a boulder to its end, through as many processes as needed.
func (w *world) live(dir string) {
	crashed := false
	var budgets orchestrator.Request
	for number := 1; ; number++ {
		if number > maxProcesses {
			w.violate("every run ends", "%d processes have not brought it to its end", number-1)
			return
		}
		p, err := w.start(dir, number, crashed)
		if err != nil {
			w.violate("a crash leaves a database that opens", "%v", err)
			return
		}
		budgets.ApproveReplan, budgets.Approve, budgets.Ask = nil, nil, nil
		if w.sc.atTerminal {
			budgets.Ask = p.ask
		}
		if w.sc.asked {
			budgets.ApproveReplan = p.approveReplan
		}
		if w.sc.approval != "" {
			budgets.Approve = p.approve
		}
		for id := range budgets.SubTaskBudgets {
			if t := w.disk.SubTask(id); t.Status.Terminal() {
				delete(budgets.SubTaskBudgets, id) // ended meanwhile
			}
		}
		err = p.live(budgets)
		p.close(err)
		if len(w.broken) == 0 && w.disk.Boulder.Status.Terminal() {
			w.land(dir)
		}
		if len(w.broken) > 0 || w.disk.Boulder.Status.Terminal() {
			return
		}
		crashed = p.dead
		ended := err
		if budgets, err = w.nextRequest(p, err); err != nil {
			w.violate("a run ends for a reason that is known", "%v", err)
			return
		}
		d := throw(w.sc.seed, "between", number)
		_ = w.nap(context.Background(), laneBetween, d.span(time.Second, 3*time.Hour))
		w.obeyBetween(dir, number, d)
		w.answerBetween(dir, number, ended)
	}
}

// maxProcesses is more than any world needs: a fault that ends a run happens once at each place.
const maxProcesses = 150

// reopened reports whether a redo came right after a process had ended the boulder.
func (w *world) reopened() bool {
	redone := false
	for _, e := range slices.Backward(w.events) {
		switch e.Body.(type) {
		case boulder.Redone:
			redone = true
		case boulder.SessionLeft, boulder.Noted:
		case boulder.TaskComplete:
			return redone
		default:
			return false
		}
	}
	return false
}

// nextRequest returns the request for the next process, or an error if the run must not end like that.
func (w *world) nextRequest(p *process, err error) (orchestrator.Request, error) {
	var req orchestrator.Request
	used, short := errors.AsType[*orchestrator.BudgetError](err)
	switch {
	case p.dead, err == nil && (p.fate.kind == "abandon" || w.reopened()):
	case short && used.SubTaskID != "":
		b := boulder.Budget{Attempts: 20} // not fewer than before
		req.SubTaskBudgets = map[string]boulder.Budget{used.SubTaskID: b}
	case short:
		req.Budget = new(larger(*w.disk.Boulder.Budget, p.number))
	case errors.Is(err, boulder.ErrFatal), errors.Is(err, boulder.ErrTrouble), errors.Is(err, orchestrator.ErrWaiting),
		errors.Is(err, errLater):
	case errors.Is(err, errDiskFull) && p.fate.kind == "full":
	case errors.Is(err, errMoved) && w.repo.moved != "":
		w.repo.refs["tip"], w.repo.moved = w.repo.moved, ""
	case errors.Is(err, orchestrator.ErrStopped) && !p.stopped.IsZero():
	case errors.Is(err, errInterrupt) && p.fate.kind == "cancel":
	default:
		return req, fmt.Errorf("process %d with fate %+v: %w", p.number, p.fate, errors.Join(err, errors.New("unexpected")))
	}
	return req, nil
}

// larger is the user's next budget: twice as much, and unlimited in the end.
func larger(b boulder.Budget, number int) boulder.Budget {
	if number > maxDisturbed {
		return boulder.Budget{}
	}
	return boulder.Budget{
		Attempts: 2 * b.Attempts, Tokens: 2 * b.Tokens, Cost: 2 * b.Cost, Calls: 2 * b.Calls, Time: 2 * b.Time,
	}
}

// cutPower cuts the power during a commit, before its sync. Any of its pages may be on disk, but not its meta page,
// which is written after the sync, so the commit did not happen. The caller holds w.mu.
func (p *process) cutPower(commit func() error) error {
	before, err := os.ReadFile(p.path)
	if err := errors.Join(err, commit()); err != nil {
		return err
	}
	after, err := os.ReadFile(p.path)
	if err != nil {
		return err
	}
	p.w.seen["power cut"]++
	d := throw(p.w.sc.seed, "power", p.number)
	p.torn = slices.Concat(before, make([]byte, max(0, len(after)-len(before))))
	page := os.Getpagesize()
	for at := 2 * page; at < len(after); at += page {
		if d.is(0.5) {
			copy(p.torn[at:at+page], after[at:])
		}
	}
	return nil
}
