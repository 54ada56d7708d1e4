package orchestrator_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/store"
)

// instant is a runner whose sessions and turns take no time, and that reports what a real one does.
type instant struct{}

func (instant) Run(_ context.Context, job boulder.Job, report func(boulder.Body) error) (boulder.Evidence, error) {
	ref := job.Attempt.AttemptRef
	for _, b := range []boulder.Body{
		boulder.SubTaskStart{AttemptRef: ref, SessionID: "s"},
		boulder.TurnSent{AttemptRef: ref, Turn: job.Turn.Number, MessageID: "m"},
	} {
		if err := report(b); err != nil {
			return boulder.Evidence{}, err
		}
	}
	return boulder.Evidence{FinalMessage: "done"}, nil
}

// BenchmarkLoop is scheduler, loop and store without any agent: the cost of a sub-task must not grow with the plan. At
// 5,000 sub-tasks it must be at most 1.3 times what it is at 100. The store is on disk, so compare numbers of one run.
func BenchmarkLoop(b *testing.B) {
	shapes := map[string]func(n int) boulder.Plan{"chain": chain, "fan-out": fanOut}
	for _, shape := range []string{"chain", "fan-out"} {
		for _, n := range []int{100, 5000} {
			b.Run(fmt.Sprintf("%s/%d", shape, n), func(b *testing.B) {
				plan := shapes[shape](n)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for b.Loop() {
					runPlan(b, plan)
				}
				runtime.ReadMemStats(&after)
				done := float64(b.N) * float64(n)
				b.ReportMetric(float64(b.Elapsed().Microseconds())/done, "µs/sub-task")
				b.ReportMetric(float64(after.Mallocs-before.Mallocs)/done, "allocs/sub-task")
				b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/done, "B/sub-task")
			})
		}
	}
}

func runPlan(b *testing.B, plan boulder.Plan) {
	db, err := store.Open(filepath.Join(b.TempDir(), "manager.db"), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	o, err := orchestrator.New(orchestrator.Config{
		Project: "/project", Store: db, Runner: instant{}, Judge: judgeFunc(agrees),
	})
	if err != nil {
		b.Fatal(err)
	}
	for _, err := range o.Run(b.Context(), orchestrator.Request{Plan: &plan}) {
		if err != nil {
			b.Fatal(err)
		}
	}
}

func chain(n int) boulder.Plan {
	specs := make([]boulder.Spec, n)
	for i := range specs {
		specs[i] = spec(fmt.Sprintf("t%d", i))
		if i > 0 {
			specs[i].DependsOn = []string{specs[i-1].ID}
		}
	}
	return planOf(specs...)
}

func fanOut(n int) boulder.Plan {
	specs := make([]boulder.Spec, n)
	for i := range specs {
		specs[i] = spec(fmt.Sprintf("t%d", i))
		if i > 0 && i < n-1 {
			specs[i].DependsOn = []string{specs[0].ID}
		}
		if i == n-1 {
			for _, s := range specs[1 : n-1] {
				specs[i].DependsOn = append(specs[i].DependsOn, s.ID)
			}
		}
	}
	return planOf(specs...)
}
