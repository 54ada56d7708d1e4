package blockers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

// SC-008: one blocker, until the tool is answered: on disk, and in blockers.md. The slowest is given as well.
func BenchmarkRaise(b *testing.B) {
	for _, already := range []int{0, 1000} {
		b.Run(fmt.Sprintf("behind=%d", already), func(b *testing.B) {
			p := newProject(b)
			d := p.desk(b, func(c *Config) { c.Max, c.Now = 1<<30, time.Now })
			fill(b, p, d, already)
			var took []time.Duration
			n := 0
			for b.Loop() {
				began := time.Now()
				at := scope
				at.SessionID = fmt.Sprintf("ses_%d", n/50)
				if _, _, err := d.Raise(context.Background(), at, softInput(fmt.Sprintf("Question %d?", n))); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
				n++
			}
			b.ReportMetric(float64(slices.Max(took).Microseconds())/1000, "ms-slowest")
		})
	}
}

// SC-005: what commands do, at 50 and 1,000 records, each with the opening and the closing of the database.
func BenchmarkDesk(b *testing.B) {
	ctx := context.Background()
	for _, n := range []int{50, 1000} {
		for name, operation := range map[string]func(d *Desk, i int) error{
			"List": func(d *Desk, _ int) error { _, err := d.List(ctx, Filter{}); return err },
			"List/session": func(d *Desk, _ int) error {
				_, err := d.List(ctx, Filter{SessionID: "ses_0"})
				return err
			},
			"Get":    func(d *Desk, i int) error { _, err := d.Get(ctx, idOf(uint64(i%n+1))); return err },
			"Status": func(d *Desk, _ int) error { _, err := d.Status(ctx); return err },
			"On":     func(d *Desk, _ int) error { d.On(scope); return nil },
			"Settle": func(d *Desk, i int) error {
				_, err := d.Settle(ctx, idOf(uint64(i%n+1)), Settlement{Status: boulder.BlockerAnswered, Answer: "Yes."})
				return err
			},
		} {
			b.Run(fmt.Sprintf("%s/records=%d", name, n), func(b *testing.B) {
				p := newProject(b)
				d := p.desk(b, func(c *Config) { c.Now = time.Now })
				fill(b, p, d, n)
				i := 0
				for b.Loop() {
					if i > 0 && i%n == 0 && name == "Settle" { // all are settled
						b.StopTimer()
						p.clock.pass(time.Hour)
						if err := os.RemoveAll(filepath.Dir(p.config().Path)); err != nil {
							b.Fatal(err)
						}
						fill(b, p, d, n)
						b.StartTimer()
					}
					if err := operation(d, i); err != nil {
						b.Fatal(err)
					}
					i++
				}
			})
		}
	}
}

// fill makes records with 50 to a session, which are all in blockers.md.
func fill(b *testing.B, p *project, d *Desk, n int) {
	b.Helper()
	if n == 0 {
		return
	}
	err := d.with(context.Background(), making, func(tx *bolt.Tx) error {
		for i := range n {
			r := record{Blocker: boulder.Blocker{
				SessionID: fmt.Sprintf("ses_%d", i/50), BoulderID: "01J", SubTaskID: "api", Attempt: i/50 + 1,
				Category: boulder.BlockerQuestion, Question: fmt.Sprintf("Question %d?", i), Hard: i%2 == 0,
				Context: "Some lines about what is known, what was found out, and what follows from each of the answers that there are.",
				Options: []string{"first", "second", "third"}, ChosenOption: "second", ChosenReasoning: "It is the middle.",
				Status: boulder.BlockerPending, CreatedAt: p.clock.now(),
			}, Listed: boulder.BlockerPending}
			if err := d.add(tx, nil, &r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}
