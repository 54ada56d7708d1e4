package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

// boulderFlag adds --boulder.
func (a *app) boulderFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVarP(to, "boulder", "b", "",
		"the `BOULDER` that is meant (default: the one that is at work, or the newest unfinished one)")
	_ = cmd.RegisterFlagCompletionFunc("boulder", a.completeBoulder(false)) // fails only for a flag that is not there
}

// steer has an order carried out and tells what follows from it. The checks may refuse it.
func (a *app) steer(ctx context.Context, ref string, o boulder.Order, checks ...func(store.Detail) error) error {
	if err := o.Validate(); err != nil {
		return &project.UsageError{Err: err}
	}
	p, err := a.openAnyway()
	if err != nil {
		return err
	}
	var report *view.Order
	err = p.Steer(ctx, func(d *project.Desk) (err error) {
		report, err = a.order(ctx, d, ref, o, checks)
		return err
	})
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
	ctx context.Context, d *project.Desk, ref string, o boulder.Order, checks []func(store.Detail) error,
) (*view.Order, error) {
	before, err := a.toSteer(ctx, d, ref, o)
	if err != nil {
		return nil, err
	}
	id := before.Boulder.ID
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

// toSteer reads the boulder that an order is for. It refuses what can only be a slip, and says what was probably meant.
func (a *app) toSteer(ctx context.Context, r *project.Desk, ref string, o boulder.Order) (store.Detail, error) {
	id, err := r.Find(ctx, ref)
	if err != nil {
		return store.Detail{}, err
	}
	d, err := r.Get(ctx, id)
	switch {
	case err != nil:
		return d, err
	case d.Boulder.Status.Terminal():
		return d, usagef("boulder %s is %s: there is nothing left to %s", id, d.Boulder.Status, o.Do)
	case o.SubTaskID == "":
		return d, nil
	}
	_, err = findSubTask(d, o.SubTaskID)
	if other, resolveErr := r.Resolve(ctx, o.SubTaskID); err != nil && resolveErr == nil && o.Do == boulder.OrderCancel {
		return d, usagef("%q is a boulder, not a sub-task: end it with `manager cancel -b %s`", o.SubTaskID, other)
	}
	return d, err
}

// refusal says an order that cannot be carried out in words for people.
func refusal(err error) error {
	if _, why, ok := strings.Cut(err.Error(), boulder.ErrRefused.Error()+": "); ok && errors.Is(err, boulder.ErrRefused) {
		return &refusedError{why, err}
	}
	return err
}

// refusedError is an order that cannot be carried out as things are.
type refusedError struct {
	why string
	err error
}

func (e *refusedError) Error() string { return e.why }
func (e *refusedError) Unwrap() error { return e.err }
