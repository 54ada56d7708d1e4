package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
)

// Whatever is committed, a database with a journal says the same as one whose commits go straight into the tree: also
// when it is folded at any time, closed and opened again, left by a crash and opened to be changed or only to be looked
// at, or holds an import.
func TestJournalSaysWhatTheTreeSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		tree, db := openTemp(t), openTemp(t) // tree is folded after each commit
		imported := 0
		worlds := map[string]*world{}
		ids := []string{"a", "ab", "b"}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			steps := []string{"commit", "commit", "commit", "fold", "reopen", "crash", "import"}
			switch rapid.SampledFrom(steps).Draw(rt, "step") {
			case "commit":
				id := rapid.SampledFrom(ids).Draw(rt, "boulder")
				w := worlds[id]
				if w == nil {
					w = newWorld(rt, id, epoch.AddDate(0, 0, -len(worlds)), drawPlan(rt)...)
					worlds[id] = w
				}
				for range rapid.IntRange(0, 8).Draw(rt, "events") {
					step(rt, w)
				}
				if c, changed := w.TakeChanges(); changed {
					if err := errors.Join(tree.Commit(t.Context(), c), foldNow(tree), db.Commit(t.Context(), c)); err != nil {
						rt.Fatalf("%v", err)
					}
				}
			case "fold":
				if err := foldNow(db); err != nil {
					rt.Fatalf("%v", err)
				}
			case "reopen":
				if err := db.Close(); err != nil {
					rt.Fatalf("%v", err)
				}
				if state := stateOf(t, onDisk(t, db)); state.open {
					rt.Fatalf("the journal is open after a close: %+v", state)
				}
				db = openAt(t, db.path)
			case "crash":
				db = crashed(t, db)
			case "import":
				id := fmt.Sprintf("imported%d", imported)
				x := exportOf(rt, t, id)
				if err := errors.Join(tree.Import(t.Context(), x), db.Import(t.Context(), x)); err != nil {
					rt.Fatalf("%v", err)
				}
				imported++
			}
		}
		want := everything(t, tree)
		for name, db := range map[string]*DB{
			"itself": db, "to look": lookAt(t, onDisk(t, db)), "after a crash": crashed(t, db),
		} {
			if diff := cmp.Diff(want, everything(t, db)); diff != "" {
				rt.Fatalf("%s: tree (-) and journal (+):\n%s", name, diff)
			}
		}
	})
}

// lookAt opens a copy to be read.
func lookAt(t testing.TB, data []byte) *DB {
	t.Helper()
	path := filepath.Join(scratch(t), FileName)
	if err := os.WriteFile(path, data, 0o400); err != nil {
		t.Fatal(err)
	}
	db, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if after := onDisk(t, db); !bytes.Equal(data, after) {
			t.Error("looking changed the file")
		}
	})
	return db
}

// exportOf is a boulder with some history.
func exportOf(rt *rapid.T, t *testing.T, id string) Export {
	source := openTemp(t)
	drawWorld(rt, source, id)
	x, err := source.Export(t.Context(), id)
	if err != nil {
		rt.Fatalf("%v", err)
	}
	return x
}

// stateOf reads what the tree of a closed or crashed database says about its journal.
func stateOf(t testing.TB, data []byte) (state journalState) {
	t.Helper()
	rewrite(t, data, func(tx *bolt.Tx) error {
		state, _ = journalOf(tx)
		return nil
	})
	return state
}

