package store

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/secret"
)

// TestRedact: with Redact, the file holds no byte of a secret, whatever the record. The records decode and restore.
func TestRedact(t *testing.T) {
	t.Parallel()
	const key = `planted "key" of <40> characters & more`
	path := filepath.Join(t.TempDir(), FileName)
	db, err := Open(path, Options{Redact: secret.New([]string{"MY_TOKEN=" + key}).JSON})
	if err != nil {
		t.Fatal(err)
	}
	said := "it said " + key
	s := spec("a")
	s.Description = said
	w := newWorld(t, "id", epoch, s)
	w.commit(t, db)
	w.start(t, ref("a", 1))
	w.must(t, boulder.BlockerRaised{AttemptRef: ref("a", 1), Blocker: boulder.Blocker{
		ID: "B1", BlockerScope: boulder.BlockerScope{SubTaskID: "a", Attempt: 1}, Status: boulder.BlockerPending,
		Question: said, Context: said, Options: []string{said}, ChosenOption: said, ChosenReasoning: said,
		Ask: &boulder.Ask{Patterns: []string{"echo " + key}, Arguments: `{"command":"echo ` + key + `"}`},
	}})
	w.must(t, boulder.BlockerSettled{SubTaskID: "a", BlockerID: "B1", Status: boulder.BlockerAnswered, Answer: said})
	w.must(t, boulder.TurnEnded{AttemptRef: ref("a", 1), Turn: 1, Evidence: boulder.Evidence{
		FinalMessage: said, Gates: []boulder.Gate{{Command: "true", Output: key}},
		ToolCalls: []boulder.ToolCall{{Input: `{"command":"echo ` + key + `"}`}},
	}})
	w.must(t, boulder.Judged{AttemptRef: ref("a", 1), Turn: 1, Verdict: boulder.Verdict{Summary: said, Completed: true}})
	w.must(t, boulder.StatusChanged{Status: boulder.Paused, Reason: said})
	w.commit(t, db)

	events, err := db.Events(t.Context(), "id", 0, 0)
	turns := boulder.Turns(events, "a")
	if err != nil || len(turns) != 1 || turns[0].Evidence == nil {
		t.Fatalf("%+v, %v", turns, err)
	}
	want := []string{"it said [redacted]", "[redacted]", `{"command":"echo [redacted]"}`}
	got := []string{turns[0].Evidence.FinalMessage, turns[0].Evidence.Gates[0].Output, turns[0].Evidence.ToolCalls[0].Input}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if items, err := db.Listing(t.Context()); err != nil || items[0].Reason != "it said [redacted]" {
		t.Errorf("%+v, %v", items, err)
	}
	if err := restore(t, db, "id").Check(); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if data := onDisk(t, db); bytes.Contains(data, []byte("planted")) || !bytes.Contains(data, []byte("it said [redacted]")) {
		t.Error("the file holds the key, or not what was said")
	}
}
