package blockers

import (
	"context"
	"fmt"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

// SC-005, SC-008: what commands and calls of the tool do with 1,000 records, each with the opening and the closing of the
// database; recording, until it is on disk and in blockers.md.
func BenchmarkDesk(b *testing.B) {
	ctx := context.Background()
	const n = 1000
	for name, operation := range map[string]func(d *Desk, i int) error{
		"List":         func(d *Desk, _ int) error { _, err := d.List(ctx, Filter{}); return err },
		"List/session": func(d *Desk, _ int) error { _, err := d.List(ctx, Filter{SessionID: "ses_0"}); return err },
		"Get":          func(d *Desk, i int) error { _, err := d.Get(ctx, idOf(uint64(i%n+1))); return err },
		"Status":       func(d *Desk, _ int) error { _, err := d.Status(ctx); return err },
		"On":           func(d *Desk, _ int) error { d.On(scope); return nil },
		"Raise": func(d *Desk, i int) error {
			_, _, err := d.Raise(ctx, scope, softInput(fmt.Sprintf("Question %d?", i)))
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			d := newProject(b).desk(b, func(c *Config) { c.Max, c.Now = 1<<30, time.Now })
			err := d.with(ctx, making, func(tx *bolt.Tx) error { // they are in blockers.md already
				for i := range n {
					r := record{Blocker: raisedIn(fmt.Sprintf("ses_%d", i/50), i), Listed: boulder.BlockerPending}
					if err := d.add(tx, nil, &r); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
			for i := 0; b.Loop(); i++ {
				if err := operation(d, i); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func raisedIn(session string, i int) boulder.Blocker {
	in := softInput(fmt.Sprintf("Question %d?", i))
	return boulder.Blocker{
		SessionID: session, Category: boulder.BlockerQuestion, Question: in.Question, Context: in.Context, Options: in.Options,
		ChosenOption: in.ChosenOption, ChosenReasoning: in.ChosenReasoning, Status: boulder.BlockerPending, CreatedAt: epoch,
	}
}
