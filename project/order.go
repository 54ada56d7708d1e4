package project

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
)

// Ordered is an order that was carried out, with the boulder before and after it.
type Ordered struct {
	boulder.Order
	Before, After boulder.Snapshot
	Holder        *control.Holder // who carried it out; nil: no process runs it, or it has ended with the boulder
}

// Order has an order carried out by whoever has the state. find reads the boulder that is meant, and may refuse the order; it is
// called again where that process has just ended.
func (p *Project) Order(
	ctx context.Context, find func(*Desk) (boulder.Snapshot, boulder.Order, error),
) (done *Ordered, err error) {
	err = p.Steer(ctx, func(d *Desk) (err error) {
		done = &Ordered{Holder: d.Holder}
		if done.Before, done.Order, err = find(d); err != nil {
			return err
		}
		id := done.Before.Boulder.ID
		if err := d.Orders.Order(ctx, id, done.Order); err != nil {
			return err
		}
		done.After, err = d.Get(ctx, id)
		if errors.Is(err, control.ErrNotServed) { // a cancel ends the process as well
			done.Holder = nil
			var there *Desk
			if there, err = p.Read(ctx); err == nil {
				done.After, err = there.Get(ctx, id)
				there.Close()
			}
		}
		if err != nil {
			return fmt.Errorf("the order was carried out, but what came of it cannot be read: %w", err)
		}
		return nil
	})
	return done, err
}

// Message is an error as the user reads it: of what was refused only why.
func Message(err error) string {
	said := strings.TrimRight(err.Error(), "\n")
	if _, why, refused := strings.Cut(said, boulder.ErrRefused.Error()+": "); refused {
		return why
	}
	return said
}
