package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

// steerOptions are those of the commands that tell a boulder something.
type steerOptions struct{ boulder string }

func (a *app) steerFlags(cmd *cobra.Command, o *steerOptions) {
	cmd.Flags().StringVarP(&o.boulder, "boulder", "b", "",
		"the `BOULDER` that is meant (default: the one that is at work, or the newest unfinished one)")
	_ = cmd.RegisterFlagCompletionFunc("boulder", a.completeBoulder(false)) // fails only for a flag that is not there
}

// completeSubTaskOf offers the sub-tasks of the boulder that the flag names, for the first argument.
func (a *app) completeSubTaskOf(o *steerOptions) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		r, closeReader, err := a.openReader(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer closeReader()
		return completeSubTasks(cmd.Context(), r, o.boulder), cobra.ShellCompDirectiveNoFileComp
	}
}

// oneSubTask takes exactly one argument.
func oneSubTask(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("%s takes one SUBTASK, not %d arguments: `manager status` lists them", cmd.CommandPath(), len(args))
	}
	return nil
}

// steer has an order carried out and tells what follows from it. The checks may refuse it.
func (a *app) steer(ctx context.Context, ref string, o boulder.Order, checks ...func(store.Detail) error) error {
	if err := o.Validate(); err != nil {
		return &project.UsageError{Err: err}
	}
	report, err := a.order(ctx, ref, o, checks)
	for giveUp := time.Now().Add(project.BeginWait); errors.Is(err, control.ErrNotReady) && time.Now().Before(giveUp); {
		select { // OpenCode is starting there, or a person is being asked about the plan
		case <-time.After(project.Step):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		report, err = a.order(ctx, ref, o, checks)
	}
	for range 2 { // the process that took orders has ended since: now the database does, or the next process
		if !errors.Is(err, control.ErrNotServed) || errors.Is(err, control.ErrUnanswered) {
			break
		}
		report, err = a.order(ctx, ref, o, checks)
	}
	if err != nil {
		return refusal(err)
	}
	if a.json {
		return a.printJSON(report)
	}
	a.tell(report.Text())
	return nil
}

// tell prints a sentence on stdout: broken between words on a terminal, and one line elsewhere.
func (a *app) tell(s string) {
	if terminal(a.Stdout) {
		s = text.Wrap(s, a.on(a.Stdout).Width()-1)
	}
	fmt.Fprintln(a.Stdout, s)
}

// order hands an order in, once.
func (a *app) order(
	ctx context.Context, ref string, o boulder.Order, checks []func(store.Detail) error,
) (*view.Order, error) {
	d, err := a.openDesk(ctx)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	id, err := d.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	before, err := d.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := makesSense(ctx, d, before, o); err != nil {
		return nil, err
	}
	for _, check := range checks {
		if err := check(before); err != nil {
			return nil, err
		}
	}
	if o.SubTaskID != "" {
		t, _ := findSubTask(before, o.SubTaskID) // it is there
		o.SubTaskID = t.ID
	}
	if err := d.Orders.Order(ctx, id, o); err != nil {
		return nil, err
	}
	after, err := d.Get(ctx, id)
	if errors.Is(err, control.ErrNotServed) { // a cancel ends the process as well
		r, closeReader, openErr := a.openReader(ctx)
		if openErr != nil {
			return nil, fmt.Errorf("the order was carried out, but what came of it cannot be read: %w", openErr)
		}
		after, err = r.Get(ctx, id)
		closeReader()
		d.Holder = nil
	}
	if err != nil {
		return nil, fmt.Errorf("the order was carried out, but what came of it cannot be read: %w", err)
	}
	return view.NewOrder(before, after, d.Holder, o), nil
}

// makesSense refuses what can only be a slip, and says what was probably meant.
func makesSense(ctx context.Context, r reader, d store.Detail, o boulder.Order) error {
	b := d.Boulder
	switch {
	case b.Status.Terminal():
		return usagef("boulder %s is %s: there is nothing left to %s", b.ID, b.Status, o.Do)
	case o.SubTaskID == "":
		return nil
	}
	_, err := findSubTask(d, o.SubTaskID)
	if other, resolveErr := r.Resolve(ctx, o.SubTaskID); err != nil && resolveErr == nil && o.Do == boulder.OrderCancel {
		return usagef("%q is a boulder, not a sub-task: end it with `manager cancel -b %s`", o.SubTaskID, other)
	}
	return err
}

// subTaskNumber is what views call a sub-task: [2/3], or its number alone.
var subTaskNumber = regexp.MustCompile(`^(\[[0-9]+(/[0-9]+)?\]|[1-9][0-9]{0,3})$`)

// subTaskPlace is the place in the plan, from 1, that a user means with a number.
func subTaskPlace(ref string) (n int, ok bool) {
	if !subTaskNumber.MatchString(ref) {
		return 0, false
	}
	number, _, _ := strings.Cut(strings.Trim(ref, "[]"), "/")
	n, _ = strconv.Atoi(number) // 0 if it is too large for any plan
	return n, n > 0
}

// findSubTask is the sub-task that a user names: by its id, or by its number, which views show as [2/3].
func findSubTask(d store.Detail, ref string) (*boulder.SubTask, error) {
	n, _ := subTaskPlace(ref)
	var numbered *boulder.SubTask
	var ids []string
	for i := range d.SubTasks {
		t := &d.SubTasks[i]
		if t.ID == ref {
			return t, nil
		}
		if n > 0 && t.Position == n {
			numbered = t
		}
		ids = append(ids, t.ID)
	}
	if numbered != nil {
		return numbered, nil
	}
	if near := text.Nearest(ref, ids); near != "" {
		return nil, usagef("boulder %s has no sub-task %q: did you mean %q?", d.Boulder.ID, ref, near)
	}
	return nil, usagef("boulder %s has no sub-task %q: it has %s", d.Boulder.ID, ref,
		text.Clip(cmp.Or(strings.Join(ids, ", "), "none yet"), 400))
}

// refusal says an order that cannot be carried out in words for people.
func refusal(err error) error {
	if !errors.Is(err, boulder.ErrRefused) {
		return err
	}
	_, why, ok := strings.Cut(err.Error(), boulder.ErrRefused.Error()+": ")
	if !ok {
		return err
	}
	return &refusedError{why, err}
}

// refusedError is an order that cannot be carried out as things are.
type refusedError struct {
	why string
	err error
}

func (e *refusedError) Error() string { return e.why }
func (e *refusedError) Unwrap() error { return e.err }
