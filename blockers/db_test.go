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

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
)

// edit changes the database behind the desk's back.
func (p *project) edit(t testing.TB, change func(*bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(p.config().Path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(change), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// A file that is not ours, or was damaged, or is from a later manager, is named with what to do, and left as it is.
func TestDatabasesThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(t *testing.T, p *project, path string) error
		want   string
	}{
		"text": {func(_ *testing.T, _ *project, path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("text ", 10_000)), 0o600)
		}, "not a database of manager"},
		"a newer one": {func(t *testing.T, p *project, _ string) error {
			p.edit(t, func(tx *bolt.Tx) error { return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte("3")) })
			return nil
		}, "newer manager (schema 3, this one knows up to 2)"},
		"a link": {func(_ *testing.T, _ *project, path string) error {
			return errors.Join(os.Rename(path, path+"2"), os.Symlink(path+"2", path))
		}, "not a regular file"},
		"a link as state directory": {func(_ *testing.T, _ *project, path string) error {
			dir := filepath.Dir(path)
			return errors.Join(os.Rename(dir, dir+"2"), os.Symlink(dir+"2", dir))
		}, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t)
			d := p.desk(t)
			raise(t, d, hardInput("Which?"))
			path := p.config().Path
			if err := c.damage(t, p, path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(path)
			ctx := t.Context()
			_, _, raiseErr := d.Raise(ctx, scope, hardInput("Who?"))
			_, listErr := d.List(ctx, Filter{})
			_, statusErr := d.Status(ctx)
			_, divertErr := d.Divert(ctx, permission("per_1", "ls"))
			for _, err := range []error{raiseErr, listErr, statusErr, divertErr} {
				version, newer := errors.AsType[*store.VersionError](err)
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) ||
					!errors.Is(err, store.ErrUnusable) && (!newer || version.Found != 3) {
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

// A record that cannot be read is named, and the others come all the same.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.desk(t)
	for _, q := range []string{"One?", "Two?", "Three?", "Four?"} {
		raise(t, d, hardInput(q))
	}
	p.edit(t, func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketRecords)
		return errors.Join(b.Put(numberKey(2), []byte("{")), b.Put(numberKey(3), []byte(`{"blocker":{"id":"B9"}}`)))
	})
	found, err := d.List(t.Context(), Filter{})
	if len(found) != 2 || err == nil || !strings.Contains(err.Error(), "record B2 in records") ||
		!strings.Contains(err.Error(), "record B3 in records") {
		t.Errorf("%d, %v", len(found), err)
	}
	if corrupt, ok := errors.AsType[*store.CorruptError](func() error { _, err := d.Get(t.Context(), "B2"); return err }()); !ok ||
		corrupt.Key != "B2" {
		t.Errorf("%v", corrupt)
	}
	raise(t, d, hardInput("Five?"))
	if s := status(t, d); !strings.Contains(s.Trouble, "record B2 in records") {
		t.Errorf("%+v", s)
	}
	if !strings.Contains(p.file(t), "Five?") {
		t.Error("one record keeps the others back")
	}
}

// Whoever has the file is waited for; a caller that gives up, or has waited long enough, is told.
func TestWaiting(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.desk(t)
	raise(t, d, hardInput("Which?"))
	db, err := bolt.Open(p.config().Path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.patience = 60 * time.Millisecond
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := d.List(ctx, Filter{}); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
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
	if !d.On(boulder.BlockerScope{SessionID: "s"}) {
		t.Error("where no switch can be read, the configuration holds")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	listed(t, d, Filter{})
}

// An empty file is what a maker leaves that has not come further: it is nothing to read, and is made use of.
func TestEmptyDatabase(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.desk(t)
	if _, err := store.EnsureDir(p.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.config().Path, nil, 0o644); err != nil { //nolint:gosec // what is wrong with it is put right
		t.Fatal(err)
	}
	if n := len(listed(t, d, Filter{})); n != 0 {
		t.Errorf("%d", n)
	}
	raise(t, d, hardInput("Which?"))
	if info, err := os.Stat(p.config().Path); err != nil || info.Mode().Perm() != 0o600 || len(listed(t, d, Filter{})) != 1 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
