package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/project/report"
	"github.com/bouldermgr/manager/testkit/golden/sample"
)

// sampleItems gives each blocker a standing. The fourth is obsolete.
func sampleItems(all []boulder.Blocker) []report.Blocker {
	standings := []blockers.Standing{
		blockers.Awaited, blockers.Awaited, blockers.Choice, blockers.Moot, blockers.Over, blockers.Over,
	}
	items := make([]report.Blocker, len(all))
	for i := range all {
		items[i] = report.Blocker{Blocker: all[i], Standing: standings[i], Awaited: standings[i] == blockers.Awaited}
	}
	return items
}

func TestBlockersViews(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	on, off, now := true, false, sample.Began.Add(time.Hour)
	items := sampleItems(sample.Blockers())
	for _, width := range []int{120, 80, 60, 40} {
		fmt.Fprintf(&out, "== %d columns\n", width)
		out.WriteString(shown(t, width, func(o page.Out) {
			PrintBlockers(o, items[:2], now)
			PrintBlockers(o, items, now)
			for i := range items {
				o.Say()
				PrintBlocker(o, &items[i], 0, true, now)
			}
		}))
	}
	for _, s := range []BlockersStatus{
		{Status: blockers.Status{File: "blockers.md"}},
		{
			On: true, Pending: 2, WaitingBlockers: WaitingBlockers{Hard: 1}, Moot: 1,
			Status: blockers.Status{File: "blockers.md", Switch: &on, Sessions: map[string]bool{"ses_a": false}},
		},
		{
			Pending: 3, WaitingBlockers: WaitingBlockers{Soft: 3}, Answered: 2, Skipped: 1, SessionID: "ses_b",
			Status: blockers.Status{File: "docs/b.md", Switch: &off},
		},
		{
			On: true, SessionID: "ses_a", Pending: 6, WaitingBlockers: WaitingBlockers{Hard: 3, Asks: 1, Soft: 2},
			Status: blockers.Status{
				File: "blockers.md", Unwritten: 2, Trouble: "no space left", Sessions: map[string]bool{"ses_a": true},
			},
		},
	} {
		out.WriteString("== status\n" + shown(t, 100, s.Print))
	}
	compare(t, "blockers.txt", out.String())
}

// Lists show how much time is left to answer, while the session waits.
func TestTimeLeftInLists(t *testing.T) {
	t.Parallel()
	out := ""
	b := sample.Blockers()[3]
	for _, minutes := range []int{60, 64} { // 3 minutes before the deadline, and 1 minute after
		out += shown(t, 80, func(o page.Out) {
			PrintBlockers(o, []report.Blocker{{Blocker: b, Awaited: true}}, sample.Began.Add(time.Duration(minutes)*time.Minute))
		})
	}
	if strings.Count(out, "(3m00s left) May it run") != 1 || strings.Count(out, "left") != 1 {
		t.Errorf("the table:\n%s", out)
	}
}

func TestBlockersMarkdown(t *testing.T) {
	t.Parallel()
	compare(t, "blockers.md", BlockersMarkdown(sampleItems(sample.Blockers()), sample.Began.Add(time.Hour)))
}

// A run shows its blockers, where to answer them, and the answers.
func TestRunTellsOfBlockers(t *testing.T) {
	t.Parallel()
	s := after(t, playBlocked)
	const hint = "? B1 [2] Which key signs the theme"
	for _, width := range []int{100, 50} {
		says(t, frameOf(s, width), hint)
	}
	s.Apply(boulder.BlockerSettled{SubTaskID: "theme", BlockerID: "B2", Status: boulder.BlockerSkipped})
	s.Apply(boulder.BlockerSettled{
		SubTaskID: "theme", BlockerID: "B1", Status: boulder.BlockerAnswered, Answer: "The\x1b[31m new\none",
	})
	says(t, frameOf(s, 100), "NOT blocker")
	for _, text := range linesOf(s) {
		says(t, text,
			"[2] hard blocker B1 (security): Which key signs the theme 主题? The old one is weak.",
			"[2] soft blocker B2 (architecture): Variables or classes?; chosen for now: CSS variables",
			"[2] waits for an answer to B1: Which key",
			"[2] B2 gets no answer: continue without",
			"[2] B1 is answered: The new one")
	}
}

func TestWaitingBlockersText(t *testing.T) {
	t.Parallel()
	for w, want := range map[WaitingBlockers]string{
		{}:                          "",
		{Hard: 1}:                   "1 hard blocker waits for an answer",
		{Asks: 1}:                   "1 ask waits for an answer",
		{Hard: 1, Asks: 1}:          "1 hard blocker and 1 ask wait for an answer",
		{Hard: 1, Soft: 1}:          "1 hard blocker waits for an answer · 1 choice can still be changed",
		{Soft: 3, Refused: 1}:       "2 choices and 1 refused permission can still be changed",
		{Soft: 2, Refused: 2}:       "2 refused permissions can still be changed",
		{Hard: 2, Asks: 2, Soft: 5}: "2 hard blockers and 2 asks wait for an answer · 5 choices can still be changed",
	} {
		if got := w.Text(); got != want {
			t.Errorf("%+v: %q, want %q", w, got, want)
		}
	}
}

// playBlocked brings a sample to where it waits for the user. It uses no register.
func playBlocked(s *sample.Boulder) {
	theme := boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}
	all := sample.Blockers()
	s.Plan()
	s.Start(theme)
	s.Apply(boulder.BlockerRaised{AttemptRef: theme, Blocker: all[0]})
	s.Apply(boulder.BlockerRaised{AttemptRef: theme, Blocker: all[2]})
	s.Apply(boulder.TurnEnded{AttemptRef: theme, Turn: 1, Evidence: boulder.Evidence{FinalMessage: "I wait."}})
	s.Apply(boulder.Parked{
		AttemptRef: theme, Reason: "waits for an answer to B1: Which key signs the theme 主题?", Digest: "It waits.", Awaits: []string{"B1"},
	})
}
