package store

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

// tb is the common part of *testing.T and *rapid.T.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

// openTemp opens a new database. When the test ends, all of it is checked.
func openTemp(t testing.TB) *DB {
	t.Helper()
	return openAt(t, filepath.Join(scratch(t), FileName))
}

// scratch returns a directory in memory, if possible: it is faster, and no test here depends on a real disk.
func scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "store") //nolint:usetesting // t.TempDir may be on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func openAt(t testing.TB, path string) *DB {
	t.Helper()
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		checkTruth(t, db)
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// checkTruth compares the stored records of boulders with their logs, and has bbolt check its pages: each reachable or
// free exactly once, with keys in order.
func checkTruth(t testing.TB, db *DB) {
	t.Helper()
	_ = db.view(context.Background(), "check", func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			t.Error("page check: ", err)
		}
		return tx.Bucket(bucketList).ForEach(func(k, _ []byte) error {
			id := string(k)
			loaded, err := load(tx, id)
			whole := boulder.NewState()
			if err != nil || replay(tx, id, whole) != nil {
				return nil //nolint:nilerr // it is damaged, which is what the test is about
			}
			if diff := cmp.Diff(picture(t, whole), picture(t, loaded)); diff != "" {
				t.Errorf("boulder %s: by its log (-) and with its snapshot (+):\n%s", id, diff)
			}
			e := entryOf(tx, id)
			if diff := cmp.Diff(itemOf(&whole.Boulder), e.Item); diff != "" && e.BoulderID != "" {
				t.Errorf("boulder %s: by its log (-) and in the list (+):\n%s", id, diff)
			}
			return nil
		})
	})
}

func onDisk(t testing.TB, db *DB) []byte {
	t.Helper()
	data, err := os.ReadFile(db.file.Path())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// world is one boulder driven by a test. Each event moves its clock by a second.
type world struct {
	*boulder.State
	id  string
	now time.Time
}

func newWorld(t tb, id string, created time.Time, subTasks ...boulder.Spec) *world {
	w := &world{State: boulder.NewState(), id: id, now: created}
	w.must(t, boulder.Created{Boulder: boulder.Boulder{ID: id, Task: "task of " + id, Project: "/project"}})
	if len(subTasks) > 0 {
		w.must(t, boulder.Planned{Plan: revision(1, subTasks)})
		w.must(t, boulder.Decomposed{Plan: revision(2, subTasks), Edited: true})
	}
	return w
}

func revision(number int, subTasks []boulder.Spec) boulder.PlanRevision {
	plan := boulder.Plan{Version: 1, Task: "task", Goal: fmt.Sprintf("goal %d", number), SubTasks: subTasks}
	return boulder.PlanRevision{Number: number, Plan: plan, Hash: plan.Hash(), Origin: boulder.OriginModel}
}

func (w *world) apply(body boulder.Body) error {
	w.now = w.now.Add(time.Second)
	_, err := w.Apply(boulder.Event{Time: w.now, BoulderID: w.id, Body: body})
	return err
}

func (w *world) must(t tb, body boulder.Body) {
	t.Helper()
	if err := w.apply(body); err != nil {
		t.Fatalf("%v", err)
	}
}

// start takes an attempt to its first sent prompt.
func (w *world) start(t tb, ref boulder.AttemptRef) {
	t.Helper()
	w.must(t, boulder.Starting{AttemptRef: ref, Tag: "tag", Prompt: "brief of " + ref.SubTaskID})
	w.must(t, boulder.SubTaskStart{AttemptRef: ref, Description: "d", SessionID: "ses_" + ref.SubTaskID})
	w.must(t, boulder.TurnSent{AttemptRef: ref, Turn: 1, Kind: boulder.TurnBrief, MessageID: "msg_" + ref.SubTaskID})
}

func (w *world) finish(t tb, ref boulder.AttemptRef) {
	t.Helper()
	w.must(t, boulder.TurnEnded{AttemptRef: ref, Turn: 1, Evidence: boulder.Evidence{FinalMessage: "did it"}})
	w.must(t, boulder.Judged{AttemptRef: ref, Turn: 1, Verdict: boulder.Verdict{Completed: true, Summary: "done"}})
	w.must(t, boulder.SubTaskDone{
		AttemptRef: ref, Completed: true, Summary: "done", Output: "out", Status: boulder.SubTaskCompleted,
		AttemptStatus: boulder.AttemptCompleted,
	})
}

func (w *world) commit(t tb, db *DB) {
	t.Helper()
	events := w.TakeEvents()
	if len(events) == 0 {
		return
	}
	if err := db.Commit(context.Background(), w.State, events); err != nil {
		t.Fatalf("%v", err)
	}
}

func ref(subTaskID string, attempt int) boulder.AttemptRef {
	return boulder.AttemptRef{SubTaskID: subTaskID, Attempt: attempt}
}

func spec(id string, dependsOn ...string) boulder.Spec {
	return boulder.Spec{ID: id, Subject: "Do " + id, Description: "what " + id + " is", DependsOn: dependsOn}
}

// picture returns the whole state as text, with times as in JSON.
func picture(t tb, s *boulder.State) string {
	t.Helper()
	queues := maps.Clone(s.Queues())
	maps.DeleteFunc(queues, func(_ string, queue []*boulder.Open) bool { return len(queue) == 0 })
	text, err := json.MarshalIndent([]any{s.Snapshot(), queues, s.Completed(len(s.SubTasks))}, "", " ")
	if err != nil {
		t.Fatalf("%v", err)
	}
	return string(text)
}

func restore(t tb, db *DB, id string) *boulder.State {
	t.Helper()
	s, err := db.Load(context.Background(), id)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return s
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 6789, time.UTC)
