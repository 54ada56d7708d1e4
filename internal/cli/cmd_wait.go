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
	w := &waitReport{Type: "wait", For: o.what, Blocked: []string{}}
	err := a.wait(ctx, w, ref)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, errTimeUp) {
		how := "nothing could be read"
		if w.Status != "" {
			how = fmt.Sprintf("boulder %s is %s, %d/%d done", w.BoulderID, w.Status, w.Completed, w.Total)
		}
		err = fmt.Errorf("%w: after %s %s", errTimeUp, o.timeout, how)
	}
	switch {
	case w.BoulderID == "" || errors.Is(err, errInterrupted):
	case a.json:
		err = errors.Join(a.printJSON(w), err)
	case err == nil:
		a.tell(w.text())
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

// waitPoll is how long to wait before the next look where no process tells what happens.
const waitPoll = time.Second

// wait looks until it has an answer: nil if what is waited for has come.
func (a *app) wait(ctx context.Context, w *waitReport, ref string) error {
	for told := false; ; {
		arrived, err := a.lookOnce(ctx, w, ref)
		held := errors.Is(err, store.ErrHeld)
		if arrived || err != nil && !held && !errors.Is(err, control.ErrNotServed) {
			return err
		}
		if held && !told && ctx.Err() == nil {
			told = true
			a.note("Another process holds the state and does not answer; waiting for it.")
		}
		if err != nil {
			if err := project.Rest(ctx, waitPoll); err != nil {
				return err
			}
		}
	}
}

// lookOnce reads the boulder. If there is no answer yet it returns when it is time to look again.
func (a *app) lookOnce(ctx context.Context, w *waitReport, ref string) (arrived bool, err error) {
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return false, err
	}
	defer closeReader()
	holder := control.HolderOf(ctx, r)
	if w.BoulderID == "" {
		ref, err = project.Meant(holder, ref)
		if err == nil {
			w.BoulderID, err = newestFirst(ctx, r, ref)
		}
		if err != nil && !errors.Is(err, control.ErrNotReady) { // it has not begun it yet
			return false, err
		}
	}
	client, served := r.(*control.Client)
	if w.BoulderID == "" {
		closeReader() // no run can start while it is open
		return false, project.Rest(ctx, waitPoll)
	}
	d, err := r.Get(ctx, w.BoulderID)
	if !served {
		closeReader()
	}
	if d.Boulder.ID == "" {
		return false, err
	}
	if arrived, err := w.judge(d, holder); arrived || err != nil { // what could not be read is not needed
		return arrived, err
	}
	if !served || holder.Beginning() {
		return false, project.Rest(ctx, waitPoll)
	}
	return false, untilNews(ctx, client, d.Boulder)
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
func (r *waitReport) judge(d store.Detail, holder *control.Holder) (arrived bool, err error) {
	b := d.Boulder
	r.Status, r.Reason, r.Blocked = b.Status, b.Reason, []string{}
	r.Completed, r.Total = b.Tally.Completed, b.Tally.Planned
	for _, t := range d.SubTasks {
		if t.Status == boulder.SubTaskBlocked {
			r.Blocked = append(r.Blocked, t.ID)
		}
	}
	// A process that does not say yet what it runs may be about to go on with it, and one that has made a plan may be about
	// to go ahead without asking.
	stands := b.Status == boulder.Paused && (holder == nil || !holder.Beginning()) ||
		b.Status == boulder.AwaitingApproval && !holder.Runs(b)
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
