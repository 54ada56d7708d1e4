// Package gateway hands a project's boulders to Temporal and copies their logs into the project's database. Commands
// that show boulders read the copy, with or without a worker.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/temporal/fault"
	"github.com/bouldermgr/manager/temporal/flow"
	"github.com/bouldermgr/manager/temporal/gitremote"
)

var _ project.Elsewhere = (*Gateway)(nil)

// Gateway serves one project. Set the exported fields before the first use.
type Gateway struct {
	Client   client.Client
	Queue    string // of the project's workers
	DB       *store.DB
	Complete func(context.Context, *project.Request) error // fills in what a request leaves out
	Input    flow.Input                                    // template without BoulderID and Request
	Remote   *gitremote.Remote                             // by which workers share results; nil: they share the project's directory

	mu         sync.Mutex
	copies     map[string]*boulder.State // of boulders that may still change
	running    []string
	round      int              // of [Gateway.Copy]
	idleRounds map[string]int   // rounds in a row without new events, by boulder
	failing    map[string]error // error of the last copy, by boulder
	unfetched  map[string]bool  // boulders whose log names commits that the clone may lack
	listed     bool             // boulders that ended while no gateway ran are in copies
	swept      bool             // the remote has no refs of finished boulders whose results have landed or were dropped
}

const (
	// AnswerTime is how long to wait for a worker's answer.
	AnswerTime = 10 * time.Second
	// takeTime is how long a worker has to begin an update: none may begin after the caller gave up.
	takeTime = AnswerTime - 2*time.Second
)

// Submit implements control.Submitter. It withdraws a new boulder that no worker takes within [AnswerTime].
func (g *Gateway) Submit(ctx context.Context, req project.Request) (string, error) {
	if req.Fork != nil {
		return "", fmt.Errorf("%w: a fork is run on one machine: stop the gateway", boulder.ErrRefused)
	}
	if g.Remote != nil && req.Isolation != boulder.IsolationOff {
		req.Isolation = boulder.IsolationAlways
	}
	if err := g.Complete(ctx, &req); err != nil {
		return "", err
	}
	if g.Remote != nil && req.Resume == "" && req.SlotBase == "" {
		return "", fmt.Errorf("%w: workers that share a git remote cannot work in place%s", boulder.ErrRefused, text.Prefixed(": ", req.InPlace))
	}
	if req.Resume != "" {
		if s, err := g.DB.Get(ctx, req.Resume); err == nil && s.Boulder.Status.Terminal() {
			return "", fmt.Errorf("boulder %s is %s: %w", req.Resume, s.Boulder.Status, boulder.ErrFinished)
		}
		if err := g.update(ctx, req.Resume, flow.UpdateResume, req); err != nil {
			return "", err
		}
		return req.Resume, g.copy(ctx, req.Resume)
	}
	req.Engine = "temporal"
	in := g.Input
	in.BoulderID, in.Request = strings.ToLower(ulid.Make().String()), req
	if err := flow.Fits("the request", in); err != nil {
		return "", err
	}
	if g.Remote != nil {
		pushing, cancel := context.WithTimeout(ctx, AnswerTime)
		defer cancel()
		if err := g.Remote.Begin(pushing, in.BoulderID, req.SlotBase); err != nil {
			return "", fmt.Errorf("nothing was begun: publish the base on the git remote: %w", err)
		}
	}
	var err error
	if in.FirstBlocker, err = g.DB.ReserveBlockers(ctx, flow.Blockers); err != nil {
		return "", err
	}
	run, err := g.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: in.BoulderID, TaskQueue: g.Queue}, flow.Workflow, in)
	if err != nil {
		err = fmt.Errorf("hand the boulder to Temporal: %w", Explain(ctx, g.Client, err))
		return "", errors.Join(err, g.withdrawn(context.WithoutCancel(ctx), &in))
	}
	patient, cancel := context.WithTimeout(ctx, AnswerTime)
	defer cancel()
	if err = g.awaitStart(patient, run); err == nil {
		return in.BoulderID, nil
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), AnswerTime)
	defer cancel()
	left := g.Client.TerminateWorkflow(asking, run.GetID(), run.GetRunID(), "no worker took it up")
	if _, over := errors.AsType[*serviceerror.NotFound](left); over {
		left = nil
	}
	if left == nil {
		left = g.withdrawn(asking, &in)
	}
	if left != nil {
		err = fmt.Errorf("%w; boulder %s could not be withdrawn, and may still begin: %w", err, in.BoulderID, left)
	}
	return "", err
}

