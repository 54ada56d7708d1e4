package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

func (a *app) newStatusCmd() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:        "status [flags] [BOULDER]",
		Short:      "Show how far a boulder is",
		SuggestFor: []string{"ps", "st", "progress"},
		Long: `Shows how far a boulder is (default: the active one): each sub-task with its state, what it waits for,
what its agent does, and what it cost. It also works while another process runs it. BOULDER is an id, or a
beginning or end of one.

With --follow it shows the boulder as ` + "`manager run`" + ` does, until it is over or you press Ctrl-C, which does not
disturb it: what needs you on top, then what is at work and what waits.`,
		Args:              atMostOne("BOULDER"),
		ValidArgsFunction: a.completeBoulder(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			if follow {
				return a.followStatus(cmd.Context(), args)
			}
			return a.runStatus(cmd.Context(), args)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow the boulder while a process runs it")
	return cmd
}

// followStatus shows a boulder that another process runs as that process would show it.
func (a *app) followStatus(ctx context.Context, args []string) error {
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return err
	}
	defer closeReader()
	client, held := r.(*control.Client)
	if !held {
		closeReader() // a run must be able to start
		return a.notFollowed(ctx, args)
	}
	id, err := project.Resolve(ctx, r, newestOr(args))
	if err != nil {
		return err
	}
	d, err := r.Get(ctx, id)
	if err != nil {
		return err
	}
	holder := project.HolderOf(ctx, r)
	if !project.Runs(holder, d.Boulder) {
		return a.notFollowed(ctx, args)
	}
	p, err := a.progressOf(ctx, r, d)
	if err != nil {
		return err
	}
	v := a.newRunViewOf(p)
	defer v.Close()
	if live, ok := v.(*liveView); ok {
		if holder.Limits != nil {
			live.limits = *holder.Limits
		}
		if len(holder.Running) > 1 {
			live.on = " -b " + id
		}
		live.show()
	}
	for e, err := range client.Follow(ctx, id, d.Boulder.Seq) {
		switch {
		case ctx.Err() != nil:
			return errInterrupted // that is how to leave it
		case errors.Is(err, control.ErrNotServed): // the process has ended
			v.Close()
			return a.runStatus(ctx, []string{id})
		case err != nil:
			return err
		}
		v.Event(e)
		if p.state.Boulder.Status.Terminal() {
			return nil
		}
	}
	return nil
}

// notFollowed shows what there is instead of following it.
func (a *app) notFollowed(ctx context.Context, args []string) error {
	if err := a.runStatus(ctx, args); err != nil {
		return err
	}
	a.note("No process runs it, so there is nothing to follow.")
	return nil
}

func (a *app) runStatus(ctx context.Context, args []string) error {
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return err
	}
	report, err := a.readStatus(ctx, r, args)
	closeReader() // before anything is printed: a pager must not keep a run from starting
	if report == nil {
		if errors.Is(err, store.ErrAllArchived) {
			a.note("Everything that was run here is archived; see: manager list --archived")
			return nil
		}
		if len(args) == 0 && (errors.Is(err, project.ErrNothing) || errors.Is(err, boulder.ErrNotFound)) {
			a.note("Nothing has been run here yet. %s", a.firstStep())
			return nil
		}
		return err
	}
	if a.json {
		return errors.Join(a.printJSON(report), err)
	}
	a.printStatus(report)
	return err
}

// firstStep says how to begin in a project in which nothing was run.
func (a *app) firstStep() string {
	if root, err := a.project(); err == nil && exists(planPath(root)) {
		return "There is a plan; run it with: manager run"
	}
	return "Start with: manager plan \"TASK\""
}

