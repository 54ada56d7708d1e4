package boltfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

var things = Tree{Version: 1, Buckets: []string{"things"}}

func open1(t *testing.T, path string) *DB {
	t.Helper()
	db, err := Open(path, things, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// A database is its owner's alone, whatever the umask or an unpacked archive made of it.
func TestPrivate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	for _, mode := range []os.FileMode{0o600, 0o666} {
		if err := open1(t, path).Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		db, err := Open(path, things, Options{})
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%v became %v, %v", mode, info.Mode(), err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A new file gets its name only once complete, and leaves no other. Remains of an interrupted creation do no harm.
func TestMade(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	for _, left := range []string{tempName(path), tempName(path)} {
		if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := open1(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); len(entries) != 3 || err != nil {
		t.Errorf("%v, %v", entries, err)
	}
	db := open1(t, path)
	for _, refused := range []Options{{}, {ReadOnly: true}, {Timeout: 60 * time.Millisecond}} {
		if _, err := Open(path, things, refused); !errors.Is(err, ErrHeld) {
			t.Errorf("%+v: %v", refused, err)
		}
	}
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	waited, err := Open(path, things, Options{Timeout: time.Minute}) // gets the file once it is free
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-closed, waited.Close()); err != nil {
		t.Fatal(err)
	}
}

// The readable part of a damaged file goes to a new one, with nested buckets and sequences. The damaged one is kept.
func TestHealed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	db := open1(t, path)
	const n = 400
	for range 2 { // so that the commit before has the same pages
		err := db.Update(t.Context(), func(tx *bolt.Tx) error {
			b := tx.Bucket([]byte("things"))
			inner, err := b.CreateBucketIfNotExists([]byte("inner"))
			if err != nil {
				return err
			}
			for i := range n {
				key := fmt.Appendf(nil, "%04d", i)
				if b.Get(key) != nil {
					continue
				}
				if err := errors.Join(b.Put(key, make([]byte, 100)), inner.Put(key, key)); err != nil {
					return err
				}
			}
			return errors.Join(b.SetSequence(7), inner.SetSequence(9))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page, healed := os.Getpagesize(), 0
	for at := 2 * page; at < len(data); at += page {
		broken := slices.Clone(data)
		broken[at+12] ^= 4 // claims four more pages
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := Open(path, things, Options{})
		if errors.Is(err, ErrUnusable) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		err = db.Update(t.Context(), func(tx *bolt.Tx) error {
			b := tx.Bucket([]byte("things"))
			inner := b.Bucket([]byte("inner"))
			if b.Sequence() != 7 || inner.Sequence() != 9 {
				t.Errorf("page %d: sequences %d and %d", at/page, b.Sequence(), inner.Sequence())
			}
			for _, b := range []*bolt.Bucket{b, inner} {
				_ = b.ForEach(func(_, v []byte) error {
					if v != nil {
						found++
					}
					return nil
				})
			}
			return b.Put([]byte("new"), nil)
		})
		if err := errors.Join(err, db.Close()); err != nil || found < n {
			t.Errorf("page %d: %d of %d keys are left, %v", at/page, found, 2*n, err)
		}
		kept, _ := filepath.Glob(path + ".damaged-*")
		healed += len(kept)
		for _, name := range kept {
			if old, err := os.ReadFile(name); err != nil || !slices.Equal(old, broken) {
				t.Errorf("page %d: the damaged file was not kept, %v", at/page, err)
			}
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if healed < 5 {
		t.Errorf("%d files were put right", healed)
	}
}

// Between fork and exec, a child process shares every open file. A closed reader must leave it no lock.
func TestClosedReaderLeavesNoLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	if err := open1(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	reader, err := Open(path, things, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	child, err := syscall.Dup(int(reader.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(child)
	if err := errors.Join(reader.Close(), reader.Close()); err != nil {
		t.Fatal(err)
	}
	open1(t, path)
}
