package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	morning "github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

// What can be waited for.
const (
	waitDone    = "done"
	waitBlocked = "blocked"
)

type waitOptions struct {
	what    string
	timeout time.Duration
}

func (a *app) newWaitCmd() *cobra.Command {
	var o waitOptions
	cmd := &cobra.Command{
		Use:   "wait [flags] [BOULDER]",
		Short: "Wait until a boulder is over or needs you",
		Long: `Waits for a boulder (default: the one that is at work, or the newest unfinished one, or the newest) and
says how it is then. While a process runs it, its events are followed; while none does, the database is looked at once
a second, until one comes.

  --for done      until it is over
  --for blocked   until a sub-task is blocked, or the boulder waits for a person

Exit codes: 0 what was waited for has come, and with "done" every sub-task is completed · 1 the time is up, or with
"blocked" the boulder is over and nothing was · 3 it is over, but some sub-tasks failed, or a gate is red · 4 waiting for
"done": it is paused or waits for a person, so that it will not be done by itself · 130 it was cancelled, or Ctrl-C.`,
		Example: `  manager wait && git push
  manager wait --for blocked --timeout 8h; notify-send "manager" "$(manager status)"`,
		Args:              atMostOne("BOULDER"),
		ValidArgsFunction: a.completeBoulder(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runWait(cmd.Context(), &o, newestOr(args))
		},
	}
	cmd.Flags().StringVar(&o.what, "for", waitDone, "`STATE` to wait for: done or blocked")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "give up after `TIME`, as 30m; 0: never")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(
		[]cobra.Completion{waitDone, waitBlocked}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// errTimeUp ends a wait.
var errTimeUp = errors.New("the time is up")

func (a *app) runWait(ctx context.Context, o *waitOptions, ref string) error {
	switch {
	case o.what != waitDone && o.what != waitBlocked:
		return usagef("--for takes done or blocked, not %q", o.what)
	case o.timeout < 0:
		return usagef("--timeout takes a time that is not below zero, not %s", o.timeout)
	case o.timeout > 0:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, errTimeUp)
		defer cancel()
	}
	w := &waiting{app: a, report: waitReport{Type: "wait", For: o.what, Blocked: []string{}}}
	err := w.wait(ctx, ref)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, errTimeUp) {
		err = w.timeUp(o.timeout)
	}
	if w.report.BoulderID == "" || errors.Is(err, errInterrupted) {
		return err
	}
	if a.json {
		return errors.Join(a.printJSON(w.report), err)
	}
	if err == nil {
		a.tell(w.report.text())
	}
	return err
}

// waitReport is what `manager wait --json` prints at its end: one object. Fields are added in later versions, never
// changed.
type waitReport struct {
	Type      string         `json:"type"` // wait
	BoulderID string         `json:"boulder_id"`
	For       string         `json:"for"`    // done | blocked
	Status    boulder.Status `json:"status"` // when the wait ended
	Reason    string         `json:"reason,omitempty"`
	Completed int            `json:"completed"` // sub-tasks
	Total     int            `json:"total"`     // sub-tasks of the plan, without superseded ones
	Blocked   []string       `json:"blocked"`   // sub-tasks
}

// text is the report of a wait that has got what it waited for.
func (r *waitReport) text() string {
	status := morning.Stated(string(r.Status), text.OneLine(r.Reason))
	text := fmt.Sprintf("Boulder %s is %s, %d/%d done.", r.BoulderID, status, r.Completed, r.Total)
	if len(r.Blocked) > 0 {
		text += fmt.Sprintf(" Blocked: %s.", view.Listed(r.Blocked))
	}
	return text
}

// waiting is one wait.
type waiting struct {
	app    *app
	report waitReport // of the newest look
	told   bool       // that nobody answers
}

// waitPoll is how long to wait before the next look where no process tells what happens.
const waitPoll = time.Second

// wait looks until it has an answer: nil if what is waited for has come.
func (w *waiting) wait(ctx context.Context, ref string) error {
	for {
		arrived, err := w.look(ctx, ref)
		switch {
		case errors.Is(err, store.ErrHeld), errors.Is(err, control.ErrNotServed):
			if !w.told && ctx.Err() == nil && errors.Is(err, store.ErrHeld) {
				w.told = true
				w.app.note("Another process holds the state and does not answer; waiting for it.")
			}
			if err := project.Rest(ctx, waitPoll); err != nil {
				return err
			}
		case arrived || err != nil:
			return err
		}
	}
}

