package store

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

// tb is what *testing.T and *rapid.T have in common.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

// openTemp opens a new database, whose journal is used from the first commit on, and checks every page of it when the test
// ends.
func openTemp(t testing.TB) *DB {
	t.Helper()
	return openAt(t, filepath.Join(scratch(t), FileName))
}

// scratch is a directory in memory, if the system has that: what a disk does is not tested with it, and takes time.
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
	db.journal.plain = 0
	t.Cleanup(func() {
		checkItems(t, db)
		checkFold(t, db)
		checkPages(t, db)
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// checkPages is bbolt's own check: every page is reachable or free, exactly once, and keys are in order.
func checkPages(t testing.TB, db *DB) {
	t.Helper()
	_ = db.bolt.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			t.Error("page check: ", err)
		}
		return nil
	})
}

// checkFold looks at everything before and after the journal is folded: there must be no difference.
func checkFold(t testing.TB, db *DB) {
	t.Helper()
	if db.whyEnded() != nil || db.closed.Load() {
		return
	}
	before := everything(t, db)
	if err := foldNow(db); err != nil {
		t.Error("fold: ", err)
	}
	if diff := cmp.Diff(before, everything(t, db)); diff != "" {
		t.Errorf("before (-) and after (+) it was folded:\n%s", diff)
	}
	if n := len(db.unfolded.Load().entries); n > 0 {
		t.Errorf("%d entries are left in the journal", n)
	}
}

// foldNow folds the journal as if it were full.
func foldNow(db *DB) error {
	db.writing.Lock()
	defer db.writing.Unlock()
	return db.fold(context.Background(), nil, db.journal.open)
}