// A reader that has looked at the journal before it is folded, and at the tree after that, takes nothing from the journal: the
// tree may be newer.
func TestWhatIsFoldedIsPassedOver(t *testing.T) {
	t.Parallel()
	db := openTemp(t)
	w := newWorld(t, "id", epoch, spec("a"))
	w.commit(t, db)
	w.start(t, ref("a", 1))
	w.commit(t, db)
	old := db.unfolded.Load()
	w.finish(t, ref("a", 1))
	w.commit(t, db)
	if err := foldNow(db); err != nil {
		t.Fatal(err)
	}
	err := db.bolt.View(func(tx *bolt.Tx) error {
		if n := len(old.entries); n != 1 {
			t.Errorf("the journal had %d entries", n)
		}
		if b, err := head(snapshotOf(tx, old), "id"); err != nil || b.Seq != w.Boulder.Seq {
			t.Errorf("the head is that of event %d and should be that of %d, %v", b.Seq, w.Boulder.Seq, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A commit writes its entry and nothing else: no page of the tree, no meta page. That is what makes it as cheap as it
// is.
func TestCommitWritesItsEntryOnly(t *testing.T) {
	t.Parallel()
	db := openTemp(t)
	w := newWorld(t, "id", epoch, spec("a"))
	w.commit(t, db)
	for i := range 3 {
		before, end := onDisk(t, db), db.journal.end
		w.must(t, boulder.Noted{Text: "a note"})
		w.commit(t, db)
		after := onDisk(t, db)
		from := int(db.journal.at) + end
		copy(after[from:from+entryPage], before[from:])
		if !bytes.Equal(before, after) || db.journal.end != end+entryPage {
			t.Errorf("commit %d changed more than a page of the journal", i)
		}
	}
}

// A handle that makes few commits leaves the journal alone, so that a command that gives an order has nothing to fold; one
// that begins a run does not.
func TestFewCommitsLeaveTheJournalAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), FileName)
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "id", epoch)
	w.commit(t, db)
	if !db.journal.open {
		t.Error("a run begins without the journal")
	}
	for range 2 {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if db, err = Open(path, Options{}); err != nil {
			t.Fatal(err)
		}
		for range plainCommits {
			w.must(t, boulder.Noted{Text: "a note"})
			w.commit(t, db)
			if db.journal.open {
				t.Error("an order needs the journal")
			}
		}
	}
	w.must(t, boulder.Noted{Text: "one more"})
	w.commit(t, db)
	if !db.journal.open {
		t.Error("many orders do not use the journal")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// A new database has its journal from the beginning, so that no run has to wait until one is made; and it grows with what is
// in it, not to the size of its mapping.
func TestNewDatabase(t *testing.T) {
	t.Parallel()
	db := openTemp(t)
	small := int64(journalSize + growth + 64*os.Getpagesize())
	if err := db.view(t.Context(), func(s *snapshot) error {
		entries, _, err := room(s.Tx)
		if err == nil && len(entries) != journalSize {
			t.Errorf("the journal has %d bytes", len(entries))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	newWorld(t, "id", epoch, spec("a")).commit(t, db)
	if n := int64(len(onDisk(t, db))); n > small {
		t.Errorf("with one boulder, the file has %d bytes", n)
	}
}

// A database of an earlier manager may have no journal yet, or a smaller one: that is made, or used as it is.
func TestJournalOfAnEarlierManager(t *testing.T) {
	t.Parallel()
	fresh := openTemp(t)
	if err := fresh.Close(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name                string
		size, wanted, folds int
	}{{"none", 0, journalSize, 0}, {"smaller", 16 * entryPage, 16 * entryPage, 2}} {
		name, size := test.name, test.size
		db := openBytes(t, rewrite(t, onDisk(t, fresh), func(tx *bolt.Tx) error {
			if size == 0 {
				return tx.DeleteBucket(bucketJournal)
			}
			b := tx.Bucket(bucketJournal)
			return b.Put(keyRoom, bytes.Clone(b.Get(keyRoom)[:roomSkip(tx)+size]))
		}))
		w := newWorld(t, "id", epoch, spec("a"))
		w.commit(t, db)
		if db.journal.size != test.wanted {
			t.Errorf("%s: the journal has %d bytes, wanted were %d", name, db.journal.size, test.wanted)
		}
		folds := 0
		for range 40 {
			w.must(t, boulder.Noted{Text: "a note"})
			w.commit(t, db)
			if len(db.unfolded.Load().entries) == 0 {
				folds++
			}
		}
		if folds != test.folds {
			t.Errorf("%s: it was folded %d times, wanted were %d", name, folds, test.folds)
		}
		if got, want := picture(t, restore(t, crashed(t, db), "id")), picture(t, w.State); got != want {
			t.Errorf("%s: there is\n%s\nwanted was\n%s", name, got, want)
		}
	}
}

// A full journal is folded, together with the commit that does not fit; a large commit goes into the tree at once. What
// is kept in memory is never more than the journal holds.
func TestFullJournalIsFolded(t *testing.T) {
	t.Parallel()
	db := openTemp(t)
	w := newWorld(t, "id", epoch, spec("a"))
	w.commit(t, db)
	folds, most := 0, 0
	for range 3 * journalSize / entryPage {
		before := db.journal.number
		w.must(t, boulder.Noted{Text: "a note"})
		w.commit(t, db)
		n := len(db.unfolded.Load().entries)
		if most = max(most, n); n == 0 {
			folds++
			if db.journal.number != before+1 {
				t.Error("the commit that made it be folded has no number, or was written twice")
			}
		}
	}
	if folds != 2 || most != journalSize/entryPage {
		t.Errorf("it was folded %d times, with %d entries at most", folds, most)
	}
	w.must(t, boulder.Noted{Text: "before"})
	w.commit(t, db)
	for range maxEntry / 4000 {
		w.must(t, boulder.Noted{Text: strings.Repeat("x", 4000)})
	}
	w.commit(t, db)
	if n := len(db.unfolded.Load().entries); n != 0 {
		t.Errorf("a large commit left %d entries", n)
	}
	if got, want := picture(t, restore(t, crashed(t, db), "id")), picture(t, w.State); got != want {
		t.Errorf("there is\n%s\nwanted was\n%s", got, want)
	}
}

// An entry that cannot be read is named, with its number and its boulder. That one is not gone on with; what is left of
// it can be looked at, and other boulders work as ever. So it stays when the journal is folded and used again.
func TestDamagedEntry(t *testing.T) {
	t.Parallel()
	db := openTemp(t)
	bad, sound := newWorld(t, "bad", epoch, spec("a")), newWorld(t, "sound", epoch.AddDate(0, 0, 1), spec("a"))
	bad.commit(t, db)
	sound.commit(t, db)
	at := db.journal.at + int64(db.journal.end)
	bad.start(t, ref("a", 1))
	bad.commit(t, db)
	db = crashed(t, db) // which does not make anybody forget whose the last entry was
	bad.finish(t, ref("a", 1))
	sound.start(t, ref("a", 1))
	sound.commit(t, db)
	next, _ := bad.TakeChanges()
	want := picture(t, sound.State)
	for name, spoil := range map[string]func([]byte){
		"header":  func(page []byte) { page[17] ^= 1 },
		"records": func(page []byte) { page[200] ^= 1 },
		"zeros":   func(page []byte) { clear(page[:entryPage]) },
	} {
		data := onDisk(t, db)
		spoil(data[at:])
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkNamed(t, lookAt(t, data), want)
			db := openBytes(t, data)
			checkNamed(t, db, want)
			if err := db.Commit(t.Context(), next); !isBadEntry(err) {
				t.Errorf("commit: %v", err)
			}
			if err := foldNow(db); err != nil {
				t.Fatal(err)
			}
			checkNamed(t, db, want)
			s := &world{State: restore(t, db, "sound"), id: "sound", now: sound.now}
			s.finish(t, ref("a", 1))
			s.commit(t, db)
			checkNamed(t, db, picture(t, s.State))
			checkNamed(t, crashed(t, db), picture(t, s.State))
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			checkNamed(t, lookAt(t, onDisk(t, db)), picture(t, s.State))
		})
	}
}

func isBadEntry(err error) bool {
	c, ok := errors.AsType[*CorruptError](err)
	return ok && c.Bucket == "journal" && c.Key == "3/bad"
}

// checkNamed expects that of boulder "bad" entry 2 is damaged, and that boulder "sound" is as it should be.
func checkNamed(t *testing.T, db *DB, sound string) {
	t.Helper()
	if r, err := db.Load(t.Context(), "bad"); !isBadEntry(err) || r.Boulder.ID != "" {
		t.Errorf("load: %v", err)
	}
	if d, err := db.Get(t.Context(), "bad"); !isBadEntry(err) || len(d.SubTasks) != 1 {
		t.Errorf("get: %d sub-tasks, %v", len(d.SubTasks), err)
	}
	if events, err := db.Events(t.Context(), "bad", 0, 0); !isBadEntry(err) || len(events) != 3 {
		t.Errorf("events: %d, %v", len(events), err)
	}
	if _, err := db.Export(t.Context(), "bad"); !isBadEntry(err) {
		t.Errorf("export: %v", err)
	}
	if all, err := db.List(t.Context()); !isBadEntry(err) || len(all) != 2 {
		t.Errorf("list: %d, %v", len(all), err)
	}
	if all, err := db.Listing(t.Context()); !isBadEntry(err) || len(all) != 2 {
		t.Errorf("listing: %d, %v", len(all), err)
	}
	if got := picture(t, restore(t, db, "sound")); got != sound {
		t.Errorf("the other boulder is\n%s\nand should be\n%s", got, sound)
	}
	exported(t, db, "sound")
}

// drawEntries is a journal from its beginning: entries with consecutive numbers, of which the first follows last.
func drawEntries(rt *rapid.T, last uint64) (all []*entry) {
	ids := rapid.SampledFrom([]string{"a", "b", "c"})
	values := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 3*entryPage))
	for i := range rapid.IntRange(1, 6).Draw(rt, "entries") {
		e := &entry{number: last + 1 + uint64(i), id: ids.Draw(rt, "id")}
		for range rapid.IntRange(0, 4).Draw(rt, "records") {
			e.records = append(e.records, record{
				in:    place(rapid.IntRange(1, int(places)-1).Draw(rt, "place")),
				key:   rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(rt, "key"),
				value: values.Draw(rt, "value"),
			})
		}
		all = append(all, e)
	}
	return all
}

// lay writes entries as a journal has them, over what was there, and says where each begins and the last ends.
func lay(data []byte, entries []*entry) (out []byte, at []int) {
	before, end := "", 0
	for _, e := range entries {
		at = append(at, end)
		raw := e.appendTo(nil, before)
		data = append(data, make([]byte, max(0, end+pages(len(raw))-len(data)))...)
		copy(data[end:], raw)
		before, end = e.id, end+pages(len(raw))
	}
	return data, append(at, end)
}

var sameEntries = []cmp.Option{cmp.AllowUnexported(entry{}, record{}), cmpopts.EquateEmpty()}

// Entries come back as they were, whatever older ones are below and behind them. Of one that is damaged the number and
// the boulder are known; if it is the last one, it is the end.
func TestEntries(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		older := drawEntries(rt, 3)
		last := older[len(older)-1].number
		data, _ := lay(nil, older)
		entries := drawEntries(rt, last)
		data, at := lay(data, entries)
		data = append(data, make([]byte, entryPage)...)

		got, damaged, end := readEntries(data, last, none)
		if diff := cmp.Diff(entries, got, sameEntries...); diff != "" || len(damaged) > 0 {
			rt.Fatalf("%d damaged; written (-) and read (+):\n%s", len(damaged), diff)
		}
		if end != at[len(entries)] {
			rt.Fatalf("it ends at %d, and should at %d", end, at[len(entries)])
		}
		hit := rapid.IntRange(0, len(entries)-1).Draw(rt, "damaged")
		e := entries[hit]
		before := ""
		if hit > 0 {
			before = entries[hit-1].id
		}
		size := len(e.appendTo(nil, before))
		for range rapid.IntRange(1, 5).Draw(rt, "bytes") {
			data[at[hit]+rapid.IntRange(0, size-1).Draw(rt, "at")] ^= byte(rapid.IntRange(1, 255).Draw(rt, "flipped"))
		}
		got, damaged, end = readEntries(data, last, none)
		if raw := data[at[hit] : at[hit]+size]; bytes.Equal(raw, e.appendTo(nil, before)) {
			return // the flips undid each other
		}
		want := slices.Delete(slices.Clone(entries), hit, hit+1)
		if diff := cmp.Diff(want, got, sameEntries...); diff != "" {
			rt.Fatalf("entry %d damaged; wanted (-) and read (+):\n%s", hit, diff)
		}
		if hit == len(entries)-1 {
			if len(damaged) > 0 || end != at[hit] {
				rt.Fatalf("%d damaged, the end is at %d and should be at %d", len(damaged), end, at[hit])
			}
			return
		}
		if len(damaged) != 1 || damaged[0].number != e.number || damaged[0].id != e.id || end != at[len(entries)] {
			rt.Fatalf("%+v, and the end is at %d", damaged, end)
		}
		if !bytes.Equal(damaged[0].raw, data[at[hit]:at[hit+1]]) {
			rt.Fatalf("of the damaged entry %d bytes are kept", len(damaged[0].raw))
		}
	})
}

