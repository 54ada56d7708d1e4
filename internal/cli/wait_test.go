package cli

import (
	"io"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/store"
)

func TestWaitByState(t *testing.T) {
	t.Parallel()
	ours := &control.Holder{BoulderID: sampleID}
	other := &control.Holder{BoulderID: "other"}
	starting := &control.Holder{}
	server := &control.Holder{Serves: true}
	serving := &control.Holder{Serves: true, Running: []string{sampleID}}
	for _, test := range []struct {
		status  boulder.Status
		holder  *control.Holder
		blocked bool // a sub-task is
		done    int  // exit code of --for done; -1: it goes on waiting
		block   int  // exit code of --for blocked
	}{
		{boulder.Planning, ours, false, -1, -1},
		{boulder.Planning, nil, false, -1, -1},
		{boulder.Running, ours, false, -1, -1},
		{boulder.Running, nil, false, -1, -1}, // interrupted: whoever resumes it is waited for
		{boulder.Running, ours, true, -1, exitOK},
		{boulder.Synthesizing, ours, false, -1, -1},
		{boulder.Paused, ours, false, exitWaiting, exitOK},
		{boulder.Paused, nil, false, exitWaiting, exitOK},
		{boulder.Paused, other, false, exitWaiting, exitOK},
		{boulder.Paused, serving, false, exitWaiting, exitOK},
		{boulder.Paused, server, false, exitWaiting, exitOK},
		{boulder.Paused, starting, false, -1, -1}, // it may be what goes on with it
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
			arrived, err := judge(w, d, test.holder)
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

// A wait ends with the boulder, whether its process tells of the end or dies before.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		end  func(db *store.DB, server *control.Server, s *sample)
		want int
	}{
		{"told", func(db *store.DB, server *control.Server, s *sample) {
			s.Finish()
			s.commit(db)
			server.Notify()
		}, exitPartial},
		{"gone", func(db *store.DB, server *control.Server, s *sample) {
			s.Apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "stopped"})
			s.commit(db)
			server.Close()
			db.Close()
		}, exitWaiting},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSample(t)
			s.Play()
			project := s.store()
			db, server := hold(t, project, false)
			done := make(chan int)
			go func() {
				done <- Main(Env{Args: []string{"wait", "-C", project}, Stdout: io.Discard, Stderr: io.Discard})
			}()
			test.end(db, server, s)
			if code := <-done; code != test.want {
				t.Errorf("exit code %d, want %d", code, test.want)
			}
		})
	}
}

// A boulder that goes on and on is not waited for longer than was said.
func TestWaitTimesOut(t *testing.T) {
	t.Parallel()
	for _, held := range []bool{false, true} {
		project := interrupted(t)
		if held {
			hold(t, project, false)
		}
		expect(t, project, exitError, []string{"wait", "--timeout", "300ms", "--json"}, `"status":"running"`,
			"the time is up: after 300ms boulder "+sampleID+" is running, 1/6 done")
	}
}
