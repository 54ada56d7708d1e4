package flow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/temporal/fault"
)

var (
	_ orchestrator.Planner        = (*flow)(nil)
	_ orchestrator.Preparer       = (*flow)(nil)
	_ orchestrator.Looker         = (*flow)(nil)
	_ orchestrator.Judge          = (*flow)(nil)
	_ orchestrator.Checker        = (*flow)(nil)
	_ orchestrator.Runner         = (*flow)(nil)
	_ orchestrator.Verifier       = (*flow)(nil)
	_ orchestrator.Integrator     = (*flow)(nil)
	_ orchestrator.Trier          = (*flow)(nil)
	_ orchestrator.SessionStopper = (*flow)(nil)
	_ orchestrator.Store          = (*flow)(nil)
)

// Call is the argument of an activity.
type Call[T any] struct {
	Number    int // of this call; a report with another number is refused
	BoulderID string
	Progress  time.Duration // minimum time between two progress signals
	What      T
}

// Result is the result of an activity. Errors of the core are in Fault; an error of the activity is infrastructure's.
type Result[T any] struct {
	Value T
	Usage boulder.Usage
	Fault *fault.Fault
}

// Report is what an activity reports while it runs.
type Report struct {
	Call  int
	Event boulder.Event // only BoulderID and Body are set
	Host  string        // of the worker, if its sessions cannot continue on another host
}

// HostQueue returns the task queue for work that continues sessions on a host.
func HostQueue(queue, host string) string { return queue + "@" + host }

type call struct {
	reports []*pendingReport
	alone   func() bool
	raised  func(context.Context) ([]boulder.Blocker, error)
	host    string // of its session; empty if it has none or any host will do
}

// permit waits until the limit of a model, shared by all boulders, allows its use. The caller calls release once.
func (f *flow) permit(ctx context.Context, model, what string) (release func(), err error) {
	var free func()
	f.block(func() {
		free, err = f.permits.Acquire(workflowContext(ctx), cmp.Or(model, "default"), f.in.Limits.Model(model), what)
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("%w: wait for a permit of model %s: %w", boulder.ErrTrouble, model, err)
	}
	return func() {
		if !f.evicted {
			f.block(free)
		}
	}, nil
}

// ask runs an activity that uses the ledgers' model.
func ask[Out, In any](ctx context.Context, f *flow, name string, what In) (r Result[Out], err error) {
	release, err := f.permit(ctx, f.state.Boulder.Ledger(), name)
	if err != nil {
		return r, err
	}
	defer release()
	return do[Out](ctx, f, name, what, &call{}, nothingReported)
}

type pendingReport struct {
	body boulder.Body
	done bool
	err  error
}

// hostBeats is how many heartbeat timeouts work waits for the host of its session before it goes to any host.
const hostBeats = 4

// progressEvery is the minimum time between two progress signals of a session. It grows with the history, which
// progress would fill: Temporal ends a workflow at 51,200 events.
func (f *flow) progressEvery() time.Duration {
	length := float64(workflow.GetInfo(f.root).GetCurrentHistoryLength()) / 2000
	return time.Duration((1 + length*length) * float64(30*time.Second))
}

// longest bounds an activity. The core's own limits are shorter.
const longest = 7 * 24 * time.Hour

// do runs an activity and passes its reports on. Temporal does not retry it: after a lost worker the core decides, and
// gives the same attempt to another one, as after a crash.
func do[Out, In any](ctx context.Context, f *flow, name string, what In, c *call, report func(boulder.Body) error) (r Result[Out], err error) {
	if err := Fits("what an activity "+name+" needs to know", what); err != nil {
		return r, err
	}
	f.lastCall++
	number := f.lastCall
	f.calls[number] = c
	defer delete(f.calls, number)
	options := workflow.ActivityOptions{
		StartToCloseTimeout: longest, HeartbeatTimeout: f.in.Heartbeat, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	}
	if c.host != "" {
		options.TaskQueue, options.ScheduleToStartTimeout = HostQueue(workflow.GetInfo(f.root).TaskQueueName, c.host), hostBeats*f.in.Heartbeat
	}
	future := workflow.ExecuteActivity(workflow.WithActivityOptions(workflowContext(ctx), options), name, Call[In]{number, f.in.BoulderID, f.progressEvery(), what})
	patient := uncancelled(ctx) // the slot is free only once cancelled work has ended
	for {
		f.wait(patient, orchestrator.Forever, func() bool { return len(c.reports) > 0 || future.IsReady() })
		if len(c.reports) == 0 {
			break
		}
		next := c.reports[0]
		c.reports = c.reports[1:]
		next.err = report(next.body)
		next.done = true
	}
	err = future.Get(patient, &r)
	switch timeout, _ := errors.AsType[*temporal.TimeoutError](err); {
	case ctx.Err() != nil:
		return r, context.Cause(ctx)
	case c.host != "" && timeout != nil && timeout.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START:
		c.host = ""
		return do[Out](ctx, f, name, what, c, report)
	case err != nil:
		return r, activityError(err)
	}
	return r, r.Fault.Err()
}

// redoLost is do for work that the core does not retry: if a worker is lost or stops, another one does the work.
func redoLost[Out, In any](ctx context.Context, f *flow, name string, what In, report func(boulder.Body) error) (r Result[Out], err error) {
	for losses := 0; ; {
		r, err = do[Out](ctx, f, name, what, &call{}, report)
		switch t, _ := errors.AsType[*boulder.TroubleError](err); {
		case t != nil && t.Kind == boulder.TroublePaused:
		case errors.Is(err, errLost) && losses < f.in.Limits.Troubles: // it may itself kill workers
			losses++
		default:
			return r, err
		}
	}
}

var errLost = fmt.Errorf("%w: the worker was lost", boulder.ErrTrouble)

// GivenUp is the type of an activity's error if its worker ended the work because another one may get it.
const GivenUp = "given-up"

// activityError converts the error of an activity without a result to one of the core.
func activityError(err error) error {
	if timeout, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		return fmt.Errorf("%w: %w", errLost, timeout)
	}
	if e, ok := errors.AsType[*temporal.ApplicationError](err); ok && e.Type() == GivenUp { // before the timeout
		return fmt.Errorf("%w: %s", errLost, e.Message())
	}
	if _, cancelled := errors.AsType[*temporal.CanceledError](err); cancelled {
		return fmt.Errorf("%w: the worker stopped", boulder.ErrTrouble)
	}
	return err
}

