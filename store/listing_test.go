package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
)

// An item comes back from its bytes as it went in, and no bytes make decoding fail otherwise than with an error.
func TestItemsKeepWhatTheySay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		num := rapid.Int64()
		at := rapid.Custom(func(rt *rapid.T) time.Time {
			if rapid.Bool().Draw(rt, "zero") {
				return time.Time{}
			}
			return time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(rt, "s"), rapid.Int64Range(0, 999_999_999).Draw(rt, "ns")).UTC()
		})
		item := Item{
			BoulderID: "id", Task: rapid.String().Draw(rt, "task"), Status: boulder.Status(rapid.String().Draw(rt, "status")),
			Reason: rapid.String().Draw(rt, "reason"), CreatedAt: at.Draw(rt, "c"), UpdatedAt: at.Draw(rt, "u"), ArchivedAt: at.Draw(rt, "a"),
		}
		item.Usage.Cost = rapid.Float64().Draw(rt, "cost")
		for _, n := range item.numbers() {
			*n = num.Draw(rt, "number")
		}
		for _, n := range item.counts() {
			*n = int(num.Draw(rt, "count"))
		}
		key := createdKey(&boulder.Boulder{ID: "id", CreatedAt: epoch})
		data := item.encode(key)
		var got Item
		if err := got.decode(key, data, &texts{}); err != nil {
			rt.Fatalf("%v", err)
		}
		if diff := cmp.Diff(item, got); diff != "" {
			rt.Fatalf("in (-) and out (+):\n%s", diff)
		}
		cut := rapid.IntRange(0, len(data)-1).Draw(rt, "cut")
		if err := got.decode(key, data[:cut], &texts{}); err == nil {
			rt.Fatalf("%d of %d bytes were read as an item", cut, len(data))
		}
		key[rapid.IntRange(0, len(key)-1).Draw(rt, "at")] ^= byte(rapid.IntRange(1, 255).Draw(rt, "flipped"))
		if err := got.decode(key, data, &texts{}); err == nil {
			rt.Fatalf("it was read under the key %q", key)
		}
	})
}

func FuzzItem(f *testing.F) {
	item := ItemOf(&boulder.Boulder{ID: "id", Task: "task", Status: boulder.Running, CreatedAt: epoch})
	key := []byte("12345678id")
	f.Add(item.encode(key))
	f.Fuzz(func(_ *testing.T, data []byte) {
		var it Item
		_ = it.decode(key, data, &texts{})
		data = append([]byte{itemFormat}, data...)
		_ = it.decode(key, binary.BigEndian.AppendUint32(data, itemSum(key, data)), &texts{}) // past the checksum
	})
}

// A list keeps the beginning of a long request, and shows the cut.
func TestLongTasksAreCutInLists(t *testing.T) {
	t.Parallel()
	for task, want := range map[string]string{
		"": "", "short": "short", strings.Repeat("ü", 1000): strings.Repeat("ü", 1000),
		strings.Repeat("ü", 1001): strings.Repeat("ü", 999) + "…",
	} {
		if got := ItemOf(&boulder.Boulder{Task: task}).Task; got != want {
			t.Errorf("%d bytes are listed as %.20q… with %d", len(task), got, len(got))
		}
	}
}

// An item that cannot be read is no loss: its head says the same.
func TestDamagedItems(t *testing.T) {
	t.Parallel()
	db := openTemp(t)
	newWorld(t, "one", epoch, spec("a")).commit(t, db)
	newWorld(t, "two", epoch.Add(time.Hour)).commit(t, db)
	want, err := db.Listing(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	spoilt := openSpoilt(t, db, []byte("noise"))
	if got, err := spoilt.Listing(t.Context()); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("%v, want (-) and got (+):\n%s", err, cmp.Diff(want, got))
	}
	w := &world{State: restore(t, spoilt, "one"), id: "one", now: epoch.Add(time.Minute)}
	w.must(t, boulder.TakenUp{}) // the next commit mends it, which checkItems sees
	w.commit(t, spoilt)
}

