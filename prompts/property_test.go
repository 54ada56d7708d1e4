package prompts_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/prompts"
)

// text draws texts around the size limits, with wide characters and invalid UTF-8.
func text(t *rapid.T, label string) string {
	piece := rapid.SampledFrom([]string{
		"word ", "é", "界", "🪨", "\xff", "\n", "\r\n", "a", "[cut: 1 of 2 characters]",
	})
	unit := strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(t, label), "")
	return strings.Repeat(unit, rapid.SampledFrom([]int{0, 1, 1, 1, 20, 300, 1500}).Draw(t, label+" times"))
}

// short draws a text of at most a few lines.
func short(t *rapid.T, label string) string {
	return rapid.StringOfN(rapid.RuneFrom([]rune("abc \n界🪨")), 0, 40, -1).Draw(t, label)
}

func subTasks(t *rapid.T, label string) []*boulder.SubTask {
	var all []*boulder.SubTask
	for i := range rapid.SampledFrom([]int{0, 1, 2, 5, 30}).Draw(t, label) {
		all = append(all, &boulder.SubTask{
			ID: fmt.Sprintf("%s%d", label, i), Subject: short(t, "subject"), Summary: text(t, "summary"),
			Output: text(t, "output"),
		})
	}
	return all
}

func drawInput(t *rapid.T) prompts.Input {
	return prompts.Input{
		BoulderID: "b", RunsDir: "/p/.manager/runs",
		Plan: boulder.Plan{
			Task: text(t, "task"), Goal: short(t, "goal"),
			Constraints: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return short(t, "constraint") }), 0, 5).
				Draw(t, "constraints"),
			Facts: boulder.Facts{
				Given: []string{text(t, "given")}, Guesses: []string{text(t, "guess")},
				Questions: []boulder.Question{{ID: "q1", Question: text(t, "question"), Answer: text(t, "default")}},
			},
		},
		SubTask: boulder.SubTask{
			ID: "me", Subject: short(t, "subject"), Description: short(t, "content"), Gates: []string{short(t, "gate")},
			Questions: []string{"q1"}, NoWorse: []string{"npm  test"}, DoneWhen: []string{boulder.DoneDiagnostics},
			SuccessCriteria: []string{short(t, "criterion")}, Failures: []string{text(t, "failure"), text(t, "failure")},
		},
		NewFacts:     []string{text(t, "new fact"), text(t, "new fact")},
		News:         prompts.News{Answers: []string{text(t, "answer"), text(t, "answer")}, Notes: []string{text(t, "note")}},
		Diversion:    boulder.Diversion{Tool: rapid.SampledFrom([]string{"", "manager_blocker"}).Draw(t, "tool")},
		Dependencies: subTasks(t, "dep"),
		Finished:     subTasks(t, "fin"),
	}
}

var cutNotice = regexp.MustCompile(`\[cut: (\d+) of (\d+) characters; full text: (/[^\]\n]*)\]`)

func TestBuildProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		b := prompts.Build(in)

		if !utf8.ValidString(b.Text) {
			t.Fatal("the brief is not UTF-8")
		}
		if n := utf8.RuneCountInString(b.Text); n > 24_000 {
			t.Fatalf("the brief has %d characters", n)
		}
		for _, c := range in.Plan.Constraints {
			if strings.TrimSpace(c) != "" && !strings.Contains(b.Text, "- "+c) {
				t.Fatalf("constraint %q is not in the brief", c)
			}
		}
		if !strings.Contains(b.Text, "1. "+in.SubTask.SuccessCriteria[0]) {
			t.Fatalf("the criterion is not in the brief")
		}
		if !strings.Contains(b.Text, "\n    npm  test\n") {
			t.Fatalf("the gate that must not get worse is not in the brief")
		}

		triage := strings.Contains(b.Text, "\n## When you need the user\n") && strings.Contains(b.Text, "only where it is a hard blocker.\n")
		if triage != (in.Diversion.Tool != "") {
			t.Fatalf("with the tool %q the brief explains it whole: %v", in.Diversion.Tool, triage)
		}

		var named, files []string
		for _, m := range cutNotice.FindAllStringSubmatch(b.Text, -1) {
			named = append(named, m[3])
		}
		for _, f := range b.Files {
			files = append(files, f.Path)
			if !utf8.ValidString(f.Text) {
				t.Fatalf("%s is not UTF-8", f.Path)
			}
		}
		slices.Sort(named)
		slices.Sort(files)
		if !slices.Equal(named, files) || len(slices.Compact(files)) != len(b.Files) {
			t.Fatalf("cuts name %q, the files are %q", named, files)
		}
	})
}