// withdrawn takes back what was prepared for a boulder that does not begin.
func (g *Gateway) withdrawn(ctx context.Context, in *flow.Input) error {
	err := g.DB.FreeBlockers(ctx, in.FirstBlocker, flow.Blockers)
	if g.Remote != nil {
		err = errors.Join(err, g.Remote.End(ctx, in.BoulderID))
	}
	return err
}

// awaitStart waits until a new boulder's first events are copied. It fails if the workflow refuses the request.
func (g *Gateway) awaitStart(ctx context.Context, run client.WorkflowRun) error {
	refused := make(chan error, 1)
	go func() {
		err := run.Get(ctx, nil)
		if _, ended := errors.AsType[*temporal.WorkflowExecutionError](err); !ended {
			return // it still runs, or the server cannot be reached
		}
		var f *fault.Fault
		if said, ok := errors.AsType[*temporal.ApplicationError](err); ok && said.HasDetails() && said.Details(&f) == nil {
			err = f.Err()
		}
		refused <- err
	}()
	why := errNoWorker
	for {
		if err := g.copy(ctx, run.GetID()); err != nil && ctx.Err() == nil {
			why = err
		}
		if _, missing := g.DB.Get(ctx, run.GetID()); missing == nil {
			return nil
		}
		select {
		case said := <-refused:
			return said
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return why
		}
	}
}

// Order implements control.Steerer. Orders to a finished boulder change only the project's database.
func (g *Gateway) Order(ctx context.Context, id string, what boulder.Order) error {
	s, err := g.DB.Load(ctx, id)
	if err != nil {
		return err
	}
	if s.Boulder.Status.Terminal() {
		if what.Do == boulder.OrderRedo {
			return fmt.Errorf("%w: boulder %s is over, and Temporal cannot restart it: start a new one", boulder.ErrRefused, id)
		}
		g.mu.Lock()
		g.swept = false // its results may have landed
		g.mu.Unlock()
		return orchestrator.Obey(ctx, g.DB, id, what, time.Now())
	}
	err = g.update(ctx, id, flow.UpdateOrder, what)
	if errors.Is(err, errNoWorkflow) && s.Boulder.Engine != "" && what.Do == boulder.OrderCancel && what.SubTaskID == "" {
		return orchestrator.Obey(ctx, g.DB, id, what, time.Now())
	}
	if err != nil {
		return err
	}
	return g.copy(ctx, id)
}

var errNoWorkflow = fmt.Errorf("%w: it does not run at the Temporal server", boulder.ErrRefused)

func (g *Gateway) update(ctx context.Context, id, name string, what any) error {
	ctx, cancel := context.WithTimeout(ctx, AnswerTime)
	defer cancel()
	if err := g.checkQueue(ctx, id); err != nil {
		return err
	}
	handle, err := g.Client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: name, Args: []any{what, time.Now().Add(takeTime)}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	var refused *fault.Fault
	if err == nil {
		err = handle.Get(ctx, &refused)
	}
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		err = fmt.Errorf("boulder %s: %w", id, errNoWorkflow)
		if s, _ := g.DB.Get(ctx, id); s.Boulder.Engine == "" {
			return fmt.Errorf("%w: it was started on this machine, and continues there when the gateway is stopped", err)
		}
		return fmt.Errorf("%w, which has lost it: end it with manager cancel -b %s", err, id)
	}
	return errors.Join(Explain(ctx, g.Client, err), refused.Err())
}