// none is a tree without boulders.
func none() []string { return nil }

// Where nobody can tell whose an entry was, no boulder goes on: none of the journal, and none of the tree.
func TestUnknownEntriesConcernAll(t *testing.T) {
	t.Parallel()
	var entries []*entry
	for i, id := range []string{"a", "b", "c", "d"} {
		r := record{inMeta, []byte("k"), []byte("v")}
		entries = append(entries, &entry{number: uint64(i + 1), id: id, records: []record{r}})
	}
	data, at := lay(nil, entries)
	clear(data[at[1]:at[3]])
	got, damaged, end := readEntries(data, 0, func() []string { return []string{"b", "older"} })
	var ids []string
	for _, d := range damaged {
		ids = append(ids, fmt.Sprintf("%d/%s", d.number, d.id))
	}
	if len(got) != 2 || strings.Join(ids, " ") != "2/a 2/b 2/c 2/d 2/older" || end != at[4] {
		t.Errorf("%d entries, damaged are %v, the end is at %d", len(got), ids, end)
	}
}

// A boulder of which nothing but the damaged entries was in the journal does not go on from what the tree has of it.
func TestBoulderOfUnknownEntries(t *testing.T) {
	t.Parallel()
	db := openTemp(t)
	var worlds []*world
	for i, id := range []string{"a", "b", "c", "d"} {
		w := newWorld(t, id, epoch.AddDate(0, 0, i), spec("s"))
		w.commit(t, db)
		worlds = append(worlds, w)
	}
	if err := foldNow(db); err != nil {
		t.Fatal(err)
	}
	var at []int
	for _, w := range worlds {
		at = append(at, int(db.journal.at)+db.journal.end)
		w.start(t, ref("s", 1))
		w.commit(t, db)
	}
	data := onDisk(t, db)
	clear(data[at[1]:at[3]])
	damaged := openBytes(t, data)
	for _, id := range []string{"b", "c"} {
		if _, err := damaged.Load(t.Context(), id); err == nil {
			t.Errorf("boulder %s is loaded as if nothing were missing", id)
		}
	}
}

// No bytes make reading a journal fail otherwise than with what it says.
func FuzzJournal(f *testing.F) {
	data, _ := lay(nil, []*entry{
		{number: 1, id: "a", records: []record{{inEvents, []byte("k"), []byte("v")}}},
		{number: 2, id: "b", records: []record{{inOpen, []byte("k"), nil}}},
	})
	f.Add(data, uint16(entryPage+12), byte(1))
	f.Fuzz(func(t *testing.T, data []byte, at uint16, b byte) {
		if len(data) > 0 {
			data = slices.Clone(data)
			data[int(at)%len(data)] = b
		}
		entries, damaged, end := readEntries(data, 0, none)
		if end < 0 || end > pages(len(data)) {
			t.Errorf("%d entries, %d damaged, end %d of %d", len(entries), len(damaged), end, len(data))
		}
	})
}