// everything is what can be read of a database, and what cannot, as text.
func everything(t testing.TB, db *DB) string {
	t.Helper()
	var all []any
	add := func(value any, err error) {
		all = append(all, value, fmt.Sprint(err))
	}
	ctx := context.Background()
	items, err := db.Listing(ctx)
	add(items, err)
	heads, err := db.List(ctx)
	add(heads, err)
	active, err := db.Active(ctx)
	add(active, err)
	for _, b := range heads {
		r, err := db.Load(ctx, b.ID)
		add(r, err)
		x, err := db.Export(ctx, b.ID)
		add(x, err)
		d, err := db.Get(ctx, b.ID)
		add(d, err)
		for _, s := range d.SubTasks {
			turns, err := db.Turns(ctx, b.ID, s.ID)
			add(turns, err)
		}
		for _, after := range []uint64{0, b.Seq / 2, b.Seq} {
			events, err := db.Events(ctx, b.ID, after, 3)
			add(events, err)
		}
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// crashed opens a copy of the database as it is on disk at this moment, which is what a crash would leave.
func crashed(t testing.TB, db *DB) *DB {
	t.Helper()
	return openBytes(t, onDisk(t, db))
}

func onDisk(t testing.TB, db *DB) []byte {
	t.Helper()
	data, err := os.ReadFile(db.path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// checkItems compares the items of the list with the heads that can be read: each has one, and it says the same.
func checkItems(t testing.TB, db *DB) {
	t.Helper()
	_ = db.view(context.Background(), func(s *snapshot) error {
		created := s.table(inCreated)
		for k, v := range created.backwards() {
			b, err := head(s, createdID(k))
			if err != nil {
				continue
			}
			var item Item
			if err := item.decode(k, v, &texts{}); err != nil {
				t.Errorf("boulder %s: %v", b.ID, err)
			}
			if diff := cmp.Diff(ItemOf(&b), item); diff != "" {
				t.Errorf("boulder %s: head (-) and item (+):\n%s", b.ID, diff)
			}
		}
		n := uint64(0)
		for range (table{file: created.file}).backwards() {
			n++
		}
		if n != created.file.Sequence() {
			t.Errorf("%d boulders are listed in the tree and %d counted", n, created.file.Sequence())
		}
		return nil
	})
}

// world is one boulder that a test drives. Its clock moves a second with each event.
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

// start brings an attempt to the point where its first prompt is sent.
func (w *world) start(t tb, ref boulder.AttemptRef) {
	t.Helper()
	w.must(t, boulder.Starting{AttemptRef: ref, Tag: "tag", Prompt: "brief of " + ref.SubTaskID})
	w.must(t, boulder.SubTaskStart{AttemptRef: ref, Description: "d", SessionID: "ses_" + ref.SubTaskID})
	w.must(t, boulder.TurnSent{AttemptRef: ref, Turn: 1, Kind: boulder.TurnBrief, MessageID: "msg_" + ref.SubTaskID})
}

// finish completes a sub-task whose attempt was started.
func (w *world) finish(t tb, ref boulder.AttemptRef) {
	t.Helper()
	w.must(t, boulder.TurnEnded{AttemptRef: ref, Turn: 1, Evidence: boulder.Evidence{FinalMessage: "did it"}})
	w.must(t, boulder.Judged{AttemptRef: ref, Turn: 1, Verdict: boulder.Verdict{Completed: true, Summary: "done"}})
	w.must(t, boulder.SubTaskDone{
		AttemptRef: ref, Completed: true, Summary: "done", Output: "out", Status: boulder.SubTaskCompleted,
		AttemptStatus: boulder.AttemptCompleted,
	})
}

// commit stores what has happened since the last one, if anything has.
func (w *world) commit(t tb, db *DB) {
	t.Helper()
	c, changed := w.TakeChanges()
	if !changed {
		return
	}
	if err := db.Commit(context.Background(), c); err != nil {
		t.Fatalf("%v", err)
	}
}

func ref(subTaskID string, attempt int) boulder.AttemptRef {
	return boulder.AttemptRef{SubTaskID: subTaskID, Attempt: attempt}
}

func spec(id string, dependsOn ...string) boulder.Spec {
	return boulder.Spec{ID: id, Subject: "Do " + id, Description: "what " + id + " is", DependsOn: dependsOn}
}

// picture is everything that a state says, as text. Times come out as JSON has them.
func picture(t tb, s *boulder.State) string {
	t.Helper()
	type open struct {
		SubTask string
		Attempt *boulder.Attempt
		Turn    *boulder.Turn
	}
	all := struct {
		Boulder   boulder.Boulder
		Revision  *boulder.PlanRevision
		SubTasks  []*boulder.SubTask
		Open      []open
		Live      []boulder.AttemptRef
		Queues    map[string][]boulder.AttemptRef
		Completed []string
	}{Boulder: s.Boulder, Revision: s.Revision, SubTasks: s.SubTasks, Queues: map[string][]boulder.AttemptRef{}}
	for _, st := range s.SubTasks {
		if o := s.Open(st.ID); o != nil {
			all.Open = append(all.Open, open{o.SubTask.ID, o.Attempt, o.Turn})
		}
	}
	for _, o := range s.Live() {
		all.Live = append(all.Live, o.Attempt.AttemptRef)
	}
	// Who got a slot first is not stored.
	slices.SortFunc(all.Live, func(a, b boulder.AttemptRef) int { return strings.Compare(a.SubTaskID, b.SubTaskID) })
	for _, model := range s.Models() {
		for i := 0; s.Queued(model, i) != nil; i++ {
			all.Queues[model] = append(all.Queues[model], s.Queued(model, i).Attempt.AttemptRef)
		}
	}
	for _, st := range s.Completed(len(s.SubTasks)) {
		all.Completed = append(all.Completed, st.ID)
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatalf("%v", err)
	}
	return string(text)
}

// restore loads a boulder and builds its state.
func restore(t tb, db *DB, id string) *boulder.State {
	t.Helper()
	r, err := db.Load(context.Background(), id)
	if err != nil {
		t.Fatalf("%v", err)
	}
	s, err := boulder.Restore(r)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return s
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 6789, time.UTC)
