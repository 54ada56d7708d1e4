package store

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
)

// A sub-task that waits for an answer still does after a restart, and goes on with it.
func TestBlockersAreKept(t *testing.T) {
	t.Parallel()
	db := openTemp(t)
	w := newWorld(t, "id", epoch, spec("a"))
	w.start(t, ref("a", 1))
	asked := boulder.BlockerRaised{AttemptRef: ref("a", 1), Blocker: boulder.Blocker{
		ID: "B1", BoulderID: "id", SubTaskID: "a", Attempt: 1, SessionID: "ses", Category: boulder.BlockerArchitecture,
		Question: "Which database?", Context: "go.mod has two", Hard: true, Status: boulder.BlockerPending, CreatedAt: epoch,
		Ask: &boulder.Ask{Kind: boulder.AskPermission, RequestID: "per", Permission: "bash", Patterns: []string{"git push *"}},
	}}
	w.must(t, asked)
	w.must(t, boulder.Parked{AttemptRef: ref("a", 1), Reason: "waits"})
	w.commit(t, db)

	s := restore(t, db, "id")
	if a := s.SubTask("a"); s.Parked() != 1 || len(a.AwaitedBy(1)) != 1 || a.Blockers[0].Question != "Which database?" {
		t.Fatalf("%+v", *a)
	}
	w.must(t, boulder.BlockerSettled{SubTaskID: "a", BlockerID: "B1", Status: boulder.BlockerAnswered, Answer: "the old one"})
	w.commit(t, db)
	s = restore(t, db, "id")
	if a := s.SubTask("a"); s.Parked() != 0 || s.Open("a") == nil || len(a.SettledSince(0)) != 1 {
		t.Fatalf("%+v", *a)
	}
	events, err := db.Events(t.Context(), "id", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var logged []boulder.Body
	for _, e := range events {
		switch e.Body.(type) {
		case boulder.BlockerRaised, boulder.BlockerSettled:
			logged = append(logged, e.Body)
		}
	}
	want := []boulder.Body{asked, boulder.BlockerSettled{
		SubTaskID: "a", BlockerID: "B1", Status: boulder.BlockerAnswered, Answer: "the old one",
	}}
	if diff := cmp.Diff(want, logged); diff != "" {
		t.Errorf("logged (-want +got):\n%s", diff)
	}
}

// What waits for an answer is asked again where a boulder was imported: the blockers stayed where they came up.
func TestAdoptAsksAgain(t *testing.T) {
	t.Parallel()
	for name, parked := range map[string]bool{"at work": false, "parked": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			here, there := openTemp(t), openTemp(t)
			w := newWorld(t, "id", epoch, spec("a"))
			w.start(t, ref("a", 1))
			w.must(t, boulder.BlockerRaised{AttemptRef: ref("a", 1), Blocker: boulder.Blocker{
				ID: "B1", Question: "Which database?", Hard: true, Status: boulder.BlockerPending,
			}})
			if parked {
				w.must(t, boulder.Parked{AttemptRef: ref("a", 1), Reason: "waits"})
			}
			w.commit(t, here)
			x := read(t, exported(t, here, "id"))
			if _, _, err := x.Adopt("/elsewhere", epoch.Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			if err := there.Import(t.Context(), x); err != nil {
				t.Fatal(err)
			}
			s := restore(t, there, "id")
			a, o := s.SubTask("a"), s.Open("a")
			if a.Parked || o == nil || o.Attempt.Attempt != 2 || len(a.AwaitedBy(2)) > 0 || a.Tries > 0 {
				t.Fatalf("%+v, %+v", *a, o)
			}
		})
	}
}
