package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

var _ orchestrator.Store = (*DB)(nil)

func TestListIsNewestFirst(t *testing.T) {
	t.Parallel()
	db := openTemp(t)
	// Committed neither by age nor by id. One is older than 1970, one has no time. The last one is active.
	for _, b := range []struct {
		id      string
		created time.Time
	}{{"c", epoch}, {"a", epoch.Add(time.Hour)}, {"y", time.Time{}}, {"z", time.Date(1931, 1, 1, 0, 0, 0, 0, time.UTC)}} {
		newWorld(t, b.id, b.created).commit(t, db)
	}
	// A later change neither lists a boulder twice nor moves it.
	w := &world{State: restore(t, db, "z"), id: "z", now: epoch.AddDate(1, 0, 0)}
	w.must(t, boulder.StatusChanged{Status: boulder.Cancelled})
	w.commit(t, db)

	all, err := db.Listing(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, b := range all {
		ids = append(ids, b.BoulderID)
	}
	if got := strings.Join(ids, " "); got != "a c z y" {
		t.Errorf("listed %s", got)
	}
	if all[2].Status != boulder.Cancelled {
		t.Errorf("z is %s", all[2].Status)
	}
}

// TestReads: sub-tasks come in plan order, attempts as queued, turns as begun, and events in pages.
func TestReads(t *testing.T) {
	t.Parallel()
	db := openTemp(t)
	// Plan order is neither alphabetical nor that of the attempts. The id "b" is a prefix of another.
	w := newWorld(t, "id", epoch, spec("z"), spec("b"), spec("b-2"), spec("a", "z"))
	const n = 300 // above 255: numbers must sort as numbers, and the log fills several pages
	for attempt := 1; attempt < n; attempt++ {
		w.start(t, ref("b", attempt))
		w.must(t, boulder.Retry{AttemptRef: ref("b", attempt), Status: boulder.AttemptLost, Next: attempt + 1})
	}
	w.start(t, ref("b-2", 1))
	w.commit(t, db)
	d, err := db.Get(t.Context(), "id")
	if err != nil || d.Boulder.Seq != w.Boulder.Seq || d.Revision == nil || d.Revision.Number != 2 {
		t.Fatalf("got %+v with %+v, %v", d.Boulder, d.Revision, err)
	}
	var got []string
	for _, s := range d.SubTasks {
		got = append(got, s.ID)
	}
	for _, a := range d.Attempts {
		got = append(got, fmt.Sprintf("%s/%d", a.SubTaskID, a.Attempt))
	}
	want := []string{"z", "b", "b-2", "a", "z/1", "b/1", "b-2/1"}
	for attempt := 2; attempt <= n; attempt++ {
		want = append(want, fmt.Sprintf("b/%d", attempt))
	}
	if !slices.Equal(got, want) {
		t.Errorf("sub-tasks and attempts are %v", got)
	}

	all, err := db.Events(t.Context(), "id", 0, 0)
	turns := boulder.Turns(all, "b")
	if len(turns) != n-1 || uint64(len(all)) != w.Boulder.Seq || err != nil {
		t.Fatalf("%d turns, %d events, %v", len(turns), len(all), err)
	}
	for i, turn := range turns {
		if turn.SubTaskID != "b" || turn.Attempt != i+1 || turn.Prompt != "brief of b" {
			t.Fatalf("turn %d is %+v", i, turn)
		}
	}
	last := w.Boulder.Seq
	for _, tc := range []struct{ after, limit, first, last uint64 }{
		{0, 3, 1, 3}, {254, 3, 255, 257}, {last - 1, 10, last, last}, {last, 0, 1, 0}, {1<<64 - 1, 0, 1, 0},
	} {
		events, err := db.Events(t.Context(), "id", tc.after, int(tc.limit))
		want := all[tc.first-1 : max(tc.last, tc.first-1)]
		if !slices.EqualFunc(want, events, func(a, b boulder.Event) bool { return a.Seq == b.Seq }) || err != nil {
			t.Errorf("after %d, limit %d: %d events, %v", tc.after, tc.limit, len(events), err)
		}
	}
	_, loadErr := db.Load(t.Context(), "x")
	_, getErr := db.Get(t.Context(), "x")
	_, eventsErr := db.Events(t.Context(), "x", 0, 0)
	for i, err := range []error{loadErr, getErr, eventsErr} {
		if !errors.Is(err, boulder.ErrNotFound) {
			t.Errorf("call %d of what is not there: %v", i, err)
		}
	}
}

// TestCommitRefusesWhatDoesNotFollow: events that do not follow the stored ones are refused as a whole.
func TestCommitRefusesWhatDoesNotFollow(t *testing.T) {
	t.Parallel()
	db := openTemp(t)
	w := newWorld(t, "id", epoch, spec("a"), spec("b"))
	w.commit(t, db)
	other := &world{State: restore(t, db, "id"), id: "id", now: w.now}
	other.start(t, ref("b", 1))
	other.commit(t, db)
	before := picture(t, restore(t, db, "id"))

	w.start(t, ref("a", 1))
	late := w.TakeEvents()
	if err := db.Commit(t.Context(), w.State, late); !errors.Is(err, ErrConflict) {
		t.Errorf("a late writer: %v", err)
	}
	if err := db.Commit(t.Context(), boulder.NewState(), nil); err == nil {
		t.Error("nothing, of no boulder, was committed")
	}
	w.Boulder.ID = "new"
	if err := db.Commit(t.Context(), w.State, late); !errors.Is(err, ErrConflict) {
		t.Errorf("a log that begins in the middle: %v", err)
	}
	if after := picture(t, restore(t, db, "id")); after != before {
		t.Errorf("a refused commit left traces:\n%s", after)
	}
	if all, err := db.Listing(t.Context()); len(all) != 1 || err != nil {
		t.Errorf("listed %v, %v", all, err)
	}
}

func TestCancelledContext(t *testing.T) {
	t.Parallel()
	db := openTemp(t)
	w := newWorld(t, "id", epoch)
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if err := db.Commit(ctx, w.State, w.TakeEvents()); !errors.Is(err, gone) {
		t.Errorf("commit: %v", err)
	}
	if _, err := db.Listing(ctx); !errors.Is(err, gone) {
		t.Errorf("list: %v", err)
	}
	if all, err := db.Listing(t.Context()); len(all) != 0 || err != nil {
		t.Errorf("the cancelled commit was made: %v, %v", all, err)
	}
}

// TestReadWhileWriting: readers see whole commits only, and never an older one than before.
func TestReadWhileWriting(t *testing.T) {
	t.Parallel()
	db := openTemp(t)
	w := newWorld(t, "id", epoch, spec("a"), spec("b", "a"))
	w.start(t, ref("a", 1))
	w.commit(t, db)

	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for seen := int64(0); ; {
				d, err := db.Get(t.Context(), "id")
				calls := d.Boulder.Usage.Calls
				if err != nil || calls < seen || calls != d.SubTasks[0].Usage.Calls { // every commit moves both
					t.Errorf("after %d calls the boulder has %d, its sub-tasks are %+v, %v", seen, calls, d.SubTasks, err)
					return
				}
				select {
				case <-done:
					return
				default:
					seen = calls
				}
			}
		})
	}
	for range 300 { // enough for snapshots during the reads
		w.must(t, boulder.UsageReport{SubTaskID: "a", Attempt: 1, Usage: boulder.Usage{Calls: 1}})
		w.must(t, boulder.Noted{Text: strings.Repeat("a long story ", 300)})
		w.commit(t, db)
	}
	close(done)
	readers.Wait()
}

func TestReadersShareTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), FileName)
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "id", epoch)
	w.commit(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	for range 2 {
		reader, err := Open(path, Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		if all, err := reader.Listing(t.Context()); len(all) != 1 || err != nil {
			t.Errorf("read %v, %v", all, err)
		}
		w.must(t, boulder.StatusChanged{Status: boulder.Paused})
		if err := reader.Commit(t.Context(), w.State, w.TakeEvents()); err == nil {
			t.Error("a read-only handle wrote")
		}
		w.must(t, boulder.StatusChanged{Status: boulder.Planning})
	}
}

func TestFilesArePrivateWhateverTheUmask(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"create-umask-777", "create-umask-0"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			project := t.TempDir()
			if out, err := otherProcess(t, role, project).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for name, mode := range map[string]fs.FileMode{"": 0o700, FileName: 0o600, ".gitignore": 0o600} {
				info, err := os.Stat(filepath.Join(project, DirName, name))
				if err != nil || info.Mode().Perm() != mode {
					t.Errorf("%q is %v, %v", name, info.Mode(), err)
				}
			}
		})
	}
}

func TestOpenTightensAnOldFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), FileName)
	if err := errors.Join(os.WriteFile(path, databaseBytes(t), 0o600), os.Chmod(path, 0o666)); err != nil {
		t.Fatal(err)
	}
	openAt(t, path)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func otherProcess(t *testing.T, role, project string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], project)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	return cmd
}
