package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/testkit/golden"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// troubled returns a boulder with one of everything that can need the user.
func troubled() *boulder.State {
	raised := func(of, id, question string, hard bool) boulder.Blocker {
		return boulder.Blocker{
			ID: id, BlockerScope: boulder.BlockerScope{BoulderID: "b", SubTaskID: of, Attempt: 1}, Hard: hard, Question: question,
			Status: boulder.BlockerPending,
		}
	}
	held := raised("held", "B3", "May it run git push origin main?", false)
	held.Until, held.Ask = noon.Add(4*time.Minute+10*time.Second), &boulder.Ask{Kind: boulder.AskPermission}
	all := []*boulder.SubTask{
		{ID: "asking", Status: boulder.SubTaskBlocked, ParkState: boulder.ParkState{Parked: true}, Blockers: []boulder.Blocker{
			raised("asking", "B1", "How shall the program say goodbye, with \x1b[31mGoodbye or with Bye?", true),
			raised("asking", "B2", "Which name?", false),
		}},
		{ID: "pushing", Status: boulder.SubTaskFailed, Reason: "not complete after 3 attempts: the remote refuses"},
		{ID: "parked", Status: boulder.SubTaskBlocked, Reason: "the tokens budget is used up: 2k of 2k", ParkState: boulder.ParkState{Parked: true}},
		{ID: "behind", Status: boulder.SubTaskBlocked, Reason: `depends on "pushing", which failed`},
		{ID: "held", Status: boulder.SubTaskPending, Blockers: []boulder.Blocker{held}},
	}
	for i, t := range all {
		t.Position, t.Subject, t.Attempts, t.Revision = i+1, "Do "+t.ID, 1, 1
	}
	return &boulder.State{Boulder: boulder.Boulder{ID: "b", Status: boulder.Running}, SubTasks: all}
}

// What needs the user is shown at every width; the commands to type only where they fit.
func TestNeeds(t *testing.T) {
	t.Parallel()
	s := troubled()
	var out strings.Builder
	for _, size := range []page.Size{
		{Width: 200, Height: 60}, {Width: 80, Height: 24}, {Width: 44, Height: 24}, {Width: 80, Height: 8}, {Width: 80, Height: 4},
	} {
		room := size.Room() - 1
		lines := needLines(needsOf(s, " -b 01k3", noon), size.Width, room, page.Paint{})
		fmt.Fprintf(&out, "== %d × %d\n%s\n", size.Width, size.Height, strings.Join(lines, "\n"))
		if len(lines) > room {
			t.Errorf("%d lines for %d", len(lines), room)
		}
		for _, line := range lines {
			if w := ansi.StringWidthWc(line); w >= size.Width {
				t.Errorf("a line for %d columns has %d: %q", size.Width, w, line)
			}
		}
	}
	golden.Compare(t, "needs.txt", out.String())
}
