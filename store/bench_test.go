package store

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// A commit must cost the same in a plan of 100 as in one of 5,000. Each one here changes a sub-task, its attempt and
// turn, and logs two events. ns/op is nearly all fdatasync; B/op and allocs/op show the store's own share.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{100, 5000} {
		b.Run(fmt.Sprintf("plan=%d", n), func(b *testing.B) {
			db := openAt(b, filepath.Join(b.TempDir(), FileName))
			w := bigWorld(b, db, n)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				r := ref(fmt.Sprintf("task-%d", i*7919%n), 1)
				i++
				w.must(b, boulder.SubTaskProgress{
					AttemptRef: r, Activity: "edit", Checkpoint: &boulder.Checkpoint{File: "a.go", Line: i, At: w.now},
				})
				w.must(b, boulder.UsageReport{SubTaskID: r.SubTaskID, Attempt: 1, Usage: boulder.Usage{Calls: 1}})
				w.commit(b, db)
			}
			if info, err := os.Stat(db.path); err == nil {
				b.ReportMetric(float64(info.Size())/1e6, "MB-file")
			}
		})
	}
}

// bigWorld is a boulder of n independent sub-tasks, all started.
func bigWorld(b *testing.B, db *DB, n int) *world {
	specs := make([]boulder.Spec, n)
	for i := range specs {
		specs[i] = spec(fmt.Sprintf("task-%d", i))
	}
	w := newWorld(b, "id", epoch, specs...)
	w.commit(b, db)
	for i := range specs {
		w.start(b, ref(specs[i].ID, 1))
	}
	w.commit(b, db)
	return w
}

func BenchmarkList(b *testing.B) {
	db := openAt(b, filepath.Join(b.TempDir(), FileName))
	for i := range 1000 {
		c, _ := newWorld(b, fmt.Sprintf("b%d", i), epoch).TakeChanges()
		if err := db.Commit(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if all, err := db.List(b.Context()); len(all) != 1000 || err != nil {
			b.Fatal(len(all), err)
		}
	}
}
