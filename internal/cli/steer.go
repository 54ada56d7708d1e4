package cli

import (
	"context"
	"errors"
	"fmt"

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
	_ = cmd.RegisterFlagCompletionFunc("boulder", a.completion(many, boulders)) // fails only for a flag that is not there
}

// atDesk calls do with whoever takes orders. It may be called again, if that process ends meanwhile.
func (a *app) atDesk(ctx context.Context, do func(*project.Desk) error) error {
	p, err := a.openAnyway()
	if err != nil {
		return err
	}
	return p.Steer(ctx, do)
}

// steer has an order carried out and tells what follows from it. check, if there is one, may refuse it.
func (a *app) steer(ctx context.Context, ref string, o boulder.Order, check func(store.Detail) error) error {
	if err := o.Validate(); err != nil {
		return &project.UsageError{Err: err}
	}
	var report *view.Order
	err := a.atDesk(ctx, func(d *project.Desk) error {
		before, err := toSteer(ctx, d, ref, &o)
		if err == nil && check != nil {
			err = check(before)
		}
		if err == nil {
			err = d.Orders.Order(ctx, before.Boulder.ID, o)
		}
		if err != nil {
			return err
		}
		after, err := d.Get(ctx, before.Boulder.ID)
		if errors.Is(err, control.ErrNotServed) { // a cancel ends the process as well
			d.Holder = nil
			_, err = read(ctx, a, before.Boulder.ID, func(_ reader, now store.Detail) (*view.Order, error) {
				after = now
				return nil, nil
			})
		}
		if err != nil {
			return fmt.Errorf("the order was carried out, but what came of it cannot be read: %w", err)
		}
		report = view.NewOrder(before, after, d.Holder, o)
		return nil
	})
	switch {
	case err != nil:
	case a.json:
		err = a.printJSON(report)
	default:
		a.tell(report.Text())
	}
	return err
}

// tell prints a sentence on stdout: broken between words on a terminal, and one line elsewhere.
func (a *app) tell(s string) {
	if terminal(a.Stdout) {
		s = text.Wrap(s, a.on(a.Stdout).Width()-1)
	}
	fmt.Fprintln(a.Stdout, s)
}

// toSteer reads the boulder that an order is for, and puts the id of its sub-task into the order. It refuses what can only
// be a slip, and says what was probably meant.
func toSteer(ctx context.Context, r *project.Desk, ref string, o *boulder.Order) (store.Detail, error) {
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
	t, err := findSubTask(d, o.SubTaskID)
	if err == nil {
		o.SubTaskID = t.ID
		return d, nil
	}
	if other, resolveErr := r.Resolve(ctx, o.SubTaskID); resolveErr == nil && o.Do == boulder.OrderCancel {
		err = usagef("%q is a boulder, not a sub-task: end it with `manager cancel -b %s`", o.SubTaskID, other)
	}
	return d, err
}
