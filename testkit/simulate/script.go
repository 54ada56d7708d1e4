package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// Script is a world in which no process crashes: what an orchestrator's ports answer, and what the user orders. It
// depends on the seed only, and no two things happen at once, so two engines that play it write the same log.
type Script struct {
	Now   func() time.Time                                 // the engine's clock
	Sleep func(ctx context.Context, d time.Duration) error // the engine's sleep; if ctx ends first, it returns its cause

	sc    scenario
	epoch time.Time

	mu       sync.Mutex
	met      map[string]int
	lanes    map[string]int
	sessions map[boulder.AttemptRef]*played
	replans  int
}

type played struct{ gone, cut bool }

// NewScript draws the world of a seed. The caller sets Now and Sleep; epoch is the start of the engine's clock.
func NewScript(seed uint64, epoch time.Time) *Script {
	s := &Script{
		sc: newScenario(seed), epoch: epoch, met: map[string]int{}, lanes: map[string]int{}, sessions: map[boulder.AttemptRef]*played{},
	}
	for i, t := range s.sc.plan.SubTasks {
		s.lanes[t.ID] = i
	}
	return s
}

// Limits returns the limits of the run.
func (s *Script) Limits() orchestrator.Limits { return s.sc.limits }

// Request starts the boulder.
func (s *Script) Request() orchestrator.Request {
	req := orchestrator.Request{
		Task: s.sc.plan.Task, GatesApproved: true,
		Settings: boulder.Settings{Constraints: s.sc.plan.Constraints, Budget: s.sc.budget, LedgerModel: s.sc.ledgers, Review: s.sc.reviews},
	}
	if !s.sc.planned {
		req.Plan = new(s.sc.plan.Clone())
	}
	return req
}

// UserMessage is an order at a time after the start, see also [Script.Edit]. Without Order: if the run has ended, resume it with [Script.Resume].
type UserMessage struct {
	After time.Duration
	Order *boulder.Order
}

// looks is how often the user checks the run, once an hour, before cancelling the boulder.
const looks = 300

// User returns all orders of the user, by time.
func (s *Script) User() (all []UserMessage) {
	d := throw(s.sc.seed, "user")
	at := func(d time.Duration) time.Duration { return d.Truncate(time.Millisecond) + lanePerson }
	if d.is(s.sc.orders) {
		for i := range d.from(1, 6) {
			all = append(all, UserMessage{at(d.span(time.Second, 3*time.Hour)) + 2*time.Duration(i), new(s.order(d))})
		}
	}
	for i := range looks {
		hour := at(time.Duration(i+1) * time.Hour)
		all = append(all, UserMessage{hour + 20, &boulder.Order{Do: boulder.OrderResume}}, UserMessage{After: hour + 30})
	}
	all = append(all, UserMessage{at((looks + 1) * time.Hour), &boulder.Order{Do: boulder.OrderCancel}})
	slices.SortStableFunc(all, func(a, b UserMessage) int { return cmp.Compare(a.After, b.After) })
	return all
}

func (s *Script) order(d dice) boulder.Order {
	id := s.sc.plan.SubTasks[d.IntN(len(s.sc.plan.SubTasks))].ID
	switch d.IntN(11) {
	case 0, 1:
		return boulder.Order{Do: boulder.OrderPause, Now: d.is(0.5)}
	case 2:
		return boulder.Order{Do: boulder.OrderSkip, SubTaskID: id}
	case 3, 4:
		return boulder.Order{Do: boulder.OrderRetry, SubTaskID: id}
	case 5:
		return boulder.Order{Do: boulder.OrderCancel, SubTaskID: id}
	case 6, 7, 8:
		return boulder.Order{Do: boulder.OrderEdit}
	}
	return boulder.Order{Do: boulder.OrderNote, Text: fmt.Sprint("note ", d.IntN(100)), SubTaskID: pick(d, "", id)}
}