func nothingReported(b boulder.Body) error {
	return fmt.Errorf("%w: there is no listener for %s", boulder.ErrRefused, boulder.TypeOf(b))
}

func (f *flow) Plan(ctx context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
	return plan[*boulder.Plan](ctx, f, ActivityPlan, req)
}

func (f *flow) Prepare(ctx context.Context, req boulder.PlanRequest) (boulder.Prepared, boulder.Usage, error) {
	return plan[boulder.Prepared](ctx, f, ActivityPrepare, req)
}

func plan[Out any](ctx context.Context, f *flow, name string, req boulder.PlanRequest) (none Out, u boulder.Usage, err error) {
	release, err := f.permit(ctx, f.state.Boulder.Ledger(), name)
	if err != nil {
		return none, u, err
	}
	defer release()
	r, err := redoLost[Out](ctx, f, name, req, nothingReported)
	return r.Value, r.Usage, err
}

// lookRef is the look's key in hosts.
var lookRef = boulder.AttemptRef{Attempt: -1}

// Look continues on the host that has the session. If that is gone, the session is lost, and the look void.
func (f *flow) Look(ctx context.Context, job boulder.LookJob, report func(boulder.Body) error) (boulder.Looked, boulder.Usage, error) {
	release, err := f.permit(ctx, job.Look.Model, ActivityLook)
	if err != nil {
		return boulder.Looked{}, boulder.Usage{}, err
	}
	defer release()
	c := &call{host: f.hosts[lookRef]}
	r, err := do[boulder.Looked](ctx, f, ActivityLook, job, c, report)
	f.hosts[lookRef] = c.host
	return r.Value, r.Usage, err
}

func (f *flow) Replan(ctx context.Context, req boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error) {
	r, err := ask[boulder.Replacement](ctx, f, ActivityReplan, req)
	return r.Value, r.Usage, err
}

