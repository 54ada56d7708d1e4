package store

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// oldDatabase is a database of schema version 1, written by the last commit before version 2. Newest first: 01run, running
// with a retry, a live attempt and one in line; 01wait, paused, and taken up last; 01gone, cancelled before it had a plan;
// 01part, partial; 01done, completed; 01plan, of which there is nothing but the request.
func oldDatabase(t testing.TB) []byte {
	t.Helper()
	return fixture(t, 1)
}

// fixture is a database of an old schema version. That of version 2 is that of version 1, brought up to date and gone on
// with by the last commit before version 3: with 02live, which has a live attempt, and 02over, cancelled and archived.
func fixture(t testing.TB, version int) []byte {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("testdata/v%d.db.gz", version))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A database of an old schema version says the same after its migration, and when it is only looked at, which changes
// nothing. `go test -run Fixture -update` writes anew what it says; nothing writes the databases anew.
func TestFixtures(t *testing.T) {
	t.Parallel()
	for version := 1; version < schemaVersion; version++ {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			t.Parallel()
			testFixture(t, fixture(t, version), fmt.Sprintf("testdata/v%d.json", version))
		})
	}
}

func testFixture(t *testing.T, old []byte, says string) {
	migrated := contents(t, openBytes(t, old))
	if *update {
		if err := os.WriteFile(says, []byte(migrated), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(says)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), migrated); diff != "" {
		t.Errorf("written (-) and migrated (+):\n%s", diff)
	}
	path := filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	view, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	if diff := cmp.Diff(string(want), contents(t, view)); diff != "" {
		t.Errorf("written (-) and looked at (+):\n%s", diff)
	}
	if after, err := os.ReadFile(path); !bytes.Equal(after, old) || err != nil {
		t.Errorf("looking changed the file, or %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); len(entries) != 1 || err != nil {
		t.Errorf("looking left %v, %v", entries, err)
	}
}

// contents is everything that the database gives back, as text.
func contents(t *testing.T, db *DB) string {
	t.Helper()
	list, err := db.List(t.Context())
	items, itemsErr := db.Listing(t.Context())
	if err := errors.Join(err, itemsErr); err != nil {
		t.Fatal(err)
	}
	for i := range items {
		items[i].Active = false // schema 1 has none
	}
	all := []any{items}
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