// checkQueue refuses a boulder on another task queue: this project could not fetch the results of its workers.
func (g *Gateway) checkQueue(ctx context.Context, id string) error {
	w, err := g.Client.DescribeWorkflowExecution(ctx, id, "")
	if queue := w.GetWorkflowExecutionInfo().GetTaskQueue(); err == nil && queue != g.Queue {
		return fmt.Errorf("%w: boulder %s is on the task queue %q, and this gateway on %q: start the gateway with the --git-remote"+
			" and --temporal-queue that the boulder was handed over with", boulder.ErrRefused, id, queue, g.Queue)
	}
	return nil // the next call returns other errors
}

// healthTime bounds a health check of the server.
const healthTime = 2 * time.Second

var errNoWorker = errors.New("no worker answers: start `manager-temporal worker`, with --git-remote and --temporal-queue if the gateway has them")

// Explain replaces an error of the server by its likely cause: no server, or no worker.
func Explain(ctx context.Context, c client.Client, err error) error {
	_, failed := errors.AsType[*serviceerror.QueryFailed](err)
	_, late := errors.AsType[*serviceerror.DeadlineExceeded](err)
	_, cancelled := errors.AsType[*serviceerror.Canceled](err) // the server saw the deadline first
	_, noWorker := errors.AsType[*serviceerror.WorkflowNotReady](err)
	_, noPoller := errors.AsType[*serviceerror.FailedPrecondition](err)
	if _, unavailable := errors.AsType[*serviceerror.Unavailable](err); unavailable {
		return fmt.Errorf("the Temporal server cannot be reached: %w", err)
	}
	if err != nil && (failed || late || cancelled || noWorker || noPoller || errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil) {
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthTime)
		defer cancel()
		if _, down := c.CheckHealth(asking, nil); down != nil {
			return fmt.Errorf("the Temporal server does not answer: %w", down)
		}
		return errNoWorker
	}
	return err
}

// maxDoublings limits the back-off of idle boulders to 16 rounds, 8 s. A copy costs a worker some milliseconds.
const maxDoublings = 4

// Copy implements project.Elsewhere. One boulder's error does not keep others from being copied.
func (g *Gateway) Copy(ctx context.Context) ([]string, error) {
	open, failed := g.open(ctx)
	failed = Explain(ctx, g.Client, failed)
	g.mu.Lock()
	maps.DeleteFunc(g.failing, func(id string, _ error) bool { // withdrawn
		return failed == nil && g.copies[id] == nil && !slices.Contains(open, id)
	})
	g.round++
	ids := slices.DeleteFunc(slices.Concat(open, slices.Sorted(maps.Keys(g.copies))), func(id string) bool {
		return failed != nil || g.round%(1<<min(g.idleRounds[id], maxDoublings)) != 0
	})
	listed := g.listed || failed != nil
	g.mu.Unlock()
	if !listed {
		here, err := g.DB.Listing(ctx)
		failed = err
		for _, item := range here {
			if !item.Status.Terminal() {
				ids = append(ids, item.BoulderID)
			}
		}
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		err := g.copy(ctx, id)
		g.mu.Lock()
		if err == nil {
			err = g.fetch(ctx, id)
		}
		_, missing := errors.AsType[*serviceerror.NotFound](err)
		switch {
		case missing && !slices.Contains(open, id): // started on this machine, or past the server's retention
			g.running = slices.DeleteFunc(g.running, func(other string) bool { return other == id })
			delete(g.copies, id)
			delete(g.failing, id)
		case err != nil:
			g.idleRounds[id]++
			g.failing[id] = err
		default:
			delete(g.failing, id)
		}
		if s := g.copies[id]; s != nil && s.Boulder.Status.Terminal() && !slices.Contains(open, id) {
			delete(g.copies, id)
			delete(g.idleRounds, id)
		}
		g.mu.Unlock()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(g.failing)) {
		failed = cmp.Or(failed, g.failing[id])
	}
	g.listed = g.listed || failed == nil
	if g.Remote != nil && !g.swept {
		failed = cmp.Or(failed, g.sweep(ctx))
	}
	return slices.Clone(g.running), failed
}

