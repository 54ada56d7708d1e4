package cli

import (
	"errors"
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
	damaged := []byte("01k00001\x00\x00\x00\x00\x00\x00\x00\x00\x01")
	err = db.Update(func(tx *bolt.Tx) error {
		return errors.Join(tx.Bucket([]byte("log")).Put(damaged, []byte(`{}`)),
			tx.Bucket([]byte("list")).Put([]byte("01k00002"), []byte(`{"id":`)))
	})
	if err != nil || db.Close() != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args         []string
		code         int
		shows, names string
	}{
		{[]string{"list"}, exitOK, "01k00002", ""}, // an item of the list follows from the log
		{[]string{"show", "01k00000"}, exitOK, "01k00000", ""},
		{[]string{"show", "01k00002"}, exitOK, "01k00002", ""},
		{[]string{"show", "01k00001"}, exitError, "", "01k00001/1 in log"},
		{[]string{"logs", "01k00001"}, exitError, "", "01k00001/1 in log"},
		{[]string{"logs", "01k00000"}, exitOK, "created", ""},
		{[]string{"export", "01k00001"}, exitError, "", "01k00001/1 in log"},
		{[]string{"export", "01k00000"}, exitOK, `"manager_export": 2`, ""},
		{[]string{"archive", "01k00001"}, exitOK, "Archived 01k00001", ""}, // its snapshot is whole
		{[]string{"archive", "01k00000"}, exitOK, "Archived 01k00000", ""},
	} {
		stdout, stderr, code := command(project, test.args...)
		if code != test.code || !strings.Contains(stdout, test.shows) || !strings.Contains(stderr, test.names) ||
			test.names == "" && stderr != "" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", test.args, code, stdout, stderr)
		}
	}
}