// look reads the boulder once. If there is no answer yet it returns when it is time to look again.
func (w *waiting) look(ctx context.Context, ref string) (arrived bool, err error) {
	r, closeReader, err := w.app.openReader(ctx)
	if err != nil {
		return false, err
	}
	d, holder, err := w.read(ctx, r, ref)
	client, served := r.(*control.Client)
	if !served {
		closeReader() // no run can start while it is open
	} else {
		defer closeReader()
	}
	if err != nil {
		return false, err
	}
	if d.Boulder.ID != "" {
		if arrived, err := w.judge(d, holder); arrived || err != nil {
			return arrived, err
		}
	}
	if !served || project.Beginning(holder) {
		return false, project.Rest(ctx, waitPoll)
	}
	return false, untilNews(ctx, client, d.Boulder)
}

// read reads the boulder that is waited for; a process that has not begun it yet leaves it empty.
func (w *waiting) read(ctx context.Context, r reader, ref string) (store.Detail, *control.Holder, error) {
	holder := project.HolderOf(ctx, r)
	if w.report.BoulderID == "" {
		id, err := project.Meant(holder, ref)
		if errors.Is(err, control.ErrNotReady) {
			return store.Detail{}, holder, nil
		}
		if err == nil {
			id, err = newestFirst(ctx, r, id)
		}
		if err != nil {
			return store.Detail{}, holder, err
		}
		w.report.BoulderID = id
	}
	d, err := r.Get(ctx, w.report.BoulderID)
	if d.Boulder.ID != "" {
		err = nil // what could not be read is not needed
	}
	return d, holder, err
}

// newestFirst finds a boulder by its name; without one the newest unfinished one, or the newest.
func newestFirst(ctx context.Context, r reader, ref string) (string, error) {
	if ref == "" {
		if id, err := project.Unfinished(ctx, r, nil); err == nil {
			return id, nil
		}
	}
	return project.Resolve(ctx, r, ref)
}

// judge says whether what is waited for has come; the error says that it cannot come any more.
func (w *waiting) judge(d store.Detail, holder *control.Holder) (arrived bool, err error) {
	b := d.Boulder
	r := &w.report
	r.Status, r.Reason, r.Blocked = b.Status, b.Reason, []string{}
	r.Completed, r.Total = view.Done(d)
	for _, t := range d.SubTasks {
		if t.Status == boulder.SubTaskBlocked {
			r.Blocked = append(r.Blocked, t.ID)
		}
	}
	stands := needsPerson(b, holder)
	if r.For == waitBlocked {
		if len(r.Blocked) == 0 && !stands && b.Status.Terminal() {
			return false, fmt.Errorf("boulder %s is %s, and nothing in it was blocked", b.ID, b.Status)
		}
		return len(r.Blocked) > 0 || stands, nil
	}
	switch {
	case b.Status == boulder.Completed:
		return true, nil
	case b.Status == boulder.Cancelled:
		return false, fmt.Errorf("boulder %s: %w", b.ID, errCancelled)
	case b.Status.Terminal():
		return false, fmt.Errorf("boulder %s is %s: %w", b.ID, b.Status, notCompleted(&b))
	case stands:
		return false, fmt.Errorf("%w: boulder %s is %s: %smanager resume %s", orchestrator.ErrWaiting, b.ID,
			morning.Stated(string(b.Status), text.OneLine(b.Reason)), goOnWith(awaiting(d)), b.ID)
	}
	return false, nil
}

// goOnWith says what to do before, and is followed by the command that goes on.
func goOnWith(awaiting bool) string {
	if awaiting {
		return "answer with: " + view.ClarifyHint + "; then continue with: "
	}
	return "continue with: "
}

// needsPerson reports whether a boulder stands still until a person does something. A process that does not say yet
// what it runs may be about to go on with it, and one that has made a plan may be about to go ahead without asking.
func needsPerson(b boulder.Boulder, holder *control.Holder) bool {
	switch b.Status {
	case boulder.Paused:
		return holder == nil || !project.Beginning(holder)
	case boulder.AwaitingApproval:
		return !project.Runs(holder, b)
	}
	return false
}

// untilNews follows a boulder until something happens that a wait may be about, or its process is gone.
func untilNews(ctx context.Context, client *control.Client, b boulder.Boulder) error {
	for e, err := range client.Follow(ctx, b.ID, b.Seq) {
		if errors.Is(err, control.ErrNotServed) {
			return nil
		}
		if err != nil {
			return err
		}
		switch e.Body.(type) {
		case boulder.StatusChanged, boulder.SubTaskDone, boulder.Parked, boulder.Unparked, boulder.Reopened,
			boulder.BlockerSettled, boulder.Decomposed, boulder.Replanned, boulder.TaskComplete:
			return nil
		}
	}
	return nil
}

// timeUp says how far it is when the time is up.
func (w *waiting) timeUp(after time.Duration) error {
	r := w.report
	if r.BoulderID == "" || r.Status == "" {
		return fmt.Errorf("%w: after %s nothing could be read", errTimeUp, after)
	}
	return fmt.Errorf("%w: after %s boulder %s is %s, %d/%d done", errTimeUp, after, r.BoulderID, r.Status, r.Completed,
		r.Total)
}
