package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
)

// manyBoulders makes a project with n boulders that are over, and returns it with the path of its database.
func manyBoulders(t testing.TB, n int) (project, path string) {
	t.Helper()
	project = t.TempDir()
	dir, err := store.EnsureDir(project)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, store.FileName)
	db, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	task := strings.Repeat("Add dark mode to the settings page. ", 5)
	for i := range n {
		s, id := boulder.NewState(), fmt.Sprintf("01k%05d", i)
		for _, body := range []boulder.Body{
			boulder.Created{Boulder: boulder.Boulder{ID: id, Task: task, Project: project}},
			boulder.StatusChanged{Status: boulder.Cancelled, Reason: "declined"},
		} {
			at := sampleStart.Add(time.Duration(i) * time.Minute)
			if _, err := s.Apply(boulder.Event{Time: at, BoulderID: id, Body: body}); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Commit(t.Context(), s, s.TakeEvents()); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return project, path
}

// What changes the database says who holds it, changes nothing, and ends with the exit code for that.
func TestChangesWhileItIsHeld(t *testing.T) {
	t.Parallel()
	project, path := manyBoulders(t, 1)
	file := filepath.Join(t.TempDir(), "export.json")
	if _, stderr, code := command(project, "export", "-o", file); code != exitOK {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"archive"}, {"archive", "--undo", "01k"}, {"import", file}} {
		stdout, stderr, code := command(project, args...)
		if code != exitHeld || stdout != "" || !strings.Contains(stderr, "held by another process") {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(path); string(after) != string(before) || err != nil {
		t.Errorf("the database was changed, %v", err)
	}
}

// A record that cannot be read is named by every command that needs it, and by no other; what can be shown is shown.
func TestDamagedRecordsAreNamed(t *testing.T) {
	t.Parallel()
	project, path := manyBoulders(t, 3)
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		head := []byte("01k00001")
		if err := tx.Bucket([]byte("boulders")).Put(head, []byte(`{"id":`)); err != nil {
			return err
		}
		event := []byte{0, 0, 0, 0, 0, 0, 0, 2}
		return tx.Bucket([]byte("work")).Bucket([]byte("01k00002")).Bucket([]byte("events")).Put(event, []byte(`{}`))
	})
	if err != nil || db.Close() != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args         []string
		code         int
		shows, names string
	}{
		{[]string{"list"}, exitOK, "01k00001", ""}, // lists do not need heads
		{[]string{"show", "01k00000"}, exitOK, "01k00000", ""},
		{[]string{"show", "01k00002"}, exitOK, "01k00002", ""},
		{[]string{"show", "01k00001"}, exitError, "", "record 01k00001 in boulders cannot be read"},
		{[]string{"logs", "01k00002"}, exitError, "created", "record 2 in work/01k00002/events cannot be read"},
		{[]string{"logs", "01k00000"}, exitOK, "created", ""},
		{[]string{"export", "01k00002"}, exitError, "", "record 2 in work/01k00002/events cannot be read"},
		{[]string{"export", "01k00000"}, exitOK, `"manager_export": 1`, ""},
		{[]string{"archive", "01k00001"}, exitError, "", "record 01k00001 in boulders cannot be read"},
		{[]string{"archive", "01k00000"}, exitOK, "Archived 01k00000", ""},
	} {
		stdout, stderr, code := command(project, test.args...)
		if code != test.code || !strings.Contains(stdout, test.shows) || !strings.Contains(stderr, test.names) ||
			test.names == "" && stderr != "" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", test.args, code, stdout, stderr)
		}
	}
}

// `manager list` of 10,000 boulders, all of the command, beside what bare bbolt takes for opening the file and reading
// the same keys and values. To reach: at most three times as long.
func BenchmarkList10000(b *testing.B) {
	const n = 10_000
	if _, err := os.Stat("/dev/shm"); err == nil { // to make it takes 10,000 commits
		b.Setenv("TMPDIR", "/dev/shm")
	}
	project, path := manyBoulders(b, n)
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
			if err != nil {
				b.Fatal(err)
			}
			read := 0
			err = db.View(func(tx *bolt.Tx) error {
				c := tx.Bucket([]byte("created")).Cursor()
				for k, v := c.Last(); k != nil; k, v = c.Prev() {
					read += len(string(k)) + len(string(v))
				}
				return nil
			})
			if err != nil || read == 0 || db.Close() != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			if stdout, stderr, code := command(project, "list"); code != exitOK || strings.Count(stdout, "\n") != n {
				b.Fatal(code, stderr)
			}
		}
	})
}
