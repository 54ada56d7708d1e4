package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
)

// service holds the state of a project and runs boulders for others, under the same limits. Its methods may be called
// from any goroutine.
type service struct {
	deps *deps
	st   *project.State
	run  *orchestrator.Orchestrator
	ctx  context.Context // of the boulders

	work sync.WaitGroup // a goroutine for each boulder

	mu      sync.Mutex
	running []string // boulders, as they were begun
	begun   int      // boulders that are being begun, or at work
	closed  bool     // nothing further is begun
	idle    *time.Timer
	patient time.Duration // how long to stay with nothing to do; 0: for ever
	empty   chan struct{} // closed when that time is over
}

var (
	_ control.Steerer   = (*service)(nil)
	_ control.Submitter = (*service)(nil)
)

// Order carries an order out. A resume of what nothing runs runs it.
func (s *service) Order(ctx context.Context, boulderID string, o boulder.Order) error {
	if o.Do == boulder.OrderResume && !s.runs(boulderID) {
		return s.resume(ctx, boulderID, orchestrator.ResumeRequest{})
	}
	return s.run.Order(ctx, boulderID, o)
}

// Submit begins to run what was handed over.
func (s *service) Submit(ctx context.Context, what control.Submission) (string, error) {
	d := s.deps
	if what.Resume != "" {
		req := orchestrator.ResumeRequest{Budget: what.Budget, SubTaskBudgets: what.SubTasks, Diverted: what.Diverted, Iterations: what.Iterations}
		return what.Resume, s.resume(ctx, what.Resume, req)
	}
	if what.LedgerModel != "" && what.LedgerModel != d.Ledger() {
		return "", fmt.Errorf("%w: the server plans and judges with %s, not with %s:"+
			" stop it, and start it with --ledger-model",
			boulder.ErrRefused, cmp.Or(d.Ledger(), "the default model"), what.LedgerModel)
	}
	gates := what.GatesApproved
	if what.Plan == nil {
		gates = d.Config().AllowModelGates
	}
	model, err := d.Model()
	if err != nil {
		return "", err
	}
	req := orchestrator.Request{
		Task: what.Task, Constraints: what.Constraints, Mode: what.Mode, Plan: what.Plan, Fork: what.Fork, Base: what.Base,
		GatesApproved: gates, Model: cmp.Or(what.Model, model), LedgerModel: d.Ledger(), Budget: d.Budget(what.Budget),
		SubTaskBudgets: what.SubTasks, Gates: d.Config().Gates, NoWorse: d.Config().NoWorse,
		DoneWhen: what.DoneWhen, Checks: what.Checks, Loop: what.Loop, Diverted: what.Diverted,
	}
	return s.begin(ctx, func(ctx context.Context) iter.Seq2[boulder.Event, error] { return s.run.Run(ctx, req) })
}

func (s *service) resume(ctx context.Context, boulderID string, req orchestrator.ResumeRequest) error {
	req.LedgerModel = s.deps.Ledger()
	if !s.runs(boulderID) {
		s.deps.DeliverBefore(ctx, s.st.DB, boulderID)
	}
	_, err := s.begin(ctx, func(ctx context.Context) iter.Seq2[boulder.Event, error] {
		return s.run.Resume(ctx, boulderID, req)
	})
	return err
}

// takeUp resumes what a process left that did not come to stop it: the boulders that are running by the records.
func (s *service) takeUp(ctx context.Context) error {
	all, err := s.st.DB.Listing(ctx)
	for _, b := range all {
		if b.Status != boulder.Running && b.Status != boulder.Synthesizing {
			continue
		}
		if resumeErr := s.resume(ctx, b.BoulderID, orchestrator.ResumeRequest{}); resumeErr != nil {
			err = errors.Join(err, fmt.Errorf("resume %s: %w", b.BoulderID, resumeErr))
		}
	}
	return err
}

// begin runs a boulder on a goroutine of its own, and returns when the first of it is on disk.
func (s *service) begin(
	ctx context.Context, events func(context.Context) iter.Seq2[boulder.Event, error],
) (string, error) {
	end, err := s.deps.newEnding(s.st.DB)
	if err != nil {
		return "", err
	}
	if !s.enter() {
		return "", fmt.Errorf("%w: the server is stopping", boulder.ErrRefused)
	}
	first := make(chan error, 1)
	var id string
	go func() { // enter counted it
		defer s.work.Done()
		defer s.leave()
		var shown view.Run
		var endedBy error
		began := ""
		for e, err := range end.watch(s.ctx, s.deps.Delivering(s.ctx, s.st.DB, s.run, events(s.ctx))) {
			switch {
			case err != nil && began == "":
				first <- err
				return
			case err != nil:
				s.ended(began, err)
				endedBy = err
				continue
			case began == "":
				began, id = e.BoulderID, e.BoulderID
				shown = view.NewServeRun(s.deps.app.console(), view.NewProgress(s.st.DB), began)
				defer shown.Close()
				s.add(began)
				defer s.remove(began)
				first <- nil
			}
			shown.Event(s.deps.app.cleanEvent(e))
			s.st.Notify()
		}
		s.remove(began) // from here on it can be taken up again
		if path := end.conclude(s.ctx, endedBy); path != "" {
			fmt.Fprintf(s.deps.app.Stderr, "%s boulder %s: report: %s\n", view.Clock(time.Now()), began, path)
		}
	}()
	select {
	case err := <-first:
		return id, err
	case <-ctx.Done():
		return "", context.Cause(ctx) // it may have begun: the list of boulders tells
	}
}

// ended tells on stderr what ended a run, as there is nobody whom it could be returned to.
func (s *service) ended(id string, err error) {
	if !errors.Is(err, orchestrator.ErrCancelled) {
		fmt.Fprintf(s.deps.app.Stderr, "%s boulder %s: %s\n", view.Clock(time.Now()), id, message(ended(s.st.DB, id, err)))
	}
}

func (s *service) runs(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.running, id)
}

// enter counts a boulder that is about to begin; false: none begins any more.
func (s *service) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.begun++
	s.work.Add(1) // here, so that close waits for it
	if s.idle != nil {
		s.idle.Stop()
	}
	return true
}

// leave is called when a boulder's run has ended.
func (s *service) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun--
	s.rest()
}

// rest begins to count the time with nothing to do. Its caller holds mu.
func (s *service) rest() {
	if s.begun > 0 || s.patient == 0 || s.closed {
		return
	}
	s.idle = time.AfterFunc(s.patient, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.begun == 0 && !s.closed {
			s.closed = true
			close(s.empty)
		}
	})
}

func (s *service) add(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = append(slices.Clone(s.running), id)
	s.st.SetRunning(s.running)
}

func (s *service) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = slices.DeleteFunc(slices.Clone(s.running), func(other string) bool { return other == id })
	s.st.SetRunning(s.running)
}

// close begins nothing further and waits until every run has ended.
func (s *service) close() {
	s.mu.Lock()
	s.closed = true
	if s.idle != nil {
		s.idle.Stop()
	}
	s.mu.Unlock()
	s.work.Wait()
}
