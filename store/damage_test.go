package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/boltfile"
)

func openBytes(t testing.TB, data []byte) *DB {
	t.Helper()
	path := filepath.Join(scratch(t), FileName)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return openAt(t, path)
}

// TestCrashLeavesTheLastCommit: after each commit, a copy of the file opens with that commit. If power is cut before
// the meta page, which is written last, any other new page may be missing or torn: the commit before remains.
func TestCrashLeavesTheLastCommit(t *testing.T) {
	t.Parallel()
	db := openTemp(t)
	w := newWorld(t, "id", epoch, spec("a"), spec("b", "a"))
	w.commit(t, db)
	last, was := onDisk(t, db), picture(t, w.State)
	for i, step := range []func(){
		func() { w.start(t, ref("a", 1)) },
		func() { w.finish(t, ref("a", 1)) },
		func() {
			for range 30 { // enough for a snapshot
				w.must(t, boulder.Noted{Text: strings.Repeat("a long story ", 300)})
			}
		},
		func() { w.start(t, ref("b", 1)) },
		func() { w.finish(t, ref("b", 1)) },
	} {
		step()
		w.commit(t, db)
		data, is := onDisk(t, db), picture(t, w.State)
		expect := func(how string, data []byte, want string) {
			t.Helper()
			if got := picture(t, restore(t, openBytes(t, data), "id")); got != want {
				t.Errorf("commit %d, %s: there is\n%s\nwanted was\n%s", i, how, got, want)
			}
		}
		expect("after it", data, is)
		page := os.Getpagesize()
		last = append(last, make([]byte, len(data)-len(last))...)
		for at := 0; at < len(data); at += page {
			old, fresh := last[at:at+page], data[at:at+page]
			if bytes.Equal(old, fresh) {
				continue
			}
			cut := slices.Clone(data)
			copy(cut[:2*page], last) // the meta page comes last
			copy(cut[at:], old)
			expect(fmt.Sprintf("without page %d and those after it", at/page), cut, was)
			copy(cut[at:at+512], fresh)
			if at >= 2*page {
				expect(fmt.Sprintf("with a part of page %d", at/page), cut, was)
			}
		}
		last, was = data, is
	}
}

var flips = flag.Int("flips", 300, "how many bits to flip, one at a time")

// A flipped bit costs at most the newest commit, or the records of one boulder. It never yields a state that did not
// exist, and what is missing is named. The other boulders can be continued, and the file does not grow beyond measure.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	db := openTemp(t)
	pictures := map[string]bool{}
	var worlds []*world
	for i, id := range []string{"one", "two", "three"} {
		w := newWorld(t, id, epoch.AddDate(0, i, 0), spec("a"), spec("b", "a"))
		w.commit(t, db)
		pictures[picture(t, w.State)] = true
		w.start(t, ref("a", 1))
		for range 20 {
			w.must(t, boulder.Noted{Text: strings.Repeat("a long story ", 100)})
		}
		w.commit(t, db)
		pictures[picture(t, w.State)] = true
		worlds = append(worlds, w)
	}
	w := worlds[2]
	w.finish(t, ref("a", 1))
	w.commit(t, db)
	pictures[picture(t, w.State)] = true
	data := onDisk(t, db)
	random := rand.New(rand.NewPCG(1, 1))
	page := os.Getpagesize()
	for range *flips {
		at := random.IntN(len(data)/page)*page + random.IntN(64) // the heads of pages are most sensitive
		if random.IntN(3) == 0 {
			at = random.IntN(len(data))
		}
		broken := slices.Clone(data)
		broken[at] ^= 1 << (at % 8)
		lost, err := continueWith(t, broken, pictures)
		if err != nil && !errors.Is(err, ErrUnusable) {
			t.Fatalf("bit %d of byte %d (page %d, %d): %v", at%8, at, at/os.Getpagesize(), at%os.Getpagesize(), err)
		}
		if lost > 1 && err == nil {
			t.Fatalf("bit %d of byte %d (page %d, %d): %d boulders are lost", at%8, at, at/os.Getpagesize(),
				at%os.Getpagesize(), lost)
		}
	}
}

// continueWith opens a damaged file, and commits to each boulder that can be read.
func continueWith(t *testing.T, data []byte, pictures map[string]bool) (lost int, err error) {
	path := filepath.Join(scratch(t), FileName)
	defer os.RemoveAll(filepath.Dir(path))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := look(t, path); err != nil {
		return 0, fmt.Errorf("read-only: %w", err)
	}
	db, err := Open(path, Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	items, listErr := db.Listing(t.Context())
	for _, id := range []string{"one", "two", "three"} {
		s, err := db.Load(t.Context(), id)
		if err != nil {
			if _, named := errors.AsType[*CorruptError](err); !named {
				return lost, fmt.Errorf("boulder %s: %w", id, err)
			}
			lost++
			continue
		}
		if !pictures[picture(t, s)] {
			return lost, fmt.Errorf("boulder %s is what it never was: %s", id, picture(t, s))
		}
		w := &world{State: s, id: id, now: epoch.AddDate(1, 0, 0)}
		w.must(t, boulder.Noted{Text: "go on"})
		if err := db.Commit(t.Context(), s, s.TakeEvents()); err != nil {
			return lost, fmt.Errorf("boulder %s: %w", id, err)
		}
	}
	if len(items) < 3 && listErr == nil {
		return lost, fmt.Errorf("%d boulders are listed, and no error", len(items))
	}
	if info, err := os.Stat(path); err != nil || info.Size() > int64(4*len(data)) {
		return lost, fmt.Errorf("the file has grown from %d bytes to %d, %w", len(data), info.Size(), err)
	}
	return lost, nil
}

// look reads a file with unchecked pages. Damage must end a call with an error, not the process, and leave no lock.
func look(t *testing.T, path string) error {
	db, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		return err
	}
	_, listErr := db.Listing(t.Context())
	_, loadErr := db.Load(t.Context(), "one")
	for _, err := range []error{listErr, loadErr} {
		if _, named := errors.AsType[*CorruptError](err); err != nil && !named && !errors.Is(err, boulder.ErrNotFound) {
			return errors.Join(err, db.Close())
		}
	}
	return db.Close()
}