func (f *flow) Judge(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	r, err := ask[boulder.Verdict](ctx, f, ActivityJudge, req)
	return r.Value, r.Usage, err
}

func (f *flow) Check(ctx context.Context, req boulder.CheckRequest) (boulder.RequestCheck, boulder.Usage, error) {
	r, err := ask[boulder.RequestCheck](ctx, f, ActivityCheck, req)
	return r.Value, r.Usage, err
}

func (f *flow) Run(ctx context.Context, job boulder.Job, report func(boulder.Body) error) (boulder.Evidence, error) {
	a := job.Attempt
	if job.Turn.MessageID == "" { // not if the prompt is sent: a report would start the turn's clock
		waits := boulder.SubTaskProgress{AttemptRef: a.AttemptRef, Activity: "waiting for a permit of model " + cmp.Or(a.Model, "default")}
		if err := report(waits); err != nil {
			return boulder.Evidence{}, err
		}
	}
	release, err := f.permit(ctx, a.Model, fmt.Sprintf("%s/%d", a.SubTaskID, a.AttemptRef.Attempt))
	if err != nil {
		return boulder.Evidence{}, err
	}
	defer release()
	c := &call{alone: job.Alone, raised: job.Raised, host: f.hosts[a.AttemptRef]}
	job.SubTask.Blockers = briefly(job.SubTask.Blockers)
	r, err := do[boulder.Evidence](ctx, f, ActivityRun, job, c, report)
	f.hosts[a.AttemptRef] = c.host
	return r.Value, err
}

// briefly returns blockers without the texts for the user, which runners do not need and a history holds many times.
func briefly(all []boulder.Blocker) []boulder.Blocker {
	all = slices.Clone(all)
	for i := range all {
		b := &all[i]
		b.Context, b.Options, b.ChosenReasoning = "", nil, ""
		if b.Ask != nil {
			ask := *b.Ask
			ask.Arguments, b.Ask = "", &ask
		}
	}
	return all
}

func (f *flow) Verify(ctx context.Context, what boulder.Verification, report func(boulder.Body) error) error {
	what.SubTasks = withoutTexts(what.SubTasks)
	_, err := redoLost[struct{}](ctx, f, ActivityVerify, what, report)
	return err
}

func (f *flow) Integrate(ctx context.Context, what boulder.Integration, report func(boulder.Body) error) error {
	what.Earlier = withoutTexts(what.Earlier)
	for i, j := range what.Then {
		what.Then[i] = boulder.Joined{SubTask: withoutTexts([]boulder.SubTask{j.SubTask})[0], Turn: briefTurn(j.Turn)}
	}
	_, err := redoLost[struct{}](ctx, f, ActivityIntegrate, what, report)
	return err
}

func (f *flow) Try(ctx context.Context, what boulder.Trial, report func(boulder.Body) error) error {
	_, err := redoLost[struct{}](ctx, f, ActivityTry, what, report)
	return err
}

func (f *flow) StopSession(ctx context.Context, left boulder.LeftSession) error {
	_, err := do[struct{}](ctx, f, ActivityStop, left, &call{host: f.hosts[left.AttemptRef]}, nothingReported)
	return err
}

// briefTurn returns what an integration needs to know of a turn, all of whose gates hold.
func briefTurn(t boulder.Turn) boulder.Turn {
	e := t.Evidence
	brief := boulder.Evidence{Gates: slices.Clone(e.Gates), Diff: boulder.Diff{Tree: e.Diff.Tree, Commit: e.Diff.Commit}, Ignored: e.Ignored}
	for i := range brief.Gates {
		brief.Gates[i].Output = ""
	}
	return boulder.Turn{AttemptRef: t.AttemptRef, Number: t.Number, Kind: t.Kind, Evidence: &brief}
}

// withoutTexts clears the fields that only agents and judges read: a history may hold many sub-tasks many times.
func withoutTexts(all []boulder.SubTask) []boulder.SubTask {
	for i := range all { // the slice is a copy
		all[i].Description, all[i].Output, all[i].Failures = "", "", nil
	}
	return all
}
