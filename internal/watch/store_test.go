package watch

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/store"
)

const main = "ses_root"

func openTest(t *testing.T, path string) *Store {
	t.Helper()
	s, err := OpenStore(path, false, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// What is saved is read back after the file was opened anew, for its owner only; a history keeps the newest decisions.
func TestStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), FileName)
	s := openTest(t, path)
	r := Record{SessionID: main, Track: enforcer.Track{Iteration: 3}, Intent: &Intent{MessageID: "msg_1"}}
	var entries []Entry
	for i := range maxHistory + 5 {
		entries = append(entries, Entry{SessionID: main, Iteration: i})
	}
	s.Clean = func(record []byte) []byte { return bytes.ReplaceAll(record, []byte("hunter2"), []byte("[secret]")) }
	r.Title = "Log in with hunter2"
	if err := s.Save([]Record{r}, entries...); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := OpenStore(path, false, time.Millisecond); !errors.Is(err, store.ErrHeld) {
		t.Errorf("opened twice: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, path)
	records, err := s.Records()
	if err != nil || len(records) != 1 || records[0].Track.Iteration != 3 || records[0].Intent.MessageID != "msg_1" ||
		records[0].Title != "Log in with [secret]" {
		t.Errorf("%+v, %v", records, err)
	}
	history, err := s.History(main)
	if err != nil || len(history) != maxHistory || history[0].Iteration != 5 {
		t.Errorf("%d decisions from %d on, %v", len(history), history[0].Iteration, err)
	}
	if err := s.Forget(main); err != nil {
		t.Fatal(err)
	}
	records, recordsErr := s.Records()
	history, err = s.History(main)
	if err := errors.Join(recordsErr, err); err != nil || len(records)+len(history) != 0 {
		t.Errorf("%v, %v, %v", records, history, err)
	}
}

// A record that cannot be read is named, and the others are not lost. A file that is none of ours is not touched.
func TestDamagedStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	s := openTest(t, path)
	if err := s.Save([]Record{{SessionID: "ses_a"}, {SessionID: "ses_b"}}); err != nil {
		t.Fatal(err)
	}
	err := s.file.Update(t.Context(), func(tx *bolt.Tx) error { return tx.Bucket(bucketSessions).Put([]byte("ses_a"), []byte("{")) })
	if err != nil {
		t.Fatal(err)
	}
	records, err := s.Records()
	if corrupt, ok := errors.AsType[*store.CorruptError](err); !ok || corrupt.Key != "ses_a" || len(records) != 1 {
		t.Errorf("%+v, %v", records, err)
	}
	err = s.file.Update(t.Context(), func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte("99"))
	})
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenStore(path, false, time.Second); err == nil || !strings.Contains(err.Error(), "newer manager") {
		t.Errorf("a newer schema: %v", err)
	}
	other, link := filepath.Join(dir, "other"), filepath.Join(dir, "link")
	text := []byte(strings.Repeat("text ", 10_000))
	if err := errors.Join(os.WriteFile(other, text, 0o600), os.Symlink(path, link)); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{other, link} {
		if _, err := OpenStore(wrong, false, time.Second); !errors.Is(err, store.ErrUnusable) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	if _, err := OpenStore(filepath.Join(dir, "none"), true, time.Second); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
}

// A file that was deleted while it was open is noticed: nobody would find what is written to it.
func TestStoreThatWasDeleted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), FileName)
	s := openTest(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := s.Save([]Record{{SessionID: main}}); !errors.Is(err, store.ErrMoved) {
		t.Errorf("%v", err)
	}
}
