package ui_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/golden/sample"
	"github.com/bouldermgr/manager/store"
)

// large is a project of n boulders, and one of so many sub-tasks that were all worked on.
func large(b *testing.B, n, subTasks int) (dir, id string) {
	dir = b.TempDir()
	var all []*sample.Boulder
	for i := range n {
		all = append(all, sample.New(b, fmt.Sprintf("01k3%06d", i)))
	}
	wide := sample.New(b, "01k4large")
	plan := boulder.Plan{Version: 1, Task: "Much", Model: "test/small"}
	for i := range subTasks {
		spec := boulder.Spec{ID: fmt.Sprintf("part-%d", i), Subject: fmt.Sprintf("Do part %d of it", i), Description: "Do it.", Gates: []string{"go test ./..."}}
		if i >= 10 {
			spec.DependsOn = []string{fmt.Sprintf("part-%d", i-10), fmt.Sprintf("part-%d", (i/10-1)*10+(i+3)%10)}
		}
		plan.SubTasks = append(plan.SubTasks, spec)
	}
	rev := boulder.PlanRevision{Number: 1, Plan: plan, Hash: "abcdef", Origin: boulder.OriginModel, AdoptedAt: wide.Now}
	wide.Apply(boulder.Planned{Revision: 1, Origin: boulder.OriginModel, Plan: rev})
	adopted := boulder.Decomposed{Revision: 1, Origin: boulder.OriginModel, Plan: rev, GatesApproved: true}
	for _, t := range plan.SubTasks {
		adopted.SubTasks = append(adopted.SubTasks, boulder.PlannedIn{ID: t.ID, Subject: t.Subject, DependsOn: t.DependsOn})
	}
	wide.Apply(adopted)
	gate := boulder.Gate{Command: "go test ./...", Output: "ok", Duration: time.Second}
	for _, t := range plan.SubTasks {
		ref := boulder.AttemptRef{SubTaskID: t.ID, Attempt: 1}
		wide.Start(ref)
		for range 10 {
			wide.Apply(boulder.SubTaskProgress{AttemptRef: ref, Activity: "edit a.go"})
		}
		wide.End(ref, 1, &gate, boulder.Verdict{Completed: true, Summary: "it is done"})
		wide.Apply(boulder.SubTaskDone{AttemptRef: ref, Completed: true, Summary: "it is done", Status: boulder.SubTaskCompleted,
			AttemptStatus: boulder.AttemptCompleted})
	}
	storeIn(b, dir, append(all, wide)...)
	return dir, wide.ID
}

// How long a page takes with 1,000 boulders and 500 sub-tasks, beside the reading alone that every command does. The figure that
// is meant is the time of an iteration: below 100 ms, of a page that was looked at before.
func BenchmarkPage(b *testing.B) {
	dir, id := large(b, 1_000, 500)
	inside := enter(b, site(b, dir, ""))
	b.Run("reading", func(b *testing.B) {
		for b.Loop() {
			db, err := store.Open(filepath.Join(dir, store.DirName, store.FileName), store.Options{ReadOnly: true})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := db.Get(b.Context(), id); err != nil {
				b.Fatal(err)
			}
			if _, err := db.Events(b.Context(), id, 0, 0); err != nil {
				b.Fatal(err)
			}
			db.Close()
		}
	})
	b.Run("boulder, for the first time", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			first := enter(b, site(b, dir, ""))
			b.StartTimer()
			first.get("/b/" + id)
		}
	})
	for name, path := range map[string]string{
		"needs": "/", "list": "/boulders", "boulder": "/b/" + id, "task": "/b/" + id + "/t/part-400", "report": "/b/" + id + "/report",
	} {
		b.Run(name, func(b *testing.B) {
			size := 0
			for b.Loop() {
				w := inside.do("GET", path, nil, func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip") })
				if w.Code != http.StatusOK {
					b.Fatal(w.Code)
				}
				size = w.Body.Len()
			}
			b.ReportMetric(float64(size)/1000, "kB")
		})
	}
}
