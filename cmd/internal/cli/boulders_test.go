package cli

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/store"
)

// Each command that needs a damaged record names it, and no other command does. What is readable is shown.
func TestDamagedRecordsAreNamed(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	for _, id := range []string{"01k00000", "01k00001", "01k00002"} {
		s := newSampleOf(t, id)
		s.Play()
		s.Finish()
		s.storeIn(project)
	}
	damage(t, project, func(tx *bolt.Tx) error {
		return errors.Join(tx.Bucket([]byte("log")).Put([]byte("01k00001\x00\x00\x00\x00\x00\x00\x00\x00\x01"), []byte(`{}`)),
			tx.Bucket([]byte("list")).Put([]byte("01k00002"), []byte(`{"id":`)))
	})
	for _, test := range []struct {
		args         []string
		code         int
		shows, names string
	}{
		{[]string{"list"}, exitOK, "k00002", ""}, // the list is rebuilt from the log
		{[]string{"show", "01k00000"}, exitOK, "01k00000", ""},
		{[]string{"show", "01k00002"}, exitOK, "01k00002", ""},
		{[]string{"show", "01k00001"}, exitError, "", "01k00001/1 in log"},
		{[]string{"logs", "01k00001"}, exitError, "", "01k00001/1 in log"},
		{[]string{"logs", "01k00000"}, exitOK, "created", ""},
		{[]string{"export", "01k00001"}, exitError, "", "01k00001/1 in log"},
		{[]string{"export", "01k00000"}, exitOK, `"manager_export": 3`, ""},
		{[]string{"archive", "01k00001"}, exitOK, "Archived k00001", "01k00001/1 in log"}, // its snapshot is intact, and not what names its sessions
		{[]string{"archive", "01k00002"}, exitOK, "Archived k00002", "its sessions stay in OpenCode's lists: OpenCode is not installed"},
	} {
		stdout, stderr, code := command(project, test.args...)
		if code != test.code || !strings.Contains(stdout, test.shows) || !strings.Contains(stderr, test.names) ||
			test.names == "" && stderr != "" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", test.args, code, stdout, stderr)
		}
	}
}

func damage(t *testing.T, project string, write func(*bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(filepath.Join(project, store.DirName, store.FileName), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(write), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// An unreadable, unfinished boulder does not keep others in the project from running.
func TestUnreadableBoulderHarmsNoOther(t *testing.T) {
	t.Parallel()
	s := newSampleOf(t, "01k00001")
	s.Play()
	project := s.store()
	damage(t, project, func(tx *bolt.Tx) error {
		log := tx.Bucket([]byte("log"))
		newest, _ := log.Cursor().Last()
		return errors.Join(log.Put(newest, []byte(`{}`)), tx.Bucket([]byte("snapshots")).Delete([]byte("01k00001")))
	})
	expect(t, project, exitError, []string{"show", "01k00001"}, "in log")
	a, _, _ := testApp(t, project)
	if err := a.project.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	st, err := a.project.Hold(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	st.Release()
}
