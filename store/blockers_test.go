package store

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// raise commits a blocker, and returns its id.
func (w *world) raise(t tb, db *DB, id string) string {
	t.Helper()
	w.must(t, raisedAs(id))
	w.commit(t, db)
	return id
}

func raisedAs(id string) boulder.BlockerRaised {
	at := boulder.BlockerScope{SubTaskID: "a", Attempt: 1}
	return boulder.BlockerRaised{AttemptRef: ref("a", 1), Blocker: boulder.Blocker{
		ID: id, BlockerScope: at, Question: "Which?", Status: boulder.BlockerPending,
	}}
}

// Every blocker that is stored has a number of its own, whatever the boulder, and whichever processes died between the
// number and the commit. Numbers of ids that came with an import are not given again, nor reserved ones.
func TestBlockerIDs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(scratch(t), FileName)
	open := func() *DB {
		db, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open()
	one, two := newWorld(t, "one", epoch, spec("a")), newWorld(t, "two", epoch, spec("a"))
	one.start(t, ref("a", 1))
	two.start(t, ref("a", 1))
	got := []string{one.raise(t, db, db.BlockerID()), two.raise(t, db, db.BlockerID()), one.raise(t, db, db.BlockerID())}
	restart := func() {
		t.Helper()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = open()
	}
	lost := db.BlockerID() // the process dies before the commit
	restart()
	got = append(got, one.raise(t, db, db.BlockerID()))
	if lost != got[3] {
		t.Errorf("%s was not stored, and is followed by %s", lost, got[3])
	}
	pending := db.BlockerID()
	first, err := db.ReserveBlockers(t.Context(), 10)
	if err != nil || first != 6 {
		t.Errorf("reserved from %d, %v", first, err)
	}
	got = append(got, two.raise(t, db, db.BlockerID()), one.raise(t, db, pending))
	restart()
	imported := newWorld(t, "imported", epoch, spec("a"))
	imported.start(t, ref("a", 1))
	for _, id := range []string{"B20", "B3", "B18446744073709551615", "B99999999999999999999999", "an id of another program"} {
		imported.must(t, raisedAs(id))
	}
	got = append(got, two.raise(t, db, db.BlockerID()))
	if err := db.Import(t.Context(), imported.State, imported.TakeEvents()); err != nil {
		t.Fatal(err)
	}
	got = append(got, two.raise(t, db, db.BlockerID()))
	if want := []string{"B1", "B2", "B3", "B4", "B16", "B5", "B17", "B21"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	restart()
	for id, n := range map[string]int{"one": 4, "two": 4, "imported": 5} {
		if s := restore(t, db, id); s.Boulder.BlockersRaised != n || len(s.SubTask("a").Blockers) != n {
			t.Errorf("%s has %d of %d blockers", id, s.Boulder.BlockersRaised, n)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// Boulders that run side by side, and engines that reserve, get different numbers.
func TestBlockerIDsAtOnce(t *testing.T) {
	t.Parallel()
	db := openTemp(t)
	var mu sync.Mutex
	given := map[string]int{}
	var work sync.WaitGroup
	for i := range 40 {
		work.Go(func() {
			var ids []string
			if i%2 == 0 {
				ids = []string{db.BlockerID()}
			} else {
				first, err := db.ReserveBlockers(t.Context(), 2)
				if err != nil {
					t.Error(err)
				}
				ids = []string{fmt.Sprint("B", first), fmt.Sprint("B", first+1)}
			}
			mu.Lock()
			defer mu.Unlock()
			for _, id := range ids {
				given[id]++
			}
		})
	}
	work.Wait()
	for id, n := range given {
		if n != 1 {
			t.Errorf("%s was given %d times", id, n)
		}
	}
	if len(given) != 60 {
		t.Errorf("%d were given", len(given))
	}
}

// Reserved numbers of a boulder that never began are given again, unless others came after them.
func TestFreeBlockers(t *testing.T) {
	t.Parallel()
	db, err := Open(filepath.Join(scratch(t), FileName), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	reserve := func() int {
		t.Helper()
		first, err := db.ReserveBlockers(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		return first
	}
	free := func(first int) {
		t.Helper()
		if err := db.FreeBlockers(t.Context(), first, 10); err != nil {
			t.Fatal(err)
		}
	}
	free(reserve())
	kept := reserve()
	later := reserve()
	if free(kept); kept != 1 || later != 11 {
		t.Errorf("reserved from %d, then from %d", kept, later)
	}
	if id := db.BlockerID(); id != "B21" {
		t.Errorf("the next one is %s", id)
	}
	if free(later); db.BlockerID() != "B22" {
		t.Error("a number that was given is given again")
	}
}
