package store

import (
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

func TestLongTasksAreCutInLists(t *testing.T) {
	t.Parallel()
	for task, want := range map[string]string{
		"": "", "short": "short", strings.Repeat("ü", 1000): strings.Repeat("ü", 1000),
		strings.Repeat("ü", 1001): strings.Repeat("ü", 999) + "…",
	} {
		if got := itemOf(&boulder.Boulder{Task: task}).Task; got != want {
			t.Errorf("%d bytes are listed as %.20q… with %d", len(task), got, len(got))
		}
	}
}

// TestActive: the active boulder is the one most recently created or taken up.
func TestActive(t *testing.T) {
	t.Parallel()
	db := openTemp(t)
	expect := func(when, active string) {
		t.Helper()
		all, err := db.Listing(t.Context())
		for _, item := range all {
			if item.Active != (item.BoulderID == active) || err != nil {
				t.Errorf("%s: %+v, %v", when, item, err)
			}
		}
	}
	apply := func(w *world, body boulder.Body) {
		t.Helper()
		w.must(t, body)
		w.commit(t, db)
	}
	old, fresh := newWorld(t, "old", epoch), newWorld(t, "new", epoch.Add(time.Hour))
	fresh.commit(t, db)
	old.commit(t, db)
	expect("begun last, though dated earlier", "old")
	apply(fresh, boulder.StatusChanged{Status: boulder.Paused})
	expect("another one changed without being taken up", "old")
	apply(fresh, boulder.Resumed{})
	expect("taken up", "new")
	apply(fresh, boulder.StatusChanged{Status: boulder.Cancelled})
	expect("over", "new")
	apply(fresh, boulder.Archived{Archived: true})
	expect("archived", "new")
}
