package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/project/projecttest"
	"github.com/bouldermgr/manager/store"
)

func TestWaitByState(t *testing.T) {
	t.Parallel()
	ours := &processAt{Running: []string{sampleID}}
	other := &processAt{Running: []string{"other"}}
	starting := &processAt{}
	server := &processAt{Serves: true}
	serving := &processAt{Serves: true, Running: []string{sampleID}}
	for _, test := range []struct {
		status  boulder.Status
		holder  *processAt
		blocked bool // a sub-task is blocked
		done    int  // exit code of --for done; -1: keeps waiting
		block   int  // exit code of --for blocked
	}{
		{boulder.Planning, ours, false, -1, -1},
		{boulder.Planning, nil, false, exitWaiting, exitWaiting},
		{boulder.Running, ours, false, -1, -1},
		{boulder.Running, nil, false, exitWaiting, exitWaiting}, // interrupted
		{boulder.Running, nil, true, exitWaiting, exitOK},
		{boulder.Running, other, false, exitWaiting, exitWaiting},
		{boulder.Running, server, false, exitWaiting, exitWaiting},
		{boulder.Running, serving, false, -1, -1},
		{boulder.Running, starting, false, -1, -1},
		{boulder.Running, ours, true, -1, exitOK},
		{boulder.Synthesizing, ours, false, -1, -1},
		{boulder.Paused, ours, false, exitWaiting, exitOK},
		{boulder.Paused, nil, false, exitWaiting, exitOK},
		{boulder.Paused, other, false, exitWaiting, exitOK},
		{boulder.Paused, serving, false, exitWaiting, exitOK},
		{boulder.Paused, server, false, exitWaiting, exitOK},
		{boulder.Paused, starting, false, -1, -1}, // the holder may be about to resume it
		{boulder.AwaitingApproval, ours, false, -1, -1},
		{boulder.AwaitingApproval, serving, false, -1, -1},
		{boulder.AwaitingApproval, server, false, exitWaiting, exitOK},
		{boulder.AwaitingApproval, nil, false, exitWaiting, exitOK},
		{boulder.Completed, nil, false, exitOK, exitError},
		{boulder.Partial, nil, false, exitPartial, exitError},
		{boulder.Partial, nil, true, exitPartial, exitOK},
		{boulder.Failed, ours, true, exitPartial, exitOK},
		{boulder.Cancelled, nil, false, exitInterrupted, exitError},
	} {
		d := boulder.Snapshot{Boulder: boulder.Boulder{ID: sampleID, Status: test.status}}
		if test.blocked {
			d.SubTasks = []*boulder.SubTask{{ID: "x", Status: boulder.SubTaskBlocked}}
		}
		for what, want := range map[string]int{waitDone: test.done, waitBlocked: test.block} {
			w := &view.Wait{For: what}
			arrived, err := waitOutcome(w, d, test.holder)
			got := -1
			if arrived || err != nil {
				got = exitCode(err)
			}
			if got != want {
				t.Errorf("for %s: %s, holder %+v, blocked %v: %d (%v), want %d", what, test.status, test.holder, test.blocked, got,
					err, want)
			}
		}
	}
}

// wait and attach end with the boulder or when it pauses, whether its process reports that or dies first.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	pause := boulder.StatusChanged{Status: boulder.Paused, Reason: "paused by the user"}
	for _, test := range []struct {
		name string
		end  func(db *store.DB, server *projecttest.Server, s *sample)
		want int
		says string
	}{
		{"over", func(db *store.DB, server *projecttest.Server, s *sample) {
			s.Finish()
			s.commit(db)
			server.Notify()
		}, exitPartial, ""},
		{"paused", func(db *store.DB, server *projecttest.Server, s *sample) {
			s.Apply(pause)
			s.commit(db)
			server.Notify()
		}, exitWaiting, "waiting for the user: paused by the user\nNothing is lost. Continue with: manager resume " + shortID + "\n"},
		{"paused, and gone", func(db *store.DB, server *projecttest.Server, s *sample) {
			s.Apply(pause)
			s.commit(db)
			server.Close()
			db.Close()
		}, exitWaiting, "manager resume " + shortID},
		{"killed", func(db *store.DB, server *projecttest.Server, _ *sample) {
			server.Close()
			db.Close()
		}, exitWaiting, "was interrupted: no process runs it\nNothing is lost. Continue with: manager resume " + shortID},
	} {
		for _, args := range [][]string{{"wait"}, {"wait", "--json"}, {"attach"}, {"attach", "--json"}, {"attach", "-q"}} {
			t.Run(test.name+" "+strings.Join(args, " "), func(t *testing.T) {
				t.Parallel()
				s := newSample(t)
				s.Play()
				project := s.store()
				db, server := hold(t, project, false)
				done, stderr := make(chan int), ""
				go func() {
					var code int
					stderr, code = commandTo(io.Discard, project, args...)
					done <- code
				}()
				test.end(db, server, s)
				if code := <-done; code != test.want || !strings.Contains(stderr, test.says) {
					t.Errorf("exit code %d, want %d; it says %s", code, test.want, stderr)
				}
			})
		}
	}
}

// A wait ends at its timeout while the boulder continues.
func TestWaitTimesOut(t *testing.T) {
	t.Parallel()
	for _, held := range []bool{false, true} {
		project := interrupted(t)
		if held {
			hold(t, project, false)
		}
		expect(t, project, exitError, []string{"wait", "--timeout", "300ms", "--json"}, `"status":"running"`,
			"the time is up: after 300ms boulder "+shortID+" is running, 1/6 done")
	}
}

// A boulder that another engine runs is a copy here: waiting for it says so, and no command is advised that is refused.
func TestCopy(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.State.Boulder.Engine = "temporal"
	s.Play()
	project := s.store()
	expect(t, project, exitError, []string{"attach"}, "start `manager-temporal gateway`", "!manager resume")
	db, server := holdAs(t, project, processAt{Serves: true})
	expect(t, project, exitOK, []string{"status"}, "interrupted: no process runs it", "!a copy")
	s.Apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "paused by the user"})
	s.commit(db)
	expect(t, project, exitOK, []string{"status"}, "paused by the user\nContinue with: manager resume", "!a copy")
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	expect(t, project, exitOK, []string{"status"}, "paused by the user\na copy of a boulder that runs on temporal", "!manager resume")
	s.Apply(boulder.StatusChanged{Status: boulder.Running})
	s.Finish()
	db = openState(t, project)
	s.commit(db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	expect(t, project, exitPartial, []string{"wait"}, "is partial")
	expect(t, project, exitOK, []string{"report"}, "--why icons", "!manager redo")
	expect(t, project, exitError, []string{"redo", "toggle"}, "temporal begins it no more: start another one")
}
