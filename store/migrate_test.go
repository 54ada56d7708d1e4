package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

func writeOld(t testing.TB) (path string, data []byte) {
	t.Helper()
	data = oldDatabase(t)
	path = filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, data
}

func backups(t testing.TB, path string) []string {
	t.Helper()
	found, err := filepath.Glob(path + ".v1-*.bak")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A migration leaves a copy of the file as it was, for its owner only, and every boulder as it was, to be looked at and to
// be gone on with. It is done once.
func TestMigration(t *testing.T) {
	t.Parallel()
	path, old := writeOld(t)
	for range 2 {
		db := openAt(t, path)
		if id, err := db.Active(t.Context()); id != "01wait" || err != nil { // not the newest: it was taken up last
			t.Errorf("the active boulder is %q, %v", id, err)
		}
		items, err := db.Listing(t.Context())
		if err != nil || len(items) != 6 {
			t.Fatalf("%d boulders, %v", len(items), err)
		}
		for _, item := range items {
			s := restore(t, db, item.BoulderID) // which checks the tally as well
			if s.Boulder.Tally != item.Tally {
				t.Errorf("boulder %s counts %+v, and its item %+v", item.BoulderID, s.Boulder.Tally, item.Tally)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	found := backups(t, path)
	if len(found) != 1 {
		t.Fatalf("there are the backups %v", found)
	}
	if info, err := os.Stat(found[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup has %v, %v", info, err)
	}
	// bbolt copies with new meta pages; behind them it is the same.
	data, err := os.ReadFile(found[0])
	if behind := 2 * os.Getpagesize(); err != nil || !bytes.Equal(data[behind:], old[behind:]) {
		t.Errorf("the backup differs from the file as it was, %v", err)
	}
	// It is as good as the file was.
	db := openBytes(t, data)
	w := &world{State: restore(t, db, "01run"), id: "01run", now: epoch.AddDate(0, 1, 0)}
	w.must(t, boulder.TakenUp{})
	w.must(t, boulder.Noted{Text: "go on"})
	w.commit(t, db)
}

// A crash in the middle of a migration leaves the old tree: what the migration wrote without its meta page is that tree.
// It is brought up to date then as if nothing had been.
func TestMigrationCrashes(t *testing.T) {
	t.Parallel()
	path, old := writeOld(t)
	if err := openAt(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	migrated, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	behind := 2 * os.Getpagesize()
	crashed := bytes.Clone(migrated)
	copy(crashed, old[:behind])
	if bytes.Equal(migrated[behind:len(old)], old[behind:]) && len(migrated) == len(old) {
		t.Fatal("the migration wrote nothing but meta pages: this test shows nothing")
	}
	if got, want := contents(t, openBytes(t, crashed)), contents(t, openBytes(t, old)); got != want {
		t.Errorf("after the crash there is\n%s", got)
	}
}

// Without a backup nothing is migrated.
func TestMigrationNeedsItsBackup(t *testing.T) {
	t.Parallel()
	asPlainUser(t, func(t *testing.T) {
		path, old := writeOld(t)
		dir := filepath.Dir(path)
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
		_, err := Open(path, Options{})
		if err == nil || !strings.Contains(err.Error(), "could not be backed up") || !strings.Contains(err.Error(), "writable") {
			t.Errorf("%v", err)
		}
		if data, err := os.ReadFile(path); !bytes.Equal(data, old) || err != nil {
			t.Errorf("the file was changed, %v", err)
		}
	})
}

// A record that cannot be read does not keep the others from being migrated, and is named afterwards as before.
func TestMigrationPassesDamage(t *testing.T) {
	t.Parallel()
	data := rewrite(t, oldDatabase(t), func(tx *bolt.Tx) error {
		return errors.Join(
			tx.Bucket(bucketBoulders).Put([]byte("01done"), []byte(`{"id":`)),
			damage("01part", bucketSubTasks, []byte("b"))(tx),
		)
	})
	db := openBytes(t, data)
	items, err := db.Listing(t.Context())
	if c, ok := errors.AsType[*CorruptError](err); !ok || c.Key != "01done" || len(items) != 5 {
		t.Errorf("%d boulders, %v", len(items), err)
	}
	if _, err := db.Load(t.Context(), "01part"); !strings.Contains(err.Error(), `record "b" in work/01part/sub_tasks`) {
		t.Errorf("%v", err)
	}
	restore(t, db, "01run")
}

// A migration that fails leaves the file as it was, and no copies of it, however often it is tried.
func TestFailedMigrationLeavesNothing(t *testing.T) {
	t.Parallel()
	path, _ := writeOld(t)
	data := rewrite(t, oldDatabase(t), func(tx *bolt.Tx) error {
		created := tx.Bucket(bucketCreated)
		key, _ := created.Cursor().Last()
		key = bytes.Clone(key)
		if err := created.Delete(key); err != nil {
			return err
		}
		_, err := created.CreateBucket(key) // where an item should be
		return err
	})
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := Open(path, Options{}); err == nil || !strings.Contains(err.Error(), "nothing was changed") {
			t.Fatalf("%v", err)
		}
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(after, data) {
		t.Errorf("the file was changed, %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); len(entries) != 1 || err != nil {
		t.Errorf("there are %v, %v", entries, err)
	}
	db, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	restore(t, db, "01wait")
}
