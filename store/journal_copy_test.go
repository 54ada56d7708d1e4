package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// A copy that `cp` makes while a run goes on may have the meta pages from before a commit that went straight into the
// tree, and the journal from after it; so has a file whose newest meta page cannot be read. What is missing is named:
// no later entry is laid over the older tree, and entries are not lost without a word.
func TestJournalOfANewerTree(t *testing.T) {
	t.Parallel()
	for entries := range 4 {
		db := openTemp(t)
		w := newWorld(t, "id", epoch)
		w.commit(t, db)
		for range entries {
			w.must(t, boulder.Noted{Text: "small"})
			w.commit(t, db)
		}
		before := onDisk(t, db)
		large := spec("a")
		large.Description = strings.Repeat("x", maxEntry)
		w.must(t, boulder.Planned{Plan: revision(1, []boulder.Spec{large})})
		w.must(t, boulder.Decomposed{Plan: revision(2, []boulder.Spec{large}), Edited: true})
		w.commit(t, db)
		w.must(t, boulder.Noted{Text: "after the large one"})
		w.commit(t, db)

		data := onDisk(t, db)
		copy(data, before[:2*db.bolt.Info().PageSize])
		path := filepath.Join(scratch(t), FileName)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		copied, err := Open(path, Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		_, err = copied.Load(t.Context(), "id")
		if bad, ok := errors.AsType[*CorruptError](err); !ok || bad.Bucket != "journal" {
			t.Errorf("with %d entries before: %v", entries, err)
		}
		if err := copied.Close(); err != nil {
			t.Error(err)
		}
	}
}
