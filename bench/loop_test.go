package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// BenchmarkLoop is a step by itself, for a profile: with the database; with a store that only encodes the records; and
// with one that does nothing, which leaves the loop. Its processor time and its allocations say more than the clock,
// which mostly shows the disk.
func BenchmarkLoop(b *testing.B) {
	stores := map[string]orchestrator.Store{"encoded": &forgetful{encodes: true}, "nothing": &forgetful{}}
	for _, kind := range []string{stepLoop, stepSessions, "encoded", "nothing"} {
		for _, shape := range []string{shapeChain, shapeFanOut} {
			for _, steps := range []int{stepsSome, stepsMany, stepsHuge} {
				b.Run(fmt.Sprintf("%s/%s/%d", kind, shape, steps), func(b *testing.B) {
					var live float64
					once := func() (err error) {
						if db := stores[kind]; db != nil {
							_, err = loopSteps(b.Context(), shape, steps, db, silent{}, func(int) {})
						} else {
							_, err = stepOnce(b.Context(), kind, shape, steps, filepath.Join(b.TempDir(), "steps.db"), &live)
						}
						return err
					}
					benchmarkSteps(b, steps, once)
				})
			}
		}
	}
}

func benchmarkSteps(b *testing.B, steps int, once func() error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	busy := processorTime()
	for b.Loop() {
		if err := once(); err != nil {
			b.Fatal(err)
		}
	}
	busy = processorTime() - busy
	runtime.ReadMemStats(&after)
	done := float64(b.N) * float64(steps)
	b.ReportMetric(float64(b.Elapsed().Microseconds())/done, "µs/step")
	b.ReportMetric(float64(busy.Microseconds())/done, "cpu-µs/step")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/done, "allocs/step")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/done, "B/step")
}

// forgetful is a store that keeps nothing: a boulder in it cannot be taken up again.
type forgetful struct {
	encodes bool   // every record, as a store must
	buffer  []byte // for that
}

func (s *forgetful) Commit(_ context.Context, c boulder.Changes) error {
	if !s.encodes {
		return nil
	}
	records := []any{&c.Boulder}
	for i := range c.SubTasks {
		records = append(records, &c.SubTasks[i])
	}
	for i := range c.Attempts {
		records = append(records, &c.Attempts[i])
	}
	for i := range c.Turns {
		records = append(records, &c.Turns[i])
	}
	for _, e := range c.Events {
		records = append(records, e)
	}
	s.buffer = s.buffer[:0]
	for _, record := range records {
		var err error
		if s.buffer, err = boulder.AppendJSON(s.buffer, record); err != nil {
			return err
		}
	}
	return nil
}

func (*forgetful) Load(context.Context, string) (boulder.Records, error) {
	return boulder.Records{}, errors.ErrUnsupported
}

// TestForgetful would fail if the benchmark without a disk did not do all of its steps.
func TestForgetful(t *testing.T) {
	t.Parallel()
	for _, db := range []*forgetful{{}, {encodes: true}} {
		if _, err := loopSteps(t.Context(), shapeDiamonds, 10, db, silent{}, func(int) {}); err != nil {
			t.Error(err)
		}
	}
}
