package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

func openBytes(t testing.TB, data []byte) *DB {
	t.Helper()
	path := filepath.Join(scratch(t), FileName)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return openAt(t, path)
}

// A crash at any point leaves the last commit: the file is copied after each one, as it stands, and opened elsewhere.
// Crashes inside of a commit are played as well: of its pages all but one reach the disk, or of that one a part.
func TestCrashLeavesTheLastCommit(t *testing.T) {
	t.Parallel()
	db := openTemp(t)
	w := newWorld(t, "id", epoch, spec("a"), spec("b", "a"), spec("c", "b"))
	w.commit(t, db)
	last, was := onDisk(t, db), picture(t, w.State)
	for i, step := range []func(){
		func() { w.start(t, ref("a", 1)) },
		func() { w.finish(t, ref("a", 1)) },
		func() {
			for range 4 { // an entry of several pages
				w.must(t, boulder.Noted{Text: strings.Repeat("a long story ", 300)})
			}
		},
		func() { w.start(t, ref("b", 1)) },
		func() { db.journal.end = journalSize }, // full
		func() { w.finish(t, ref("b", 1)) },
		func() { w.start(t, ref("c", 1)) },
		func() { db.journal.end = journalSize },
		func() { w.finish(t, ref("c", 1)) },
	} {
		step()
		c, changed := w.TakeChanges()
		if !changed {
			continue
		}
		if err := db.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		data, is := onDisk(t, db), picture(t, w.State)
		expect := func(how string, data []byte, want string) {
			t.Helper()
			if got := picture(t, restore(t, openBytes(t, data), "id")); got != want {
				t.Errorf("commit %d, %s: there is\n%s\nwanted was\n%s", i, how, got, want)
			}
		}
		expect("after it", data, is)
		for at, name := range partsOf(last, data) {
			torn := slices.Clone(data)
			page := torn[at : at+os.Getpagesize()]
			copy(page, last[at:])
			expect("without "+name, torn, was)
			copy(page[:512], data[at:])
			if name == "a page of an entry" && !bytes.Equal(page, data[at:at+len(page)]) {
				expect("with the beginning of "+name, torn, was)
			}
		}
		last, was = data, is
	}
}

// partsOf finds the pages without which a commit has not happened, by their places: the meta page that it wrote, or if it
// wrote none all pages of its entry in the journal.
func partsOf(before, after []byte) map[int]string {
	meta, entry := map[int]string{}, map[int]string{}
	page := os.Getpagesize()
	for at := 0; at+page <= min(len(before), len(after)); at += page {
		switch {
		case bytes.Equal(before[at:at+page], after[at:at+page]):
		case at < 2*page:
			meta[at] = "its meta page"
		default:
			entry[at] = "a page of an entry"
		}
	}
	if len(meta) > 0 {
		return meta
	}
	return entry
}

// A file that cannot be used is refused with the reason, and stays as it is.
func TestOpenRefusesWithoutHarm(t *testing.T) {
	t.Parallel()
	whole := databaseBytes(t)
	page := os.Getpagesize()
	zeroed := slices.Clone(whole)
	clear(zeroed[2*page:])
	noise := slices.Clone(whole)
	for i := 2 * page; i < len(noise); i++ {
		noise[i] = byte(i * i >> 3)
	}
	source := openTemp(t)
	newWorld(t, "id", epoch).commit(t, source)
	newWorld(t, "in the journal", epoch).commit(t, source)
	journaled := onDisk(t, source)
	dropped := func(bucket []byte) []byte {
		return rewrite(t, whole, func(tx *bolt.Tx) error { return tx.DeleteBucket(bucket) })
	}
	for name, data := range map[string][]byte{
		"text":                bytes.Repeat([]byte("not a database\n"), 1000),
		"short text":          []byte("x"),
		"no meta pages":       slices.Concat(make([]byte, 2*page), whole[2*page:]),
		"zeroed pages":        zeroed,
		"noise":               noise,
		"another program's":   dropped(bucketMeta),
		"without heads":       dropped(bucketBoulders),
		"without its version": rewrite(t, whole, setVersion("")),
		"version zero":        rewrite(t, whole, setVersion("0")),
		"version text":        rewrite(t, whole, setVersion("one")),
		"without its journal": rewrite(t, journaled, func(tx *bolt.Tx) error { return tx.DeleteBucket(bucketJournal) }),
		"journal closed":      rewrite(t, journaled, journalFlag(0)),
		"journal elsewhere": rewrite(t, journaled, func(tx *bolt.Tx) error {
			return tx.Bucket(bucketJournal).Put(keyRoom, make([]byte, journalSize))
		}),
	} {
		for _, readOnly := range []bool{false, true} {
			refused(t, name, data, Options{ReadOnly: readOnly}, unusable)
		}
	}
	for n := 1; n < usedPages(t, whole); n++ {
		refused(t, fmt.Sprintf("cut to %d pages", n), whole[:n*page], Options{ReadOnly: n%2 == 0}, unusable)
	}
	newer := rewrite(t, whole, setVersion("4"))
	refused(t, "newer", newer, Options{}, func(err error) bool {
		v, ok := errors.AsType[*VersionError](err)
		return ok && v.Found == 4 && v.Known == 3 && strings.Contains(err.Error(), "update manager")
	})
}