// Edit draws the rest of an edit, which depends on the boulder; it may be nil. Other orders are as they are.
func (s *Script) Edit(o boulder.Order, of *boulder.State) boulder.Order {
	if o.Do != boulder.OrderEdit || of == nil {
		return o
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return drawEdit(throw(s.sc.seed, "edit", of.Boulder.Seq), of, s.lanes)
}

// Answers returns orders that answer the open blockers of a boulder, which may be nil.
func Answers(of *boulder.State) (orders []boulder.Order) {
	if of == nil {
		return nil
	}
	for _, b := range boulder.Raised(of.Boulder, of.SubTasks) {
		if !b.Status.Settled() {
			orders = append(orders, boulder.Order{
				Do: boulder.OrderSettle, SubTaskID: b.SubTaskID, BlockerID: b.ID, Text: "the answer to " + b.ID,
			})
		}
	}
	return orders
}

// Resume returns the request with which the user resumes a run that ended with an error.
func (s *Script) Resume(ended error) orchestrator.Request {
	var req orchestrator.Request
	if used, short := errors.AsType[*orchestrator.BudgetError](ended); short && used.SubTaskID != "" {
		req.SubTaskBudgets = map[string]boulder.Budget{used.SubTaskID: {Attempts: 100}}
	} else if short {
		req.Budget = &boulder.Budget{}
	}
	return req
}

func (s *Script) nap(ctx context.Context, lane int, d time.Duration) error {
	const grid = time.Millisecond
	elapsed := s.Now().Sub(s.epoch)
	return s.Sleep(ctx, (elapsed+d).Truncate(grid)+grid+time.Duration(lane)-elapsed)
}

func (s *Script) lane(ref boulder.AttemptRef, judging int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (s.lanes[ref.SubTaskID]*100+ref.Attempt%100)*2 + judging
}

// meets returns the next fault of a place, once, if the caller accepts it.
func (s *Script) meets(what string, at place, faults []fault, mine func(fault) bool) (f fault, met bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := what + fmt.Sprint(at)
	if n := s.met[key]; n < len(faults) && mine(faults[n]) {
		s.met[key]++
		return faults[n], true
	}
	return f, false
}

// out returns how a model refuses now, or nil.
func (s *Script) out(model string) error { return s.sc.refusal(model, s.Now().Sub(s.epoch)) }

// Run implements orchestrator.Runner.
func (s *Script) Run(ctx context.Context, job boulder.Job, report func(boulder.Body) error) (boulder.Evidence, error) {
	ref, at := job.Attempt.AttemptRef, placeOf(job.SubTask, job.Turn)
	lane, d := s.lane(ref, 0), throw(s.sc.seed, "delays", at, ref.Attempt, job.Attempt.Troubles)
	e, err := s.turn(ctx, job, at, lane, d, report)
	if err != nil && ctx.Err() != nil {
		_ = s.nap(context.WithoutCancel(ctx), lane, d.span(10*time.Millisecond, 5*time.Second)) // the agent's turn is ended
		s.mu.Lock()
		defer s.mu.Unlock()
		if p := s.sessions[ref]; p != nil {
			p.cut = true
		}
		return boulder.Evidence{}, context.Cause(ctx)
	}
	return e, err
}

func (s *Script) turn(
	ctx context.Context, job boulder.Job, at place, lane int, d dice, report func(boulder.Body) error,
) (none boulder.Evidence, err error) {
	ref, turn, short := job.Attempt.AttemptRef, &job.Turn, d.span(time.Millisecond, time.Second)
	if err := s.nap(ctx, lane, short); err != nil {
		return none, err
	}
	if f, met := s.meets("turn", at, s.sc.turnFaults(at), func(f fault) bool { return f.early }); met {
		return none, f.err
	}
	session, err := s.open(ctx, job, lane, short, report)
	if err != nil {
		return none, err
	}
	sent := boulder.TurnSent{AttemptRef: ref, Turn: turn.Number, Kind: turn.Kind, ToldUpTo: turn.ToldUpTo}
	sent.MessageID = fmt.Sprintf("msg of %v", at)
	if sent.Resume = turn.MessageID != "" && turn.ResumeID == "" && session.cut; sent.Resume {
		sent.MessageID += " again"
	}
	session.cut = false
	if turn.MessageID == "" || sent.Resume {
		if err := report(sent); err != nil {
			return none, err
		}
	}
	w := s.sc.workOf(job.SubTask, at)
	if err := s.nap(ctx, lane, w.takes/2); err != nil {
		return none, err
	}
	half := boulder.Usage{Input: w.evidence.Usage.Input / 2, Calls: w.evidence.Usage.Calls / 2}
	if err := report(boulder.SubTaskProgress{AttemptRef: ref, Activity: "edit main.go", Usage: half}); err != nil {
		return none, err
	}
	if err := s.nap(ctx, lane, w.takes/2); err != nil {
		return none, err
	}
	if err := s.out(job.Attempt.Model); err != nil {
		return none, err
	}
	if f, met := s.meets("turn", at, s.sc.turnFaults(at), func(f fault) bool { return !f.early }); met {
		session.cut, session.gone = f.cut, f.err == nil
		return none, cmp.Or(f.err, fmt.Errorf("the session of %v: %w", ref, boulder.ErrSessionLost))
	}
	if err := s.nap(ctx, lane, d.span(time.Millisecond, 10*time.Second)); err != nil {
		return none, err
	}
	w.evidence.Duration = w.takes
	return w.evidence, w.broken
}

// open finds or creates the session of an attempt.
func (s *Script) open(
	ctx context.Context, job boulder.Job, lane int, takes time.Duration, report func(boulder.Body) error,
) (*played, error) {
	ref := job.Attempt.AttemptRef
	s.mu.Lock()
	session := s.sessions[ref]
	if session == nil {
		session = &played{gone: job.Attempt.SessionID != ""}
		s.sessions[ref] = session
	}
	s.mu.Unlock()
	switch {
	case session.gone:
		return nil, fmt.Errorf("the session of %v: %w", ref, boulder.ErrSessionLost)
	case job.Attempt.SessionID != "":
		return session, nil
	}
	if err := s.nap(ctx, lane, takes); err != nil {
		return nil, err
	}
	return session, report(boulder.SubTaskStart{
		AttemptRef: ref, Description: job.SubTask.Subject, Model: job.Attempt.Model, SessionID: fmt.Sprintf("ses of %v", ref),
		Snapshot: "snapshot",
	})
}

// napBeforeAnswer waits. If ctx ends first, it naps again, so that the return has a moment of its own too.
func (s *Script) napBeforeAnswer(ctx context.Context, lane int, d time.Duration) error {
	err := s.nap(ctx, lane, d)
	if err != nil {
		_ = s.nap(context.WithoutCancel(ctx), lane, time.Millisecond)
	}
	return err
}

func anyFault(fault) bool { return true }

// Judge implements orchestrator.Judge.
func (s *Script) Judge(ctx context.Context, req boulder.JudgeRequest) (v boulder.Verdict, u boulder.Usage, err error) {
	at := placeOf(req.SubTask, req.Turn)
	d := throw(s.sc.seed, "judge delays", at)
	if err := s.napBeforeAnswer(ctx, s.lane(req.Attempt.AttemptRef, 1), d.span(time.Second, time.Minute)); err != nil {
		return v, u, err
	}
	u = boulder.Usage{Input: int64(d.from(100, 900)), Output: 50, Calls: 1, Cost: 0.125}
	if err := s.out(req.Model); err != nil {
		return v, u, err
	}
	if f, met := s.meets("judge", at, s.sc.judgeFaults(at), anyFault); met {
		return v, u, f.err
	}
	v, err = s.sc.verdict(req)
	return v, u, err
}

// Check implements orchestrator.Checker.
func (s *Script) Check(ctx context.Context, req boulder.CheckRequest) (c boulder.RequestCheck, u boulder.Usage, err error) {
	at := checkOf(req)
	d := throw(s.sc.seed, "check delays", at)
	if err := s.napBeforeAnswer(ctx, laneCheck, d.span(time.Second, time.Minute)); err != nil {
		return c, u, err
	}
	u = boulder.Usage{Input: int64(d.from(100, 900)), Output: 50, Calls: 1, Cost: 0.125}
	if err := s.out(req.Model); err != nil {
		return c, u, err
	}
	if f, met := s.meets("check", at, s.sc.judgeFaults(at), anyFault); met {
		return c, u, f.err
	}
	return s.sc.requestCheck(req), u, nil
}

// Plan implements orchestrator.Planner.
func (s *Script) Plan(ctx context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
	d := throw(s.sc.seed, "plan")
	u := boulder.Usage{Input: 500, Output: 100, Calls: 1, Cost: 0.25}
	if err := s.napBeforeAnswer(ctx, lanePlanner, d.span(time.Second, 5*time.Minute)); err != nil {
		return nil, boulder.Usage{}, err
	}
	if err := s.out(req.Model); err != nil {
		return nil, u, err
	}
	if f, met := s.meets("plan", place{}, s.sc.judgeFaults(place{}), anyFault); met {
		return nil, u, f.err
	}
	plan := s.sc.plan.Clone()
	plan.Task, plan.Constraints = req.Task, req.Constraints
	plan.Seal = &boulder.Seal{Hash: plan.Hash(), Origin: boulder.OriginModel, Model: ledger}
	return &plan, u, nil
}

// Prepare implements orchestrator.Preparer.
func (s *Script) Prepare(ctx context.Context, req boulder.PlanRequest) (p boulder.Prepared, u boulder.Usage, err error) {
	if err := s.napBeforeAnswer(ctx, lanePlanner, throw(s.sc.seed, "prepare").span(time.Second, time.Minute)); err != nil {
		return p, u, err
	}
	return s.sc.prepared(req), boulder.Usage{Input: 300, Output: 60, Calls: 1, Cost: 0.125}, nil
}

// Look implements orchestrator.Looker.
func (s *Script) Look(ctx context.Context, job boulder.LookJob, report func(boulder.Body) error) (l boulder.Looked, u boulder.Usage, err error) {
	d, at, where := throw(s.sc.seed, "look", job.Look.Tag), job.Look.LookSession, place{subTask: job.Look.Tag}
	if err := s.napBeforeAnswer(ctx, laneLook, d.span(time.Millisecond, time.Second)); err != nil {
		return l, u, err
	}
	if at.MessageID == "" {
		at.SessionID, at.MessageID = "ses of "+job.Look.Tag, "msg of "+job.Look.Tag
		if err := report(at); err != nil {
			return l, u, err
		}
	}
	if err := s.napBeforeAnswer(ctx, laneLook, d.span(time.Second, 12*time.Minute)); err != nil {
		return l, u, err
	}
	u = boulder.Usage{Input: 800, Output: 90, Calls: 3, Cost: 0.5}
	if f, met := s.meets("look", where, s.sc.judgeFaults(where), anyFault); met {
		return l, u, f.err
	}
	return s.sc.looked(job.Look.Tag), u, nil
}

// Replan implements orchestrator.Planner.
func (s *Script) Replan(ctx context.Context, req boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error) {
	at := place{subTask: req.Failed.ID, tries: req.Failed.Tries, turn: len(req.Earlier)}
	d := throw(s.sc.seed, "replan", at)
	u := boulder.Usage{Input: 700, Output: 200, Calls: 1, Cost: 0.5}
	if err := s.napBeforeAnswer(ctx, laneReplan, d.span(time.Second, 5*time.Hour)); err != nil {
		return boulder.Replacement{}, boulder.Usage{}, err
	}
	if err := s.out(req.Model); err != nil {
		return boulder.Replacement{}, u, err
	}
	if f, met := s.meets("replan", at, s.sc.judgeFaults(at), anyFault); met {
		return boulder.Replacement{}, u, f.err
	}
	if s.sc.looksFirst(req) {
		return boulder.Replacement{Questions: []string{"why not?"}}, u, nil
	}
	if d.is(0.2) {
		return boulder.Replacement{}, u, fmt.Errorf("it is the same again: %w", boulder.ErrNoNewPlan)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replans++
	r := boulder.Replacement{Replaces: map[string]string{}, Model: ledger}
	for i := range d.from(1, 3) {
		t := drawSpec(d, fmt.Sprintf("r%dx%d", s.replans, i+1), s.sc.class)
		t.Model = s.sc.listed(throw(s.sc.seed, "listed", t.ID), t.Model)
		if i > 0 && d.is(0.4) {
			t.DependsOn = append(t.DependsOn, r.SubTasks[i-1].ID)
		}
		if n := len(req.Kept); n > 0 && d.is(0.4) {
			t.DependsOn = append(t.DependsOn, req.Kept[d.IntN(n)].ID) // it may be over by then
		}
		if len(req.Replaced) > 0 && d.is(0.5) {
			r.Replaces[t.ID] = req.Replaced[d.IntN(len(req.Replaced))].ID
		}
		s.lanes[t.ID] = 100 + s.replans*10 + i
		r.SubTasks = append(r.SubTasks, t)
	}
	return r, u, nil
}