// TestOpenRefusesWithoutHarm: an unusable file is refused with the reason, and not changed.
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
		"without logs":        dropped(bucketLog),
		"without its version": rewrite(t, whole, setVersion("")),
		"version zero":        rewrite(t, whole, setVersion("0")),
		"version text":        rewrite(t, whole, setVersion("one")),
	} {
		for _, readOnly := range []bool{false, true} {
			refused(t, name, data, Options{ReadOnly: readOnly}, unusable)
		}
	}
	for n := 1; n < usedPages(t, whole); n++ {
		refused(t, fmt.Sprintf("cut to %d pages", n), whole[:n*page], Options{ReadOnly: n%2 == 0}, unusable)
	}
	for version, says := range map[string]string{"6": "update manager", "4": "pre-release"} {
		other := rewrite(t, whole, setVersion(version))
		refused(t, "version "+version, other, Options{}, func(err error) bool {
			v, ok := errors.AsType[*VersionError](err)
			return ok && v.Known == schemaVersion && strings.Contains(err.Error(), says)
		})
	}
}

func unusable(err error) bool { return errors.Is(err, ErrUnusable) }

func refused(t *testing.T, name string, data []byte, opts Options, is func(error) bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the refused file must not stay locked
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

// TestCorruptRecordsAreNamed: an unreadable event is named, others are still read, and no run starts without it. Other
// records of a boulder follow from its log: they are not missed, and the next commit restores them.
func TestCorruptRecordsAreNamed(t *testing.T) {
	t.Parallel()
	gone := func(bucket, key []byte) func(*bolt.Tx) error {
		return func(tx *bolt.Tx) error { return tx.Bucket(bucket).Delete(key) }
	}
	want, err := openBytes(t, databaseBytes(t)).Listing(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		damage func(*bolt.Tx) error
		key    string // named in the error; empty: no error
	}{
		"first event":   {overwrite(bucketLog, logKey("id", 1)), "id/1"},
		"event":         {overwrite(bucketLog, logKey("id", 4)), "id/4"},
		"missing event": {gone(bucketLog, logKey("id", 4)), "id/5"},
		"last event":    {gone(bucketLog, logKey("id", 6)), "id/6"},
		"future event": {func(tx *bolt.Tx) error {
			return store(tx.Bucket(bucketLog), logKey("id", 2), `{"type":"from-the-future","seq":2}`)
		}, "id/2"},
		"item":     {overwrite(bucketList, []byte("id")), ""},
		"snapshot": {func(tx *bolt.Tx) error { return store(tx.Bucket(bucketSnapshots), []byte("id"), `{"boulder":3}`) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openBytes(t, rewrite(t, databaseBytes(t), tc.damage))
			named := func(err error) bool {
				c, ok := errors.AsType[*CorruptError](err)
				return ok && c.Key == tc.key || err == nil && tc.key == ""
			}
			if s, err := db.Load(t.Context(), "id"); !named(err) || (s == nil) == (tc.key == "") {
				t.Errorf("load: %v", err)
			}
			if d, err := db.Get(t.Context(), "id"); !named(err) || (d.Boulder.ID == "") != (tc.key == "id/1") {
				t.Errorf("get: %+v, %v", d.Boulder, err)
			}
			if all, err := db.Listing(t.Context()); cmp.Diff(want, all) != "" || err != nil {
				t.Errorf("list: %v, %v", all, err)
			}
			if tc.key == "" {
				w := &world{State: restore(t, db, "id"), id: "id", now: epoch.AddDate(1, 0, 0)}
				w.must(t, boulder.Resumed{}) // checkTruth sees whether the commit restores the record
				w.commit(t, db)
			}
			if s, err := db.Load(t.Context(), "sound"); err != nil || len(s.SubTasks) != 2 {
				t.Errorf("the other boulder: %v", err)
			}
		})
	}
}

// databaseBytes returns a closed database with two boulders: "id", with a live attempt, and the older "sound".
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

// rewrite changes a closed database with plain bbolt.
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

// usedPages counts the pages up to the last one ever written.
func usedPages(t testing.TB, data []byte) (n int) {
	rewrite(t, data, func(tx *bolt.Tx) error {
		n = int(tx.Size()) / os.Getpagesize()
		return nil
	})
	return n
}

// store writes a record with a correct checksum.
func store(b *bolt.Bucket, key []byte, text string) error {
	_, err := (&DB{file: new(boltfile.DB)}).put(b, key, json.RawMessage(text))
	return err
}

func overwrite(bucket, key []byte) func(*bolt.Tx) error {
	return func(tx *bolt.Tx) error { return tx.Bucket(bucket).Put(key, []byte(`{"id":`)) }
}

func setVersion(text string) func(*bolt.Tx) error {
	return func(tx *bolt.Tx) error {
		if text == "" {
			return tx.Bucket(bucketMeta).Delete([]byte("schema"))
		}
		return tx.Bucket(bucketMeta).Put([]byte("schema"), []byte(text))
	}
}
