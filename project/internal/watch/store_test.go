package watch

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/store"
)

const main = "ses_root"

func openTest(t *testing.T, path string) *Store {
	t.Helper()
	clean := func(record []byte) []byte { return bytes.ReplaceAll(record, []byte("hunter2"), []byte("[secret]")) }
	s, err := OpenStore(path, store.Options{Timeout: time.Second, Redact: clean})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Saved records survive reopening. The file is private to its owner. A history keeps the newest decisions.
func TestStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), FileName)
	s := openTest(t, path)
	r := Record{SessionID: main, Intent: &Intent{MessageID: "msg_1"}}
	r.Track.Iteration = 3
	var entries []Entry
	for i := range maxHistory + 5 {
		entries = append(entries, Entry{SessionID: main, Iteration: i})
	}
	r.Title = "Log in with hunter2"
	if err := s.Save([]Record{r}, entries...); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := OpenStore(path, store.Options{}); !errors.Is(err, store.ErrHeld) {
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

// An unreadable record is named, and the others are still read. Reading creates no file.
func TestDamagedStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, filepath.Join(dir, FileName))
	if err := s.Save([]Record{{SessionID: "ses_a"}, {SessionID: "ses_b"}}); err != nil {
		t.Fatal(err)
	}
	err := s.file.Update(t.Context(), func(tx *bolt.Tx) error {
		return tx.Bucket(bucketSessions).Put([]byte("ses_a"), []byte("{"))
	})
	if err != nil {
		t.Fatal(err)
	}
	records, err := s.Records()
	if corrupt, ok := errors.AsType[*store.CorruptError](err); !ok || corrupt.Key != "ses_a" || len(records) != 1 {
		t.Errorf("%+v, %v", records, err)
	}
	if _, err := OpenStore(filepath.Join(dir, "none"), store.Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
}