// statusReport is what `manager status --json` prints: one object. Fields are added in later versions, never changed.
type statusReport struct {
	Type      string         `json:"type"` // status
	BoulderID string         `json:"boulder_id"`
	Task      string         `json:"task"`
	Goal      string         `json:"goal,omitempty"`
	Status    boulder.Status `json:"status"`
	Reason    string         `json:"reason,omitempty"`
	// Left are sessions whose agents may be at work although their attempts have ended; the next run or resume stops them.
	Left        []boulder.LeftSession `json:"left,omitempty"`
	Project     string                `json:"project"`
	Base        string                `json:"base,omitempty"` // commit the plan was made on
	Revision    int                   `json:"revision"`       // of the plan; 0 while planning
	Model       string                `json:"model,omitempty"`
	LedgerModel string                `json:"ledger_model,omitempty"`
	// RunBy is the process that runs it; null if none does.
	RunBy *control.Holder `json:"run_by"`
	// Resumable: it is not over, and `manager resume` would go on with it now.
	Resumable bool          `json:"resumable"`
	Completed int           `json:"completed"` // sub-tasks
	Total     int           `json:"total"`     // sub-tasks of the plan, without superseded ones
	Usage     boulder.Usage `json:"usage"`
	Summary   string        `json:"summary,omitempty"`
	// Waiting are the blockers that a person may still answer.
	Waiting   waitingBlockers `json:"waiting_blockers,omitzero"`
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`

	SubTasks []subTaskStatus `json:"sub_tasks"` // in plan order

	now time.Time
}

// subTaskStatus is a sub-task in a [statusReport].
type subTaskStatus struct {
	ID        string                `json:"id"`
	Position  int                   `json:"position"` // in the plan, from 1
	Subject   string                `json:"subject"`
	Status    boulder.SubTaskStatus `json:"status"`
	Reason    string                `json:"reason,omitempty"`
	Priority  boulder.Priority      `json:"priority"`
	DependsOn []string              `json:"depends_on"`
	Model     string                `json:"model,omitempty"` // empty: OpenCode's default
	Agent     string                `json:"agent,omitempty"`

	Attempt       int                   `json:"attempt"`                  // number of the newest; 0 before the first
	AttemptStatus boulder.AttemptStatus `json:"attempt_status,omitempty"` // of the newest
	Turn          int                   `json:"turn,omitempty"`           // of the newest attempt
	SessionID     string                `json:"session_id,omitempty"`     // of the newest attempt
	// Waiting is its place in line and the reason, while it waits for a slot.
	Waiting *schedule.Wait `json:"waiting,omitempty"`
	// Stopped: its turn was broken off, and is taken up again when the pause is over.
	Stopped    bool                `json:"stopped,omitempty"`
	Activity   string              `json:"activity,omitempty"` // last sign of life of the running turn
	Checkpoint *boulder.Checkpoint `json:"checkpoint,omitempty"`
	// Blockers are what its attempts came upon that a person has to answer, oldest first.
	Blockers  []boulder.RaisedBlocker `json:"blockers,omitempty"`
	ElapsedMS int64                   `json:"elapsed_ms"` // of all attempts together
	Usage     boulder.Usage           `json:"usage"`
	Summary   string                  `json:"summary,omitempty"`

	row row
}

// recentEvents is how many events are searched for what the agents do right now.
const recentEvents = 200

// readStatus reads everything about a boulder that status shows. With an error there is a report as well if at least
// its head could be read.
func (a *app) readStatus(ctx context.Context, r reader, args []string) (*statusReport, error) {
	id, err := project.Resolve(ctx, r, newestOr(args))
	if err != nil {
		return nil, err
	}
	d, err := r.Get(ctx, id)
	if d.Boulder.ID == "" {
		return nil, err
	}
	var recent []boulder.Event
	if !d.Boulder.Status.Terminal() {
		var eventsErr error
		recent, eventsErr = r.Events(ctx, id, d.Boulder.Seq-min(d.Boulder.Seq, recentEvents), 0)
		err = errors.Join(err, eventsErr)
	}
	holder := project.HolderOf(ctx, r)
	limits := a.shownLimits()
	if holder != nil && holder.Limits != nil {
		limits = *holder.Limits
	}
	now := time.Now()
	s := newStatusReport(d, recent, holder, limits, neighboursOf(ctx, r, holder, d), now)
	if s.Waiting != (waitingBlockers{}) {
		if root, rootErr := a.project(); rootErr == nil {
			records, _ := a.recordsOfBlockers(ctx, root, id) // without them it is told as the boulder knows it
			s.Waiting = waitingIn(d, records, now)
		}
	}
	return s, err
}

func newStatusReport(
	d store.Detail, recent []boulder.Event, holder *control.Holder, limits schedule.Limits, beside []neighbour,
	now time.Time,
) *statusReport {
	b := d.Boulder
	s := &statusReport{
		Type: "status", BoulderID: b.ID, Task: b.Task, Goal: b.Goal, Status: b.Status, Reason: b.Reason, Left: b.Left,
		Project: b.Project, Base: b.Base, Revision: b.Revision, Model: b.Model, LedgerModel: b.LedgerModel,
		Total: planned(d), Usage: b.Usage, Summary: b.Summary, CreatedAt: b.CreatedAt, UpdatedAt: b.UpdatedAt,
		SubTasks: []subTaskStatus{}, now: now,
	}
	if project.Runs(holder, b) {
		s.RunBy, s.Left = holder, nil // it stops them now
	}
	s.Waiting = waitingIn(d, nil, now)
	s.Resumable = !b.Status.Terminal() && (s.RunBy == nil || b.Status == boulder.Paused)
	if s.RunBy == nil {
		recent = nil // what an agent did when its run ended is not what it does
	}
	for r := range rowsOf(d, recent, limits, beside, now) {
		if r.task.Status == boulder.SubTaskCompleted {
			s.Completed++
		}
		if s.RunBy == nil && r.attempt != nil {
			now = r.attempt.UpdatedAt // nobody is at work: the clock stands still
		}
		s.SubTasks = append(s.SubTasks, newSubTaskStatus(r, now))
	}
	return s
}

func newSubTaskStatus(r row, now time.Time) subTaskStatus {
	t := r.task
	s := subTaskStatus{
		ID: t.ID, Position: t.Position, Subject: t.Subject, Status: t.Status, Reason: t.Reason, Priority: t.Priority,
		DependsOn: append([]string{}, t.DependsOn...), Model: t.Model, Agent: t.Agent, Attempt: t.Attempts,
		Waiting: r.wait, Stopped: r.stopped(), Activity: r.doing.activity, Checkpoint: t.Checkpoint,
		ElapsedMS: r.took(now).Milliseconds(), Usage: r.usage(), Summary: t.Summary, Blockers: t.Blockers,
		row: r,
	}
	if s.Stopped {
		s.Activity = "" // no turn runs
	}
	if r.newest != nil {
		s.AttemptStatus, s.Turn, s.SessionID = r.newest.Status, r.newest.Turns, r.newest.SessionID
	}
	return s
}

// newestOr is the boulder that the arguments name; empty is the newest.
func newestOr(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
