package blockers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/store"
)

// edit changes the database behind the register's back.
func (p *project) edit(change func(*bolt.Tx) error) error {
	db, err := bolt.Open(p.database(), 0o600, nil)
	if err != nil {
		return err
	}
	return errors.Join(db.Update(change), db.Close())
}

// A foreign, damaged or newer file is refused with what to do, and left unchanged.
func TestDatabasesThatAreRefused(t *testing.T) {
	t.Parallel()
	for want, damage := range map[string]func(p *project, path string) error{
		"not a database of manager": func(_ *project, path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("text ", 10_000)), 0o600)
		},
		"newer manager (schema 4, this one knows up to 3)": func(p *project, _ string) error {
			return p.edit(func(tx *bolt.Tx) error { return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte("4")) })
		},
		"not a regular file": func(_ *project, path string) error {
			return errors.Join(os.Rename(path, path+"2"), os.Symlink(path+"2", path))
		},
		"not a directory": func(_ *project, path string) error {
			dir := filepath.Dir(path)
			return errors.Join(os.Rename(dir, dir+"2"), os.Symlink(dir+"2", dir))
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			p := newProject(t)
			d, path := p.register(t), p.database()
			raise(t, d, hardInput("Which?"))
			check(t, damage(p, path))
			before, _ := os.ReadFile(path)
			_, raiseErr := d.Raise(t.Context(), scope, hardInput("Who?"))
			_, listErr := d.List(t.Context(), Filter{})
			_, statusErr := d.Status(t.Context())
			_, divertErr := d.Divert(t.Context(), permission("per_1", "ls"))
			for _, err := range []error{raiseErr, listErr, statusErr, divertErr} {
				version, newer := errors.AsType[*store.VersionError](err)
				if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) ||
					!errors.Is(err, store.ErrUnusable) && (!newer || version.Found != 4) {
					t.Errorf("%v", err)
				}
			}
			if !d.On(scope) {
				t.Error("where no switch can be read, the configuration holds")
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
}

// A record that cannot be read is named, and the others are returned.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.register(t)
	for _, q := range []string{"One?", "Two?", "Three?", "Four?"} {
		raise(t, d, hardInput(q))
	}
	check(t, p.edit(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketRecords)
		return errors.Join(b.Put([]byte("\x00\x00\x00\x00\x00\x00\x00\x02"), []byte("{")),
			b.Put([]byte("\x00\x00\x00\x00\x00\x00\x00\x03"), []byte(`{"blocker":{"id":"W9"}}`)))
	}))
	found, err := d.List(t.Context(), Filter{})
	if len(found) != 2 || err == nil || !strings.Contains(err.Error(), "record W2 in records") ||
		!strings.Contains(err.Error(), "record W3 in records") {
		t.Errorf("%d, %v", len(found), err)
	}
	_, err = d.Get(t.Context(), "W2")
	if corrupt, ok := errors.AsType[*store.CorruptError](err); !ok || corrupt.Key != "W2" {
		t.Errorf("%v", err)
	}
	raise(t, d, hardInput("Five?"))
	if s := status(t, d); !strings.Contains(s.Trouble, "record W2 in records") || !strings.Contains(p.file(t), "Five?") {
		t.Errorf("one record keeps the others back: %+v", s)
	}
}

// A register waits for a database that another process holds, until the context ends or its patience is over.
func TestWaiting(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.register(t)
	raise(t, d, hardInput("Which?"))
	db, err := bolt.Open(p.database(), 0o600, nil)
	check(t, err)
	d.patience = 60 * time.Millisecond
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() {
		_, err := d.List(ctx, Filter{})
		done <- err
	}()
	cancel(stop)
	if err := <-done; !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
	if _, err := d.List(t.Context(), Filter{}); !errors.Is(err, store.ErrHeld) || !strings.Contains(err.Error(), FileName) {
		t.Errorf("%v", err)
	}
	if !d.On(scope) {
		t.Error("where no switch can be read, the configuration holds")
	}
	check(t, db.Close())
	listed(t, d, Filter{})
}

// The error says where a database cannot be created. An empty file, left by a creator that stopped early, is reused.
func TestPlacesForTheDatabase(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.register(t, func(c *Config) { c.Root = filepath.Join(p.dir, "none") })
	if _, err := d.Raise(t.Context(), scope, hardInput("Which?")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	d = p.register(t)
	state := filepath.Join(p.dir, store.DirName)
	check(t, os.WriteFile(state, nil, 0o600))
	if _, err := d.Raise(t.Context(), scope, hardInput("Which?")); !errors.Is(err, store.ErrUnusable) {
		t.Errorf("%v", err)
	}
	check(t, os.Remove(state))
	_, err := store.EnsureDir(p.dir)
	check(t, errors.Join(err, os.WriteFile(p.database(), nil, 0o644))) //nolint:gosec // what is wrong with it is put right
	if n := len(listed(t, d, Filter{})); n != 0 {
		t.Errorf("%d", n)
	}
	raise(t, d, hardInput("Which?"))
	if info, err := os.Stat(p.database()); err != nil || info.Mode().Perm() != 0o600 || len(listed(t, d, Filter{})) != 1 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