func (g *Gateway) fetch(ctx context.Context, id string) error {
	if g.Remote == nil || !g.unfetched[id] {
		return nil
	}
	err := g.Remote.Fetch(ctx, id)
	if err == nil {
		delete(g.unfetched, id)
	}
	return err
}

// sweep removes the remote refs of finished boulders, unless their results have yet to land: those it fetches.
func (g *Gateway) sweep(ctx context.Context) error {
	there, err := g.Remote.Boulders(ctx)
	for _, id := range there {
		s, missing := g.DB.Get(ctx, id)
		switch {
		case err != nil || missing != nil || !s.Boulder.Status.Terminal():
		case s.Boulder.Unlanded(): // an earlier gateway may have ended before it fetched them
			err = g.Remote.Fetch(ctx, id)
		default:
			err = g.Remote.End(ctx, id)
		}
	}
	g.swept = err == nil
	return err
}

// open lists the boulders whose workflows run.
func (g *Gateway) open(ctx context.Context) (ids []string, err error) {
	req := &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowType = '%s' AND TaskQueue = '%s' AND ExecutionStatus = 'Running'", flow.Workflow, strings.ReplaceAll(g.Queue, "'", `\'`)),
	}
	for {
		page, err := g.Client.ListWorkflow(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, w := range page.GetExecutions() {
			ids = append(ids, w.GetExecution().GetWorkflowId())
		}
		if req.NextPageToken = page.GetNextPageToken(); len(req.NextPageToken) == 0 {
			return ids, nil
		}
	}
}

func (g *Gateway) copy(ctx context.Context, id string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.copies == nil {
		g.copies, g.idleRounds, g.unfetched, g.failing = map[string]*boulder.State{}, map[string]int{}, map[string]bool{}, map[string]error{}
	}
	s := g.copies[id]
	if s == nil {
		err := g.checkQueue(ctx, id)
		if err != nil {
			return err
		}
		if s, err = g.DB.Load(ctx, id); errors.Is(err, boulder.ErrNotFound) {
			s = boulder.NewState()
		} else if err != nil {
			return err
		}
		g.unfetched[id] = true
	}
	for more := true; more; {
		page, err := g.page(ctx, id, s.Boulder.Seq)
		if err != nil {
			return Explain(ctx, g.Client, err)
		}
		for _, e := range page.Events {
			if err := s.Replay(e); err != nil {
				return fmt.Errorf("copy event %d of boulder %s: %w", e.Seq, id, err)
			}
			switch e.Body.(type) {
			case boulder.TurnEnded, boulder.Integrated, boulder.TaskComplete:
				g.unfetched[id] = true
			}
		}
		g.idleRounds[id]++
		if len(page.Events) > 0 {
			g.idleRounds[id] = 0
			_ = g.fetch(ctx, id) // before readers see the events; on an error [Gateway.Copy] tries again and returns it
			g.swept = g.swept && !s.Boulder.Status.Terminal()
			if err := g.DB.Commit(ctx, s, page.Events); err != nil {
				delete(g.copies, id) // it is ahead of the disk
				return err
			}
		}
		more = page.More
		g.running = slices.DeleteFunc(g.running, func(other string) bool { return other == id })
		if page.Ended == nil && !s.Boulder.Status.Terminal() && s.Boulder.ID != "" {
			g.running = append(g.running, id)
		}
	}
	g.copies[id] = s
	return nil
}

func (g *Gateway) page(ctx context.Context, id string, after uint64) (p flow.Page, err error) {
	ctx, cancel := context.WithTimeout(ctx, AnswerTime/2)
	defer cancel()
	v, err := g.Client.QueryWorkflow(ctx, id, "", flow.QueryLog, after)
	if err == nil {
		err = v.Get(&p)
	}
	return p, err
}
