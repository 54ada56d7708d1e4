// Package gateway hands the boulders of a project to Temporal, and keeps a copy of their logs in the project's database: what
// looks at boulders reads that, with or without a worker.
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

	"github.com/bouldermgr/manager/blockers"
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

// Gateway is that of one project. The fields are set before its first use.
type Gateway struct {
	Client   client.Client
	Queue    string // of the project's workers
	DB       *store.DB
	Complete func(context.Context, *project.Request) error // fills in what a request leaves out
	Input    flow.Input                                    // without id and request
	Blockers *blockers.Register                            // of the project
	Remote   *gitremote.Remote                             // by which workers share results; nil: all have the project's directory

	mu      sync.Mutex
	copies  map[string]*boulder.State // of boulders that may continue
	running []string
	round   int              // of [Gateway.Copy]
	quiet   map[string]int   // in how many a boulder had no news
	failing map[string]error // why a boulder could not be copied the last time
	behind  map[string]bool  // boulders whose log names commits that the project may not have
	listed  bool             // copies has what ended while no gateway ran
	swept   bool             // the remote has nothing of boulders that are over, and landed
}

const (
	// AnswerTime is how long to wait for the answer of a worker.
	AnswerTime = 10 * time.Second
	// takeTime is how long a worker has to begin with it: what is given up is not carried out later.
	takeTime = AnswerTime - 2*time.Second
)

// Submit implements control.Submitter. A boulder that no worker takes up soon is withdrawn.
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
	run, err := g.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: in.BoulderID, TaskQueue: g.Queue}, flow.Workflow, in)
	if err != nil {
		err = fmt.Errorf("hand the boulder to Temporal: %w", Explain(ctx, g.Client, err))
		if g.Remote != nil {
			err = errors.Join(err, g.Remote.End(context.WithoutCancel(ctx), in.BoulderID))
		}
		return "", err
	}
	patient, cancel := context.WithTimeout(ctx, AnswerTime)
	defer cancel()
	if err = g.begun(patient, run); err == nil {
		return in.BoulderID, nil
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), AnswerTime)
	defer cancel()
	left := g.Client.TerminateWorkflow(asking, run.GetID(), run.GetRunID(), "no worker took it up")
	if _, over := errors.AsType[*serviceerror.NotFound](left); over {
		left = nil
	}
	if left == nil && g.Remote != nil {
		left = g.Remote.End(asking, in.BoulderID)
	}
	if left != nil {
		err = fmt.Errorf("%w; boulder %s could not be withdrawn, and may still begin: %w", err, in.BoulderID, left)
	}
	return "", err
}

