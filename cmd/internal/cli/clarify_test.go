package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/internal/text"
)

// walk answers a project's blockers with what the user types, then leaves. It checks the order of the questions and
// returns the screen. If then is not nil, it is called before each answer.
func walk(t *testing.T, project, order string, then func(n int), typed ...string) (screen string) {
	t.Helper()
	a, _, out := testApp(t, project)
	var asked []string
	err := a.clarify(t.Context(), blockers.Filter{}, func(_ context.Context, prompt string) (string, error) {
		asked = append(asked, strings.TrimSuffix(prompt, "> "))
		if then != nil {
			then(len(asked))
		}
		if len(asked) > len(typed) {
			return "", io.EOF
		}
		return typed[len(asked)-1], nil
	})
	if diff := cmp.Diff(order, strings.Join(asked, " ")); diff != "" || err != nil {
		t.Errorf("asked in another order (-want +got): %v\n%s", err, diff)
	}
	return out.String()
}

func statusOf(t *testing.T, project string) map[string]string {
	t.Helper()
	a, _, _ := testApp(t, project)
	all, err := a.project.ListBlockers(t.Context(), blockers.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	status := map[string]string{}
	for _, b := range all {
		status[b.ID] = text.JoinedBy(": ", string(b.Status), b.Answer)
	}
	return status
}

// Hard blockers come first, then the oldest. Each answer is on disk before the next question; no answer defers it.
func TestClarify(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	const key = "answered: the release key\nof 2026"
	screen := walk(t, project, "B1 W1 B2 B3", func(n int) {
		if got := statusOf(t, project); n == 2 && got["B1"] != key || n == 4 && got["B2"] != "skipped" {
			t.Errorf("before answer %d: %v", n, got)
		}
	}, "the release key\nof 2026", "", "/skip", "/allow not to main")
	want := map[string]string{
		"B1": key, "W1": "pending", "B2": "skipped", "B3": "answered: not to main",
	}
	if diff := cmp.Diff(want, statusOf(t, project)); diff != "" {
		t.Errorf("after the first walk (-want +got):\n%s", diff)
	}
	checkTexts(t, "the screen", []string{
		"── 4 left", "Which key signs the theme?", "Without a signature anybody could change it.",
		`✓ Answered B1. "theme" continues with the answer when the boulder does: manager resume ` + shortID,
		"1 hard blocker waits for an answer; continue with: manager blockers clarify",
	}, nil, screen)
	if n := strings.Count(screen, "Continue the work with: manager resume "+shortID); n != 1 {
		t.Errorf("how to go on is said %d times:\n%s", n, screen)
	}
	if screen = walk(t, project, "W1", nil, "no"); !strings.Contains(screen, "Nothing waits for an answer.") {
		t.Errorf("the end is not told:\n%s", screen)
	}
}

// The number of a shown option selects it, as the screen says; one that no option has is asked again.
func TestClarifyByNumber(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{"2": "classes", "2 of them": "2 of them"} {
		project := blockedSample(t)
		screen := walk(t, project, "B1 W1 B2 B2 B3", nil, "", "", "4", typed, "")
		checkTexts(t, "the screen", []string{
			"option 2: classes", "a number: that option", "there is no option 4, only 1 to 3", "Answered B2" + text.If(want == "classes", ": classes") + `. "theme" still waits`,
		}, nil, screen)
		if got := statusOf(t, project)["B2"]; got != "answered: "+want {
			t.Errorf("%q: B2 is %q", typed, got)
		}
	}
}

// Unusable input is asked for again: nothing is stored, and no other question gets the answer.
func TestClarifyAsksAgain(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	slips := []string{"/allow", "/deny", "/alow", "/skip it", strings.Repeat("x", 4_001)}
	screen := walk(t, project, "B1 B1 B1 B1 B1 B1 W1", nil, append(slips, "/tmp/key is the one")...)
	checkTexts(t, "the screen", []string{
		"there is none to give", "there is none to refuse", "there is no /alow", "/skip takes no text", "may have 4000",
	}, nil, strings.Join(strings.Fields(screen), " "))
	if got := statusOf(t, project)["B1"]; got != "answered: /tmp/key is the one" {
		t.Errorf("B1 is %q", got)
	}
}

// While the user thinks, another process answers the same blocker, and new ones come up.
func TestClarifyBesideOthers(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	screen := walk(t, project, "B1 W1 W2 B2", func(n int) {
		switch n {
		case 1:
			expect(t, project, exitOK, []string{"blockers", "answer", "B1", "theirs"})
		case 2:
			_, err := registerOfProject(t, project).Raise(t.Context(), boulder.BlockerScope{SessionID: "ses_new"},
				boulder.Blocker{Category: "question", Question: "New?", Context: "c", Hard: true})
			if err != nil {
				t.Error(err)
			}
		}
	}, "mine", "", "for the new one")
	got := statusOf(t, project)
	if got["B1"] != "answered: theirs" || got["W2"] != "answered: for the new one" {
		t.Errorf("stored: %v", got)
	}
	if !strings.Contains(screen, "B1 is answered already") {
		t.Errorf("it is not told:\n%s", screen)
	}
}

// A blocker that gets obsolete during its question takes no answer; other obsolete ones are not asked.
func TestClarifyTooLate(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	screen := walk(t, project, "B1 B1 W1", func(n int) {
		if n == 1 {
			expect(t, project, exitOK, []string{"cancel"})
		}
	}, "the release key", "", "")
	if got := statusOf(t, project)["B1"]; got != "pending" || !strings.Contains(screen, "so nothing would continue with an answer") {
		t.Errorf("B1 is %s:\n%s", got, screen)
	}
}

func TestParseAnswer(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "later", "  ": "later", "/later": "later", "/quit": "EOF", "/q": "EOF", "/quit now": "/quit takes no text",
		"/skip": `skipped "" false`, "/skip because": "/skip takes no text",
		"/allow": `answered "" true`, "/allow  once ": `answered "once" true`, "/allow\nonce": `answered "once" true`,
		"/deny": `answered "Denied" false`, "/deny not now": `answered "Denied: not now" false`,
		"/Allow": "there is no /Allow", "/nonsense": "there is no /nonsense",
		"/etc/passwd": `answered "/etc/passwd" false`, "quit": `answered "quit" false`,
		" two\n\nlines ": `answered "two\n\nlines" false`,
	} {
		got := "later"
		if s, err := view.ParseAnswer(text, &boulder.Blocker{Ask: &boulder.Ask{Kind: boulder.AskPermission}}); err != nil {
			got = err.Error()
		} else if s != nil {
			got = fmt.Sprintf("%s %q %v", s.Status, s.Answer, s.Allowed)
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// Where an import brought a blocker with the id of another, an answer reaches the one that the user sees, or none.
func TestAnswerToOneOfTwoWithAnID(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	other := newSampleOf(t, "01k3import")
	other.Plan()
	theme := boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}
	other.Start(theme)
	other.Raise(theme, boulder.Blocker{Category: "security", Question: "Is the other key still good?", Hard: true})
	other.storeIn(project)
	if _, stderr, code := command(project, "blockers", "answer", "b1", "Yes."); code != exitUsage ||
		!strings.Contains(stderr, "B1@01k3import (Is the other key still good?) or B1@01k3sample (Which key signs the theme?)") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	expect(t, project, exitOK, []string{"blockers", "show", "B1@01k3import"}, "Is the other key still good?")
	screen := walk(t, project, "B1 B1 W1", nil, "it is good", "the release key")
	checkTexts(t, "the screen", []string{"manager resume sample", "manager resume import"}, nil, screen)
	a, _, _ := testApp(t, project)
	for ref, want := range map[string]string{"B1@01k3sample": "the release key", "B1@01k3import": "it is good"} {
		if b, err := a.project.Blocker(t.Context(), ref); err != nil || b.Answer != want {
			t.Errorf("%s is answered with %q, %v", ref, b.Answer, err)
		}
	}
}
