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

func (a *app) newWaitCmd() *cobra.Command {
	w := waitReport{Type: "wait", Blocked: []string{}}
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait [flags] [BOULDER]",
		Short: "Wait until a boulder is over or needs you",
		Long: `Waits for a boulder (default: the one that is at work, or the newest unfinished one, or the newest), whether a process
runs it or one has still to come, and says how it is then.

  --for done      until it is over
  --for blocked   until a sub-task is blocked, or the boulder waits for a person

Exit codes: 0 what was waited for has come, and with "done" every sub-task is completed · 1 the time is up, or with
"blocked" the boulder is over and nothing was · 3 it is over, but some sub-tasks failed, or a gate is red · 4 waiting for
"done": it is paused or waits for a person, so that it will not be done by itself · 130 it was cancelled, or Ctrl-C.`,
		Example: `  manager wait && git push
  manager wait --for blocked --timeout 8h; notify-send "manager" "$(manager status)"`,
		Args:              takes(0, 1, "one BOULDER"),
		ValidArgsFunction: a.completion(1, boulders),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runWait(cmd.Context(), &w, timeout, newestOr(args))
		},
	}
	cmd.Flags().StringVar(&w.For, "for", waitDone, "`STATE` to wait for: done or blocked")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after `TIME`, as 30m; 0: never")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(
		[]cobra.Completion{waitDone, waitBlocked}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// errTimeUp ends a wait.
var errTimeUp = errors.New("the time is up")

func (a *app) runWait(ctx context.Context, w *waitReport, timeout time.Duration, ref string) error {
	switch {
	case w.For != waitDone && w.For != waitBlocked:
		return usagef("--for takes done or blocked, not %q", w.For)
	case timeout < 0:
		return usagef("--timeout takes a time that is not below zero, not %s", timeout)
	case timeout > 0:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errTimeUp)
		defer cancel()
	}
	err := a.wait(ctx, w, ref)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, errTimeUp) {
		how := "nothing could be read"
		if w.Status != "" {
			how = fmt.Sprintf("boulder %s is %s, %d/%d done", w.BoulderID, w.Status, w.Completed, w.Total)
		}
		err = fmt.Errorf("%w: after %s %s", errTimeUp, timeout, how)
	}
	switch {
	case w.BoulderID == "" || errors.Is(err, errInterrupted):
	case a.json:
		err = errors.Join(a.printJSON(w), err)
	case err == nil:
		a.tell(fmt.Sprintf("Boulder %s is %s, %d/%d done.%s", w.BoulderID,
			morning.Stated(string(w.Status), text.OneLine(w.Reason)), w.Completed, w.Total,
			text.If(len(w.Blocked) > 0, " Blocked: "+view.Listed(w.Blocked)+".")))
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

// waitPoll is how long to wait before the next look.
const waitPoll = 500 * time.Millisecond

// wait looks until it has an answer: nil if what is waited for has come.
func (a *app) wait(ctx context.Context, w *waitReport, ref string) error {
	told := false
	for range project.Tries(ctx, waitPoll, 0) {
		arrived, err := a.lookOnce(ctx, w, ref)
		switch {
		case arrived:
			return nil
		case errors.Is(err, store.ErrHeld):
			if !told && ctx.Err() == nil {
				a.note("Another process holds the state and does not answer; waiting for it.")
			}
			told = true
		case err != nil && !errors.Is(err, control.ErrNotServed) && !errors.Is(err, control.ErrNotReady):
			return err
		}
	}
	return context.Cause(ctx)
}

// lookOnce reads the boulder, and closes what it read from: no run can start while the database is open.
func (a *app) lookOnce(ctx context.Context, w *waitReport, ref string) (arrived bool, err error) {
	r, closeReader, err := a.openReader(ctx)
	if err != nil {
		return false, err
	}
	defer closeReader()
	holder := control.HolderOf(ctx, r)
	if w.BoulderID == "" {
		if ref, err = project.Meant(holder, ref); err == nil && ref == "" {
			ref, _ = project.Unfinished(ctx, r, "") // else the newest
		}
		if err == nil {
			w.BoulderID, err = project.Resolve(ctx, r, ref)
		}
		if err != nil {
			return false, err
		}
	}
	d, err := r.Get(ctx, w.BoulderID)
	if d.Boulder.ID == "" {
		return false, err
	}
	return w.judge(d, holder) // what could not be read is not needed
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
	switch {
	case r.For == waitBlocked && (len(r.Blocked) > 0 || stands):
		return true, nil
	case r.For == waitBlocked && b.Status.Terminal():
		return false, fmt.Errorf("boulder %s is %s, and nothing in it was blocked", b.ID, b.Status)
	case r.For == waitBlocked:
		return false, nil
	case b.Status == boulder.Completed:
		return true, nil
	case b.Status == boulder.Cancelled:
		return false, fmt.Errorf("boulder %s: %w", b.ID, orchestrator.ErrCancelled)
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
	return text.If(awaiting, "answer with: "+view.ClarifyHint+"; then ") + "continue with: "
}