// begun waits until the copy of a new boulder begins, or the workflow says why there will be none.
func (g *Gateway) begun(ctx context.Context, run client.WorkflowRun) error {
	refused := make(chan error, 1)
	go func() {
		err := run.Get(ctx, nil)
		if _, ended := errors.AsType[*temporal.WorkflowExecutionError](err); !ended {
			return // it continues, or the server is away
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

// Order implements control.Steerer. A boulder that is over is here alone.
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
		g.swept = false // it may have landed
		g.mu.Unlock()
		return orchestrator.Obey(ctx, g.DB, id, what, time.Now())
	}
	err = g.update(ctx, id, flow.UpdateOrder, what)
	if errors.Is(err, errGone) && s.Boulder.Engine != "" && what.Do == boulder.OrderCancel && what.SubTaskID == "" {
		return orchestrator.Obey(ctx, g.DB, id, what, time.Now())
	}
	if err != nil {
		return err
	}
	return g.copy(ctx, id)
}

// errGone is the error for what needs a workflow that the server does not have.
var errGone = fmt.Errorf("%w: it does not run at the Temporal server", boulder.ErrRefused)

func (g *Gateway) update(ctx context.Context, id, name string, what any) error {
	ctx, cancel := context.WithTimeout(ctx, AnswerTime)
	defer cancel()
	if err := g.known(ctx, id); err != nil {
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
		err = fmt.Errorf("boulder %s: %w", id, errGone)
		if s, _ := g.DB.Get(ctx, id); s.Boulder.Engine == "" {
			return fmt.Errorf("%w: it was started on this machine, and continues there when the gateway is stopped", err)
		}
		return fmt.Errorf("%w, which has lost it: end it with manager cancel -b %s", err, id)
	}
	return errors.Join(Explain(ctx, g.Client, err), refused.Err())
}

// known refuses a boulder of other workers than the gateway's, which could not fetch what it comes to.
func (g *Gateway) known(ctx context.Context, id string) error {
	w, err := g.Client.DescribeWorkflowExecution(ctx, id, "")
	if queue := w.GetWorkflowExecutionInfo().GetTaskQueue(); err == nil && queue != g.Queue {
		return fmt.Errorf("%w: boulder %s is on the task queue %q, and this gateway on %q: start the gateway with the --git-remote"+
			" and --temporal-queue that the boulder was handed over with", boulder.ErrRefused, id, queue, g.Queue)
	}
	return nil // what else there is, the next call tells
}

// healthTime is how long a server may take to say that it is there.
const healthTime = 2 * time.Second

var errNoWorker = errors.New("no worker answers: start `manager-temporal worker`, with --git-remote and --temporal-queue if the gateway has them")

// Explain says what an error of the server comes from, mostly.
func Explain(ctx context.Context, c client.Client, err error) error {
	_, failed := errors.AsType[*serviceerror.QueryFailed](err)
	_, late := errors.AsType[*serviceerror.DeadlineExceeded](err)
	_, cancelled := errors.AsType[*serviceerror.Canceled](err) // by the deadline, which the server saw first
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

// rarely is the most that doubles the time until a quiet boulder is copied again, which costs a worker some
// milliseconds: 8 s.
const rarely = 4

// Copy implements project.Elsewhere.
func (g *Gateway) Copy(ctx context.Context) ([]string, error) {
	open, failed := g.open(ctx)
	failed = Explain(ctx, g.Client, failed)
	g.mu.Lock()
	maps.DeleteFunc(g.failing, func(id string, _ error) bool { // withdrawn
		return failed == nil && g.copies[id] == nil && !slices.Contains(open, id)
	})
	g.round++
	ids := slices.DeleteFunc(slices.Concat(open, slices.Sorted(maps.Keys(g.copies))), func(id string) bool {
		return failed != nil || g.round%(1<<min(g.quiet[id], rarely)) != 0
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
		case missing && !slices.Contains(open, id): // it was begun on this machine, or the server keeps it no longer
			g.running = slices.DeleteFunc(g.running, func(other string) bool { return other == id })
			delete(g.copies, id)
			delete(g.failing, id)
		case err != nil:
			g.quiet[id]++
			g.failing[id] = err // others may do better
		default:
			delete(g.failing, id)
		}
		if s := g.copies[id]; s != nil && s.Boulder.Status.Terminal() && !slices.Contains(open, id) {
			delete(g.copies, id)
			delete(g.quiet, id)
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

// fetch brings the commits that a boulder's log names.
func (g *Gateway) fetch(ctx context.Context, id string) error {
	if g.Remote == nil || !g.behind[id] {
		return nil
	}
	err := g.Remote.Fetch(ctx, id)
	if err == nil {
		delete(g.behind, id)
	}
	return err
}

// sweep removes from the remote what boulders left there that are over, and whose results need not land any more; else the
// project gets them.
func (g *Gateway) sweep(ctx context.Context) error {
	there, err := g.Remote.Boulders(ctx)
	for _, id := range there {
		s, missing := g.DB.Get(ctx, id)
		switch {
		case err != nil || missing != nil || !s.Boulder.Status.Terminal():
		case s.Boulder.Unlanded(): // an earlier gateway may have ended before it
			err = g.Remote.Fetch(ctx, id)
		default:
			err = g.Remote.End(ctx, id)
		}
	}
	g.swept = err == nil
	return err
}

// open are the boulders whose workflows are not closed.
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

// copy brings the copy of one boulder up to date.
func (g *Gateway) copy(ctx context.Context, id string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.copies == nil {
		g.copies, g.quiet, g.behind, g.failing = map[string]*boulder.State{}, map[string]int{}, map[string]bool{}, map[string]error{}
	}
	s := g.copies[id]
	if s == nil {
		err := g.known(ctx, id)
		if err != nil {
			return err
		}
		if s, err = g.DB.Load(ctx, id); errors.Is(err, boulder.ErrNotFound) {
			s = boulder.NewState()
		} else if err != nil {
			return err
		}
		g.behind[id] = true
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
			switch b := e.Body.(type) {
			case boulder.BlockerRaised:
				if err := g.Blockers.Adopt(ctx, b.Blocker); err != nil {
					return err
				}
			case boulder.TurnEnded, boulder.Integrated, boulder.TaskComplete:
				g.behind[id] = true
			}
		}
		g.quiet[id]++
		if len(page.Events) > 0 {
			g.quiet[id] = 0
			_ = g.fetch(ctx, id) // before they can be read about; else [Gateway.Copy] does, and tells why not
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
