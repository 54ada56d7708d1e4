package view

import (
	"testing"
	"time"

	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/project"
)

// On a narrow terminal a line of a watch is wrapped between words and indented.
func TestWatchLine(t *testing.T) {
	t.Parallel()
	e := project.WatchEntry{
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local), SessionID: "ses_0123456789XrrvZu", Title: "Two files of the settings",
		Decision: enforcer.Send, Gate: enforcer.GateOpen, Iteration: 2,
		Reason: "idle for 32s with 1 thing left to do, such as: Write b in the directory that the settings name",
	}
	for width, want := range map[int]string{
		0: "03:04:05 XrrvZu Two files of the settin… continues (2): idle for 32s with 1 thing left to do, such as: " +
			"Write b in the directory that the settings name",
		80: "03:04:05 XrrvZu Two files of … continues (2): idle for 32s with 1 thing left\n" +
			"  to do, such as: Write b in the directory that the settings name",
	} {
		if got := shown(t, width, func(o page.Out) { printDecision(o, e, true) }); got != want+"\n" {
			t.Errorf("width %d:\n%s\nwant\n%s", width, got, want)
		}
	}
}

// A line that only repeats the one before is left out. It fails if a wait for another reason is left out, too.
func TestWhatIsNotNewIsSilent(t *testing.T) {
	t.Parallel()
	wait := func(g enforcer.Gate) project.WatchEntry { return project.WatchEntry{Decision: enforcer.Wait, Gate: g} }
	for _, test := range []struct {
		before enforcer.Kind
		next   project.WatchEntry
		want   bool
	}{
		{enforcer.Send, wait(enforcer.GateInFlight), true},
		{enforcer.Finish, wait(enforcer.GateWork), true},
		{enforcer.LetGo, wait(enforcer.GateLetGo), true},
		{enforcer.LetGo, wait(enforcer.GateStopped), false},
		{"", wait(enforcer.GateWork), false},
		{enforcer.Send, project.WatchEntry{Decision: enforcer.Look, Gate: enforcer.GateInFlight}, false},
	} {
		if got := saysNothingNew(project.WatchEntry{Decision: test.before}, test.next); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

func TestWatchedText(t *testing.T) {
	t.Parallel()
	status := func(watched bool, s enforcer.Status) project.WatchStatus {
		return project.WatchStatus{Watched: watched, Overview: enforcer.Overview{Status: s}}
	}
	all := []project.WatchStatus{
		status(true, enforcer.Watching), status(true, enforcer.Exhausted), status(false, enforcer.Stopped), status(true, enforcer.Complete),
	}
	for n, want := range []string{"", "1 session watched", "2 sessions watched, 1 of them stopped or exhausted",
		"2 sessions watched, 1 of them stopped or exhausted", "3 sessions watched, 1 of them stopped or exhausted"} {
		if got := WatchedText(all[:n]); got != want {
			t.Errorf("%d sessions: %q, want %q", n, got, want)
		}
	}
}
