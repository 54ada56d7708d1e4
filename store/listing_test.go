package store

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// A list keeps the beginning of a long request, and shows the cut.
func TestLongTasksAreCutInLists(t *testing.T) {
	t.Parallel()
	for task, want := range map[string]string{
		"": "", "short": "short", strings.Repeat("ü", 1000): strings.Repeat("ü", 1000),
		strings.Repeat("ü", 1001): strings.Repeat("ü", 999) + "…",
	} {
		if got := shown(&boulder.Boulder{Task: task}).Task; got != want {
			t.Errorf("%d bytes are listed as %.20q… with %d", len(task), got, len(got))
		}
	}
}

// The active boulder is what was begun or taken up last, and is what is meant where none is named, unless it is archived.
func TestActive(t *testing.T) {
	t.Parallel()
	db := openTemp(t)
	expect := func(when, active, meant, unfinished string) {
		t.Helper()
		got := ""
		all, _ := db.Listing(t.Context())
		for _, item := range all {
			if item.Active {
				got = item.BoulderID
			}
		}
		byDefault, _ := db.Resolve(t.Context(), "")
		next, _ := db.NewestUnfinished(t.Context())
		if got != active || byDefault != meant || next != unfinished {
			t.Errorf("%s: active is %q, meant is %q, to go on with is %q", when, got, byDefault, next)
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
	expect("begun last, though dated earlier", "old", "old", "old")
	apply(fresh, boulder.StatusChanged{Status: boulder.Paused})
	expect("another one changed without being taken up", "old", "old", "old")
	apply(fresh, boulder.TakenUp{})
	expect("taken up", "new", "new", "new")
	apply(fresh, boulder.StatusChanged{Status: boulder.Cancelled})
	expect("over", "new", "new", "old")
	apply(fresh, boulder.Archived{Archived: true})
	expect("archived", "new", "old", "old")
	apply(fresh, boulder.Archived{})
	expect("back", "new", "new", "old")
	apply(old, boulder.StatusChanged{Status: boulder.Cancelled})
	apply(old, boulder.Archived{Archived: true})
	apply(fresh, boulder.Archived{Archived: true})
	expect("all archived", "new", "", "")
	if _, err := db.Resolve(t.Context(), ""); !errors.Is(err, boulder.ErrNotFound) || !strings.Contains(err.Error(), "archived") {
		t.Errorf("%v", err)
	}
	if id, err := db.Resolve(t.Context(), "old"); id != "old" || err != nil { // by its name it is found all the same
		t.Errorf("%q, %v", id, err)
	}
	all, err := db.Listing(t.Context())
	if len(all) != 2 || err != nil {
		t.Errorf("%d boulders, %v", len(all), err)
	}
}
