package blockers

import (
	"fmt"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

// What commands and calls of the tool do with 1,000 records, each with the opening and the closing of the
// database; recording, until it is on disk and in blockers.md.
func BenchmarkDesk(b *testing.B) {
	const n = 1000
	for name, operation := range map[string]func(d *Desk, i int) error{
		"List":   func(d *Desk, _ int) error { _, err := d.List(b.Context(), Filter{}); return err },
		"Get":    func(d *Desk, i int) error { _, err := d.Get(b.Context(), idOf(uint64(i%n+1))); return err },
		"Status": func(d *Desk, _ int) error { _, err := d.Status(b.Context()); return err },
		"On":     func(d *Desk, _ int) error { d.On(scope); return nil },
		"Raise": func(d *Desk, i int) error {
			_, err := d.Raise(b.Context(), scope, softInput(fmt.Sprintf("Question %d?", i)))
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			d := newProject(b).desk(b, func(c *Config) { c.Max, c.Now = 1<<30, time.Now })
			check(b, d.with(b.Context(), making, func(tx *bolt.Tx) error { // they are in blockers.md already
				for i := range n {
					r := record{Listed: boulder.BlockerPending, Blocker: boulder.Blocker{
						BlockerScope: boulder.BlockerScope{SessionID: fmt.Sprintf("ses_%d", i/50)},
						Question:     fmt.Sprintf("Question %d?", i), Context: "It is a detail.",
						Options: []string{"first", "second", "third"}, Status: boulder.BlockerPending, CreatedAt: epoch,
					}}
					if err := d.add(tx, nil, &r); err != nil {
						return err
					}
				}
				return nil
			}))
			for i := 0; b.Loop(); i++ {
				check(b, operation(d, i))
			}
		})
	}
}