// TestNoticeCounts: shown characters plus those in the notice add up to the whole text.
func TestNoticeCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		whole := strings.Repeat(rapid.SampledFrom([]string{"ж", "界", "🪨"}).Draw(t, "char"),
			rapid.IntRange(1, 12_000).Draw(t, "length"))
		in := prompts.Input{
			BoulderID: "b", RunsDir: "/r", Plan: boulder.Plan{Task: whole}, SubTask: boulder.SubTask{ID: "a", Description: "c"},
		}
		b := prompts.Build(in)
		m := cutNotice.FindStringSubmatch(b.Text)
		total := utf8.RuneCountInString(whole)
		char, _ := utf8.DecodeRuneInString(whole)
		shown := longestRun(b.Text, char)
		if m == nil {
			if shown != total {
				t.Fatalf("%d of %d characters are shown, and no cut", shown, total)
			}
			return
		}
		want := fmt.Sprintf("[cut: %d of %d characters; full text: /r/b/request.md]", total-shown, total)
		if m[0] != want {
			t.Fatalf("the notice is %s, want %s", m[0], want)
		}
		if shown > 0 && shown+1+len(m[0]) > 8_000 {
			t.Fatalf("%d characters", shown+1+len(m[0]))
		}
		if b.Files[0].Text != whole {
			t.Fatal("the file does not hold the whole text")
		}
	})
}

// TestAnswersAreBounded: a prompt has as many answers as fit, newest first, and says what it omits.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var settled []boulder.Blocker
		for i := range rapid.SampledFrom([]int{1, 3, 50, 300}).Draw(t, "answers") {
			settled = append(settled, boulder.Blocker{
				ID: fmt.Sprintf("B%d", i+1), Question: text(t, "question"), Status: boulder.BlockerAnswered,
				Answer: strings.Repeat("é", rapid.SampledFrom([]int{1, 100, 4_000}).Draw(t, "length")),
			})
		}
		answers := prompts.Answers(settled)
		turn := boulder.Turn{Evidence: &boulder.Evidence{}, Verdict: &boulder.Verdict{}}
		without := prompts.Continuation(boulder.SubTask{ID: "a"}, turn, prompts.Extra{})
		got := prompts.Continuation(boulder.SubTask{ID: "a"}, turn, prompts.Extra{News: prompts.News{Answers: answers}})
		n := utf8.RuneCountInString(got) - utf8.RuneCountInString(without)
		if n > 12_500 || !utf8.ValidString(got) {
			t.Fatalf("%d characters of answers", n)
		}
		newest := settled[len(settled)-1]
		if !strings.Contains(got, "About "+newest.ID+", ") {
			t.Fatalf("the newest answer is not told:\n%s", got)
		}
		total := 0
		for _, a := range answers {
			total += utf8.RuneCountInString(a)
		}
		for i, a := range answers {
			whole := strings.Contains(got, a)
			switch cut := strings.Contains(got, "[cut: "); {
			case total <= 12_000 && !whole && len(answers) <= 60:
				t.Fatalf("answer %d is cut although there is room", i+1)
			case !whole && !cut:
				t.Fatalf("answer %d is cut, and nothing says so", i+1)
			}
		}
	})
}

func TestDigestProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		turn := judgedTurn()
		turn.Evidence.Ended = boulder.Ended{Error: text(t, "error"), Message: text(t, "message"), Stopped: text(t, "stopped")}
		turn.Evidence.Transcript, turn.Evidence.FinalMessage = text(t, "transcript"), text(t, "final message")
		turn.Evidence.Gates[0].Output = text(t, "output")
		turn.Verdict.Summary, turn.Verdict.StuckReason = text(t, "summary"), text(t, "stuck")
		waited := prompts.WaitDigest(text(t, "because"), *turn.Evidence)
		for _, got := range []string{prompts.Digest(turn), waited} {
			if n := utf8.RuneCountInString(got); n > prompts.MaxDigest || n == 0 || !utf8.ValidString(got) {
				t.Fatalf("%d characters: %q", n, got)
			}
		}
		if !strings.HasPrefix(waited, "It ") {
			t.Fatalf("%q", waited)
		}
	})
}