func unusable(err error) bool { return errors.Is(err, ErrUnusable) }

func refused(t *testing.T, name string, data []byte, opts Options, is func(error) bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a refused file is not left locked
		db, err := Open(path, opts)
		if err == nil {
			t.Errorf("%s (read-only %v) was opened", name, opts.ReadOnly)
			_ = db.Close()
			return
		}
		if !is(err) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s (read-only %v): %v", name, opts.ReadOnly, err)
		}
	}
	if after, err := os.ReadFile(path); !bytes.Equal(after, data) {
		t.Errorf("%s (read-only %v) was changed, %v", name, opts.ReadOnly, err)
	}
}

func TestOpenWhatIsNotThere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), FileName)
	readOnly := func(name string) {
		t.Helper()
		if _, err := Open(path, Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	readOnly("no file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	readOnly("empty file")
	if b, err := bolt.Open(path, 0o600, nil); err != nil || b.Close() != nil {
		t.Fatal(err)
	}
	readOnly("no schema") // its maker crashed before it wrote one
	newWorld(t, "id", epoch).commit(t, openAt(t, path))

	for name, make := range map[string]func(string) error{
		"a directory":     func(p string) error { return os.Mkdir(p, 0o700) },
		"a symbolic link": func(p string) error { return os.Symlink(path, p) },
	} {
		p := filepath.Join(t.TempDir(), FileName)
		if err := make(p); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(p, Options{}); !errors.Is(err, ErrUnusable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A record that cannot be read is named, the others are read all the same, and a run does not begin without it.
func TestCorruptRecordsAreNamed(t *testing.T) {
	t.Parallel()
	broken := []byte(`{"id":`)
	in := func(bucket []byte, key []byte, value []byte) func(*bolt.Tx) error {
		return func(tx *bolt.Tx) error {
			return tx.Bucket(bucketWork).Bucket([]byte("id")).Bucket(bucket).Put(key, value)
		}
	}
	for key, tc := range map[string]struct {
		bucket string
		damage func(*bolt.Tx) error
		get    bool // Get names it as well
	}{
		"id":    {"boulders", func(tx *bolt.Tx) error { return tx.Bucket(bucketBoulders).Put([]byte("id"), broken) }, true},
		`"b"`:   {"work/id/sub_tasks", in(bucketSubTasks, []byte("b"), broken), true},
		"2":     {"work/id/revisions", in(bucketRevisions, number32(2), []byte(`[]`)), true},
		"a/1":   {"work/id/attempts", in(bucketAttempts, attemptKey(ref("a", 1)), nil), true},
		"a/1/1": {"work/id/turns", in(bucketTurns, turnKey(ref("a", 1), 1), broken), false},
		"q/7":   {"work/id/attempts", in(bucketOpen, attemptKey(ref("q", 7)), nil), false},
		"turns": {"work/id", func(tx *bolt.Tx) error {
			return tx.Bucket(bucketWork).Bucket([]byte("id")).DeleteBucket(bucketTurns)
		}, true},
	} {
		t.Run(tc.bucket+" "+key, func(t *testing.T) {
			t.Parallel()
			db := openBytes(t, rewrite(t, databaseBytes(t), tc.damage))
			named := func(err error) bool {
				c, ok := errors.AsType[*CorruptError](err)
				return ok && c.Bucket == tc.bucket && c.Key == key
			}
			if r, err := db.Load(t.Context(), "id"); !named(err) || len(r.SubTasks) > 0 {
				t.Errorf("load: %v", err)
			}
			if d, err := db.Get(t.Context(), "id"); named(err) != tc.get || (len(d.SubTasks) == 0 && key != "turns") {
				t.Errorf("get: %d sub-tasks, %v", len(d.SubTasks), err)
			}
			all, err := db.List(t.Context())
			if len(all) == 0 || named(err) != (tc.bucket == "boulders") {
				t.Errorf("list: %v, %v", all, err)
			}
			if r, err := db.Load(t.Context(), "sound"); err != nil || len(r.SubTasks) != 2 {
				t.Errorf("the other boulder: %v", err)
			}
		})
	}
}

func TestUnknownEventIsNamedAndPassed(t *testing.T) {
	t.Parallel()
	db := openBytes(t, rewrite(t, databaseBytes(t), func(tx *bolt.Tx) error {
		log := tx.Bucket(bucketWork).Bucket([]byte("id")).Bucket(bucketEvents)
		return log.Put(number64(2), []byte(`{"type":"from-the-future","seq":2}`))
	}))
	events, err := db.Events(t.Context(), "id", 0, 0)
	c, ok := errors.AsType[*CorruptError](err)
	if !ok || c.Bucket != "work/id/events" || c.Key != "2" {
		t.Errorf("%v", err)
	}
	if len(events) != 5 || events[0].Seq != 1 || events[1].Seq != 3 {
		t.Errorf("%+v", events)
	}
}

// Pages damaged behind bbolt's back end a call with an error, not the process. That Open does not look at every page is
// why this can happen at all.
func TestDamagedPageIsAnError(t *testing.T) {
	t.Parallel()
	data := databaseBytes(t)
	for i, at := 2, 0; ; i++ { // every leaf or branch page that is not part of what Open reads
		if at = i * os.Getpagesize(); at >= len(data) {
			break
		}
		broken := slices.Clone(data)
		binary.NativeEndian.PutUint16(broken[at+8:], 0xFFFF) // the page's type
		path := filepath.Join(t.TempDir(), FileName)
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := Open(path, Options{})
		if err != nil {
			continue
		}
		// What is still readable is not the point; getting here alive is, and a lock that is not left behind.
		_, listErr := db.List(t.Context())
		_, loadErr := db.Load(t.Context(), "id")
		for _, err := range []error{listErr, loadErr} {
			if _, ok := errors.AsType[*CorruptError](err); err != nil && !ok {
				t.Errorf("page %d: %v", i, err)
			}
		}
		if err := db.Close(); err != nil {
			t.Errorf("page %d: %v", i, err)
		}
	}
}

// Bytes from a foreign or damaged file never end the process.
func FuzzOpen(f *testing.F) {
	f.Add(uint16(0), []byte("x"))
	f.Add(uint16(8), []byte{0xFF, 0xFF})
	whole := databaseBytes(f)
	f.Fuzz(func(t *testing.T, at uint16, patch []byte) {
		data := slices.Clone(whole)
		copy(data[int(at)%len(data):], patch)
		path := filepath.Join(t.TempDir(), FileName)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := Open(path, Options{ReadOnly: true})
		if err != nil {
			return
		}
		_, _ = db.List(t.Context())
		_, _ = db.Get(t.Context(), "id")
		_, _ = db.Events(t.Context(), "id", 0, 0)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// databaseBytes is a closed database with two boulders: "id", with a live attempt, and the older "sound".
func databaseBytes(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	newWorld(t, "sound", epoch.AddDate(-1, 0, 0), spec("a"), spec("b", "a")).commit(t, db)
	w := newWorld(t, "id", epoch, spec("a"), spec("b", "a"))
	w.start(t, ref("a", 1))
	w.commit(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// rewrite changes a closed database with bbolt alone.
func rewrite(t testing.TB, data []byte, change func(*bolt.Tx) error) []byte {
	t.Helper()
	path := filepath.Join(scratch(t), "rewrite.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Update(change), b.Close()); err != nil {
		t.Fatal(err)
	}
	data, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// usedPages counts the pages up to the last one that was ever written.
func usedPages(t testing.TB, data []byte) (n int) {
	rewrite(t, data, func(tx *bolt.Tx) error {
		n = int(tx.Size()) / os.Getpagesize()
		return nil
	})
	return n
}

// damage makes a record of a boulder unreadable.
func damage(id string, bucket, key []byte) func(*bolt.Tx) error {
	return func(tx *bolt.Tx) error {
		return tx.Bucket(bucketWork).Bucket([]byte(id)).Bucket(bucket).Put(key, []byte(`{"id":`))
	}
}

// journalFlag overwrites what the tree says of the journal besides its number.
func journalFlag(flag byte) func(*bolt.Tx) error {
	return func(tx *bolt.Tx) error {
		value := bytes.Clone(tx.Bucket(bucketMeta).Get(keyJournal))
		value[8] = flag
		return tx.Bucket(bucketMeta).Put(keyJournal, value)
	}
}

func setVersion(text string) func(*bolt.Tx) error {
	return func(tx *bolt.Tx) error {
		if text == "" {
			return tx.Bucket(bucketMeta).Delete(keySchema)
		}
		return tx.Bucket(bucketMeta).Put(keySchema, []byte(text))
	}
}