// openSpoilt opens a copy in which the item of boulder "one" is something else.
func openSpoilt(t *testing.T, db *DB, value []byte) *DB {
	t.Helper()
	var data bytes.Buffer
	err := db.view(t.Context(), func(s *snapshot) error {
		_, err := s.WriteTo(&data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return openBytes(t, rewrite(t, data.Bytes(), func(tx *bolt.Tx) error {
		bucket := tx.Bucket(bucketCreated)
		k, _ := bucket.Cursor().First()
		return bucket.Put(bytes.Clone(k), value)
	}))
}

// What is taken out of records must not come back by the list.
func TestListsAreRedacted(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/" + FileName
	db, err := Open(path, Options{Redact: func(b []byte) []byte {
		return bytes.ReplaceAll(b, []byte("s3cret"), []byte("[redacted]"))
	}})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{State: boulder.NewState(), id: "id", now: epoch}
	w.must(t, boulder.Created{Boulder: boulder.Boulder{ID: "id", Task: "use s3cret", Project: "/p"}})
	w.must(t, boulder.StatusChanged{Status: boulder.Paused, Reason: "s3cret failed"})
	w.commit(t, db)
	items, err := db.Listing(t.Context())
	if err != nil || items[0].Task != "use [redacted]" || items[0].Reason != "[redacted] failed" {
		t.Errorf("%+v, %v", items, err)
	}
	x, err := db.Export(t.Context(), "id")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(x); err != nil || bytes.Contains(text, []byte("s3cret")) {
		t.Errorf("%s, %v", text, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// The active boulder is what was begun or taken up last, and is what is meant where none is named, unless it is archived.
func TestActive(t *testing.T) {
	t.Parallel()
	db := openTemp(t)
	if _, err := db.Active(t.Context()); !errors.Is(err, boulder.ErrNotFound) {
		t.Errorf("%v", err)
	}
	expect := func(when, active, meant, unfinished string) {
		t.Helper()
		got, _ := db.Active(t.Context())
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
	all, err := db.List(t.Context())
	if len(all) != 2 || err != nil {
		t.Errorf("%d boulders, %v", len(all), err)
	}
}

// What is damaged in the list is named, and never taken for "nothing was run here": an id of no boulder, an item that is
// noise, and a head that is gone. The active boulder is found all the same, and so are the others.
func TestDamagedLists(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		boulders int // besides the damaged one
		damage   func(*bolt.Tx) error
		bucket   string // of the record that is named
		key      string
		meant    string
	}{
		"id": {1, renamed(bucketCreated, "id", "iq"), "created", "iq", "id"},
		"id and item": {1, func(tx *bolt.Tx) error {
			return errors.Join(renamed(bucketCreated, "id", "iq")(tx), tx.Bucket(bucketCreated).Put(lastKey(tx), []byte("noise")))
		}, "created", "iq", "id"},
		"id of an archived one": {0, func(tx *bolt.Tx) error {
			return errors.Join(renamed(bucketCreated, "id", "iq")(tx), tx.Bucket(bucketMeta).Delete(keyActive))
		}, "created", "iq", ""},
		"head":         {1, renamed(bucketBoulders, "id", "iq"), "boulders", "id", ""},
		"head, no one": {0, renamed(bucketBoulders, "id", "iq"), "boulders", "id", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), FileName)
			db, err := Open(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if tc.boulders > 0 {
				newWorld(t, "other", epoch.AddDate(-1, 0, 0)).commit(t, db)
			}
			newWorld(t, "id", epoch, spec("a")).commit(t, db)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			data := rewrite(t, onDisk(t, db), tc.damage)
			for _, db := range []*DB{openBytes(t, data), lookAt(t, data)} {
				id, err := db.Resolve(t.Context(), "")
				if id != tc.meant || errors.Is(err, boulder.ErrNotFound) || (id == "") == (err == nil) {
					t.Errorf("meant is %q, %v", id, err)
				}
				if id == "" && !names(err, tc.bucket, tc.key) {
					t.Errorf("%v", err)
				}
				all, err := db.List(t.Context())
				if len(all) != tc.boulders || err == nil {
					t.Errorf("list: %d, %v", len(all), err)
				}
				items, err := db.Listing(t.Context())
				if tc.bucket == "created" && (len(items) != tc.boulders || !names(err, tc.bucket, tc.key)) {
					t.Errorf("listing: %d, %v", len(items), err)
				}
			}
		})
	}
}

func names(err error, bucket, key string) bool {
	c, ok := errors.AsType[*CorruptError](err)
	return ok && c.Bucket == bucket && c.Key == key
}

// renamed moves the last record of a bucket, whose key ends with an id, to the key with another one.
func renamed(bucket []byte, id, other string) func(*bolt.Tx) error {
	return func(tx *bolt.Tx) error {
		b := tx.Bucket(bucket)
		c := b.Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			if key, ok := bytes.CutSuffix(bytes.Clone(k), []byte(id)); ok {
				v = bytes.Clone(v)
				return errors.Join(b.Delete(append(key, id...)), b.Put(append(slices.Clip(key), other...), v))
			}
		}
		return errors.New("there is no such record")
	}
}

func lastKey(tx *bolt.Tx) []byte {
	k, _ := tx.Bucket(bucketCreated).Cursor().Last()
	return bytes.Clone(k)
}
