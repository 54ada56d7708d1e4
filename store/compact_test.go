package store

import (
	"errors"
	"os"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

// `bbolt compact` copies key by key, also to pages of another size. A run goes on in such a copy.
func TestRunInACompactedFile(t *testing.T) {
	t.Parallel()
	for _, pageSize := range []int{os.Getpagesize(), 4 * os.Getpagesize()} {
		db := openTemp(t)
		w := newWorld(t, "id", epoch, spec("a"))
		w.commit(t, db)
		w.must(t, boulder.Noted{Text: "in the journal"})
		w.commit(t, db)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		from, err := bolt.Open(db.path, 0o600, &bolt.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		path := db.path + ".compacted"
		to, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: pageSize})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(bolt.Compact(to, from, 1<<16), to.Close(), from.Close()); err != nil {
			t.Fatal(err)
		}
		compacted := openAt(t, path)
		for range 5 {
			w.must(t, boulder.Noted{Text: "later"})
			w.commit(t, compacted)
		}
		if got, want := picture(t, restore(t, crashed(t, compacted), "id")), picture(t, w.State); got != want {
			t.Errorf("pages of %d: there is\n%s\nwanted was\n%s", pageSize, got, want)
		}
	}
}
