package store

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// If the database is removed while open, as `git clean -fdx` does, the next commit or Close writes it back. The error
// says where, and no other file is touched. If the project is gone, the error says so, and reads still work.
func TestDatabaseIsTakenAway(t *testing.T) {
	t.Parallel()
	itself := func(path string) string { return path }
	for name, tc := range map[string]struct {
		take func(path string) error
		back func(path string) string // where it is afterwards; nil: nowhere
	}{
		"file deleted":      {os.Remove, itself},
		"directory deleted": {func(path string) error { return os.RemoveAll(filepath.Dir(path)) }, itself},
		"project deleted":   {func(path string) error { return os.RemoveAll(filepath.Dir(filepath.Dir(path))) }, nil},
		"replaced": {func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte("another's"), 0o600))
		}, rescued},
	} {
		for _, close := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				dir, err := EnsureDir(t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(dir, FileName)
				db, err := Open(path, Options{})
				if err != nil {
					t.Fatal(err)
				}
				w := newWorld(t, "id", epoch, spec("a"))
				w.commit(t, db)
				w.must(t, boulder.Noted{Text: "this is stored"})
				w.commit(t, db)
				want := picture(t, w.State)
				if err := tc.take(path); err != nil {
					t.Fatal(err)
				}
				w.start(t, ref("a", 1))
				if !close {
					err = db.Commit(t.Context(), w.State, w.TakeEvents())
					if got := picture(t, restore(t, db, "id")); got != want {
						t.Errorf("the open one reads\n%s\nand was\n%s", got, want)
					}
				}
				if closeErr := db.Close(); close {
					err = closeErr
				} else if closeErr != nil {
					t.Errorf("close: %v", closeErr)
				}
				if tc.back == nil {
					if !errors.Is(err, ErrMoved) || !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%v", err)
					}
					return
				}
				back := tc.back(path)
				if !errors.Is(err, ErrMoved) || !strings.Contains(err.Error(), back) {
					t.Errorf("%v, which does not say %s", err, back)
				}
				if got := picture(t, restore(t, openAt(t, back), "id")); got != want {
					t.Errorf("it is back as\n%s\nand was\n%s", got, want)
				}
				if back != path {
					if data, err := os.ReadFile(path); string(data) != "another's" || err != nil {
						t.Errorf("what had taken its place is %q, %v", data, err)
					}
				}
				if entries, err := os.ReadDir(dir); err != nil || len(entries) > 3 {
					t.Errorf("besides it there are %v, %v", entries, err)
				}
			})
		}
	}
}

func rescued(path string) string {
	found, _ := filepath.Glob(path + ".rescued-*")
	return strings.Join(found, " and ")
}

// TestFileIsCutWhileOpen: truncating the open file removes mapped pages. Calls fail then, and the process survives.
func TestFileIsCutWhileOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(path, databaseBytes(t), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "x", epoch)
	w.commit(t, db)
	w.must(t, boulder.Noted{Text: "this is stored"})
	w.commit(t, db)
	w.must(t, boulder.Noted{Text: "this is nowhere"})
	events := w.TakeEvents()
	if err := os.Truncate(path, int64(2*os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	if _, err := errors.AsType[*CorruptError](second(db.Listing(t.Context()))); !err {
		t.Error("the list was read from a file that is cut")
	}
	for range 2 {
		if err := db.Commit(t.Context(), w.State, events); err == nil {
			t.Error("a commit went through on a file that is cut")
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestReadOnlyPlaces: a place without write permission is refused with what to do, unchanged, and can still be read.
func TestReadOnlyPlaces(t *testing.T) {
	t.Parallel()
	asPlainUser(t, func(t *testing.T) {
		source := openTemp(t)
		newWorld(t, "one", epoch).commit(t, source)
		newWorld(t, "two", epoch).commit(t, source)
		whole := onDisk(t, source)
		dir := filepath.Join(t.TempDir(), DirName)
		path := filepath.Join(dir, FileName)
		if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(path, whole, 0o644), os.Chmod(path, 0o444),
			os.Chmod(dir, 0o555)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
		refuse := func(name string, err error) {
			t.Helper()
			if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "writable, or choose another") {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, err := Open(path, Options{})
		refuse("a file", err)
		_, err = Open(filepath.Join(dir, "new.db"), Options{})
		refuse("a new file", err)
		_, err = EnsureDir(dir)
		refuse("a directory", err)
		db, err := Open(path, Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if all, err := db.Listing(t.Context()); len(all) != 2 || err != nil {
			t.Errorf("%d boulders, %v", len(all), err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if after, err := os.ReadFile(path); !bytes.Equal(after, whole) || err != nil {
			t.Errorf("the file was changed, %v", err)
		}
	})
}
