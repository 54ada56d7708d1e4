package store

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
)

// A database that schema version 1 wrote is opened by every later version, and says the same. `go test -run Fixture
// -update` writes it anew, which only a schema version that was never released may do.
func TestFixtureOfSchema1(t *testing.T) {
	t.Parallel()
	if *update {
		writeFixture(t)
	}
	data, err := os.ReadFile("testdata/v1.db")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/v1.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), contents(t, openBytes(t, data))); diff != "" {
		t.Errorf("written (-) and read now (+):\n%s", diff)
	}
}

// writeFixture stores two boulders that have every kind of record.
func writeFixture(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	newWorld(t, "01old", epoch.AddDate(0, 0, -1)).commit(t, db)
	w := newWorld(t, "01run", epoch, spec("schema"), spec("reader", "schema"), spec("writer", "schema"))
	w.start(t, ref("schema", 1))
	w.must(t, boulder.Retry{AttemptRef: ref("schema", 1), Status: boulder.AttemptFailed, Next: 2, Digest: "gate is red"})
	w.start(t, ref("schema", 2))
	w.must(t, boulder.SubTaskProgress{
		AttemptRef: ref("schema", 2), Activity: "edit a.go",
		Checkpoint: &boulder.Checkpoint{File: "a.go", Line: 3, Context: "func a() {", At: epoch},
	})
	w.must(t, boulder.UsageReport{
		SubTaskID: "schema", Attempt: 2, Source: "attempt",
		Usage: boulder.Usage{Input: 100, Output: 10, Calls: 1, Cost: 0.01},
	})
	w.finish(t, ref("schema", 2))
	w.start(t, ref("reader", 1))
	w.commit(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := contents(t, openBytes(t, data))
	for name, content := range map[string][]byte{"v1.db": data, "v1.json": []byte(text)} {
		if err := os.WriteFile(filepath.Join("testdata", name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// contents is everything that the database gives back, as text.
func contents(t *testing.T, db *DB) string {
	t.Helper()
	var all []any
	list, err := db.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range list {
		records, loadErr := db.Load(t.Context(), b.ID)
		detail, getErr := db.Get(t.Context(), b.ID)
		events, eventsErr := db.Events(t.Context(), b.ID, 0, 0)
		for _, err := range []error{loadErr, getErr, eventsErr} {
			if err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, b.ID, records, detail, events)
		for _, s := range detail.SubTasks {
			turns, err := db.Turns(t.Context(), b.ID, s.ID)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, turns)
		}
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}
