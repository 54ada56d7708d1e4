package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/config"
	"github.com/bouldermgr/manager/internal/view"
)

// sampleBlockers are blockers of every kind, the most urgent first, as they are an hour after sampleStart.
func sampleBlockers() []boulder.Blocker {
	at := func(minutes int) time.Time { return sampleStart.Add(time.Duration(minutes) * time.Minute) }
	ask := func(reply boulder.AskReply) *boulder.Ask {
		return &boulder.Ask{
			Kind: boulder.AskPermission, RequestID: "per_1", Permission: "bash", Patterns: []string{"git push *", "git *"},
			Tool: "bash", Arguments: `{"command":"git push origin \u001b[2J"}`, Reply: reply,
		}
	}
	return []boulder.Blocker{
		{
			ID: "B1", BoulderID: sampleID, SubTaskID: "theme", Attempt: 1, SessionID: "ses_theme", Hard: true,
			Category: boulder.BlockerSecurity, Question: "Which key signs the theme 主题?\nThe old one \x1b[31mis weak.",
			Context: "theme.css comes from a CDN.\n\n# Not a heading\nWithout a signature anybody could change it.",
			Status:  boulder.BlockerPending, CreatedAt: at(0),
		},
		{
			ID: "B4", SessionID: "ses_4f1c2e9a7b3d5f60", Hard: true, Category: boulder.BlockerDestructive,
			Question: "Drop the table users?", Context: "It is empty.", Status: boulder.BlockerPending, CreatedAt: at(30),
		},
		{
			ID: "B2", BoulderID: sampleID, SubTaskID: "theme", Attempt: 1, SessionID: "ses_theme",
			Category: boulder.BlockerArchitecture, Question: "Variables or classes?", Context: "Both work.",
			Options: []string{"CSS variables", "classes", "two files"}, ChosenOption: "CSS variables",
			ChosenReasoning: "They need no build step.", Status: boulder.BlockerPending, CreatedAt: at(10),
		},
		{
			ID: "B3", BoulderID: sampleID, SubTaskID: "lang", Attempt: 2, SessionID: "ses_lang",
			Category: boulder.BlockerPermission, Question: "May it run git push?", Ask: ask(boulder.ReplyWaiting),
			Until: at(63), Status: boulder.BlockerPending, CreatedAt: at(59),
		},
		{
			ID: "B5", BoulderID: sampleID, SubTaskID: "lang", Attempt: 1, SessionID: "ses_lang",
			Category: boulder.BlockerPermission, Question: "May it run git push?", Ask: ask(boulder.ReplyDiverted),
			Status: boulder.BlockerAnswered, Answer: "But *not* to main.", Allowed: true, CreatedAt: at(5), SettledAt: at(50),
		},
		{
			ID: "B1000", BoulderID: sampleID, SubTaskID: "a-sub-task-with-a-very-long-name", Attempt: 1, SessionID: "ses_long",
			Category: boulder.BlockerOther, Question: strings.Repeat("long ", 60), Hard: true, ChosenOption: "a",
			Status: boulder.BlockerSkipped, CreatedAt: at(1), SettledAt: at(51),
		},
	}
}

func sampleBlockersView(out *strings.Builder, width int) view.Blockers {
	return view.Blockers{Out: (&app{}).on(out), Width: width, Now: sampleStart.Add(time.Hour)}
}

// sampleItems gives each a standing: the fourth is one that nobody waits for any more.
func sampleItems(all []boulder.Blocker) []view.BlockerItem {
	standings := []blockers.Standing{
		blockers.Awaited, blockers.Awaited, blockers.Choice, blockers.Moot, blockers.Over, blockers.Over,
	}
	items := make([]view.BlockerItem, len(all))
	for i := range all {
		items[i] = view.BlockerItem{Type: view.TypeBlocker, Blocker: all[i], Standing: standings[i]}
	}
	return items
}

// golden views of blockers; no line is wider than its terminal.
func TestBlockersViews(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	all, on, off := sampleBlockers(), true, false
	items := sampleItems(all)
	for _, width := range []int{120, 80, 60, 40} {
		v := sampleBlockersView(&out, width)
		fmt.Fprintf(&out, "== %d columns\n", width)
		begin := out.Len()
		v.Table(items[:2])
		v.Table(items)
		for i := range all {
			v.Say("")
			v.All(&all[i])
		}
		for line := range strings.Lines(out.String()[begin:]) {
			if w := ansi.StringWidthWc(strings.TrimSuffix(line, "\n")); w >= width {
				t.Errorf("a line for %d columns has %d: %q", width, w, line)
			}
		}
	}
	if strings.ContainsRune(out.String(), '\x1b') {
		t.Error("what agents wrote reaches the terminal as it is")
	}
	for _, s := range []view.BlockersStatus{
		{File: "blockers.md"},
		{On: true, File: "blockers.md", Pending: 2, Hard: 1, Moot: 1, Switch: &on, Sessions: map[string]bool{"ses_a": false}},
		{File: "docs/b.md", Pending: 3, Soft: 3, Answered: 2, Skipped: 1, Switch: &off, SessionID: "ses_b"},
		{
			On: true, SessionID: "ses_a", File: "blockers.md", Pending: 6, Hard: 3, Asks: 1, Soft: 2, Unwritten: 2, Trouble: "no space left",
			Sessions: map[string]bool{"ses_a": true},
		},
	} {
		v := sampleBlockersView(&out, 100)
		fmt.Fprintln(&out, "== status")
		v.State(&s)
	}
	golden(t, "blockers.txt", out.String())
}

// A list says how long a session still holds still for an answer.
func TestTimeLeftInLists(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	b := sampleBlockers()[3]
	for _, minutes := range []int{60, 64} { // 3 minutes before its end, and 1 minute after it
		v := sampleBlockersView(&out, 80)
		v.Now = sampleStart.Add(time.Duration(minutes) * time.Minute)
		v.Table([]view.BlockerItem{{Type: view.TypeBlocker, Blocker: b, Standing: blockers.Awaited}})
	}
	if got := out.String(); strings.Count(got, "(3m00s left) May it run") != 1 || strings.Count(got, "left") != 1 {
		t.Errorf("the table:\n%s", got)
	}
}

func TestBlockersMarkdown(t *testing.T) {
	t.Parallel()
	golden(t, "blockers.md", view.BlockersMarkdown(sampleItems(sampleBlockers()), sampleStart.Add(time.Hour)))
}

// Whatever texts hold, the document has its own headings and one checkbox for each blocker, and no markup of theirs.
func TestMarkdownIsOurs(t *testing.T) {
	t.Parallel()
	mark := regexp.MustCompile("(^|[^\\\\])(\\\\\\\\)*[`*\\[\\]<|~&]")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.SampledFrom([]string{
			"\n", "\r", "# ", "## Hard blockers", "- [ ] **B9** ", "`", "```", "<b>", "[a](b)", "\\", "&amp;", "\x1b[2J", "x", " ",
			"---", "\u2028", "|",
		}))
		draw := func(name string) string { return strings.Join(text.Draw(t, name), "") }
		b := boulder.Blocker{
			ID: "B1", Hard: true, Question: draw("question"), Context: draw("context"), Answer: draw("answer"),
			ChosenOption: draw("chosen"), ChosenReasoning: draw("reasoning"), Options: []string{draw("option")},
			Ask: &boulder.Ask{
				Kind: boulder.AskPermission, Permission: "bash", Patterns: []string{draw("pattern")}, Arguments: draw("arguments"),
			},
			Status: boulder.BlockerAnswered,
		}
		for i, line := range strings.Split(view.BlockersMarkdown([]view.BlockerItem{{Blocker: b}}, sampleStart), "\n") {
			if strings.HasPrefix(line, "#") != (i == 0 || i == 4) {
				t.Fatalf("line %d is or is not a heading: %q", i, line)
			}
			if strings.HasPrefix(line, "- ") != (i == 6) {
				t.Fatalf("line %d is or is not an item: %q", i, line)
			}
			if mark.MatchString(strings.TrimPrefix(line, "- [x] **B1** ")) {
				t.Fatalf("line %d has markup: %q", i, line)
			}
			if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == '\u2028' }) {
				t.Fatalf("line %d has control characters: %q", i, line)
			}
		}
	})
}

// playBlocked brings a sample to where it waits for a person, without a desk.
func (s *sample) playBlocked() {
	theme := boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}
	all := sampleBlockers()
	s.plan()
	s.start(theme)
	s.apply(boulder.BlockerRaised{AttemptRef: theme, Blocker: all[0]})
	s.apply(boulder.BlockerRaised{AttemptRef: theme, Blocker: all[2]})
	s.apply(boulder.TurnEnded{AttemptRef: theme, Turn: 1, Evidence: boulder.Evidence{FinalMessage: "I wait."}})
	s.apply(boulder.Parked{
		AttemptRef: theme, Reason: "waits for an answer to B1: Which key signs the theme 主题?", Digest: "It waits.", Awaits: []string{"B1"},
	})
}

// A run tells of its blockers, where to answer them, and of the answers.
func TestRunTellsOfBlockers(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.playBlocked()
	const hint = "? B1 [2/6] Which key signs the theme"
	for _, width := range []int{100, 50} {
		if frame := liveSample(t, s).Frame(view.Size{Width: width, Height: 30}, 0); !strings.Contains(frame, hint) {
			t.Errorf("the picture of %d columns does not say who waits for whom:\n%s", width, frame)
		}
	}
	s.apply(boulder.BlockerSettled{SubTaskID: "theme", BlockerID: "B2", Status: boulder.BlockerSkipped})
	s.apply(boulder.BlockerSettled{
		SubTaskID: "theme", BlockerID: "B1", Status: boulder.BlockerAnswered, Answer: "The\x1b[31m new\none",
	})
	v := liveSample(t, s)
	if frame := v.Frame(view.Size{Width: 100, Height: 30}, 0); strings.Contains(frame, "blocker") {
		t.Errorf("the picture says that somebody waits:\n%s", frame)
	}
	a, _, stderr := testApp()
	lines := &view.LinesView{Console: a.console(), Progress: view.NewProgress(nil)}
	for _, e := range s.events {
		lines.Event(e)
	}
	for where, text := range map[string]string{"live": strings.Join(v.Printed, "\n"), "lines": stderr.String()} {
		for _, said := range []string{
			"[2/6] hard blocker B1 (security): Which key signs the theme 主题? The old one is weak.",
			"[2/6] soft blocker B2 (architecture): Variables or classes?; chosen for now: CSS variables",
			"[2/6] waits for an answer to B1: Which key",
			"[2/6] B2 gets no answer: go on without",
			"[2/6] B1 is answered: The new one",
		} {
			if !strings.Contains(text, said) {
				t.Errorf("%s: %q is not said:\n%s", where, said, text)
			}
		}
	}
}

// The looking commands say what waits, and that an answer comes first.
func TestLookAtBlockers(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.playBlocked()
	s.apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "sub-task \"theme\" waits"})
	project := s.store()
	for _, test := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"status"}, exitOK, []string{
			"1 hard blocker waits for an answer · 1 choice can still be changed: manager blockers clarify\n",
			"Answer first, then continue with: manager resume " + sampleID,
		}},
		{[]string{"status", "--json"}, exitOK, []string{
			`"waiting_blockers":{"hard":1,"soft":1}`, `"blockers":[{"id":"B1","attempt":1,"blocks_progress":true,`,
		}},
		{[]string{"show"}, exitOK, []string{
			"  blocker: B1 (hard): Which key signs the theme 主题? The old one is weak.\n",
			"  blocker: B2 (soft): Variables or classes?; chosen for now: CSS variables\n",
		}},
		{[]string{"show", "--why", "theme"}, exitOK, []string{
			"? hard blocker B1 (security)", "answer with: manager blockers clarify; no process runs it",
		}},
		{[]string{"wait"}, exitWaiting, []string{
			"answer with: manager blockers clarify; then continue with: manager resume " + sampleID,
		}},
		{[]string{"wait", "--for", "blocked"}, exitOK, []string{`Blocked: "theme"`}},
	} {
		stdout, stderr, code := command(project, test.args...)
		if code != test.code {
			t.Errorf("%q: exit code %d, want %d: %s", test.args, code, test.code, stderr)
		}
		for _, said := range test.says {
			if !strings.Contains(stdout+stderr, said) {
				t.Errorf("%q does not say %q:\n%s%s", test.args, said, stdout, stderr)
			}
		}
	}
}

func TestWaitingBlockersText(t *testing.T) {
	t.Parallel()
	for w, want := range map[view.WaitingBlockers]string{
		{}:                          "",
		{Hard: 1}:                   "1 hard blocker waits for an answer",
		{Asks: 1}:                   "1 ask waits for an answer",
		{Soft: 1}:                   "1 choice can still be changed",
		{Hard: 2}:                   "2 hard blockers wait for an answer",
		{Hard: 1, Asks: 1}:          "1 hard blocker and 1 ask wait for an answer",
		{Soft: 3}:                   "3 choices can still be changed",
		{Hard: 1, Soft: 1}:          "1 hard blocker waits for an answer · 1 choice can still be changed",
		{Hard: 2, Asks: 2, Soft: 5}: "2 hard blockers and 2 asks wait for an answer · 5 choices can still be changed",
	} {
		if got := w.Text(); got != want {
			t.Errorf("%+v: %q, want %q", w, got, want)
		}
	}
}

// The configuration reaches the desk, and what makes no sense is refused with its name.
func TestBlockersConfig(t *testing.T) {
	t.Parallel()
	c, err := config.Load(true, configFile(t, `
blockers:
  enabled: true
  file: docs/night.md
  max_per_session: 7
  cooldown: off
  questions: ask
  wait: 5m
  permissions:
    - {permission: bash, pattern: "git push *", action: ask, wait: 30m}
    - {permission: edit, action: allow}
`))
	if err != nil {
		t.Fatal(err)
	}
	got := c.Blockers.Desk("/p", "/p/b.db")
	want := blockers.Config{
		Root: "/p", Path: "/p/b.db", File: "docs/night.md", Enabled: true, Max: 7, Cooldown: -1,
		Policy: blockers.Policy{
			Questions: blockers.AskMe, Wait: 5 * time.Minute,
			Permissions: []blockers.Rule{
				{Permission: "bash", Pattern: "git push *", Action: blockers.AskMe, Wait: 30 * time.Minute},
				{Permission: "edit", Action: blockers.Allow},
			},
		},
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for text, says := range map[string]string{
		"file: ../night.md": "has to be in the project", "file: /tmp/b.md": "has to be in the project",
		"file: .manager/b.md": "is not for people to edit", "max_per_session: 0": "blockers.max_per_session must be at least 1",
		"questions: allow": `questions: "allow" is none of deny, ask`, "enabled: maybe": "must be true or false",
		"wait: 0s": "must be a duration", "cooldown: soon": "must be a duration of more than 0 as 90s, 10m or 1h30m, or off",
		"permissions: [{permission: bash, action: maybe}]":          "must be allow, deny or ask",
		"permissions: [{permission: bash}]":                         `permissions[0]: action "" is none of`,
		"permissions: [{action: deny}]":                             "permissions[0]: it names no permission",
		"permissions: [{permission: a, action: deny, wait: 1m}]":    "only an ask waits",
		"permission: [{permission: a, action: deny, pattern: b}]":   "permission",
		"permissions: [{permission: a, action: deny, patern: bla}]": "patern",
	} {
		if _, err := config.Load(true, configFile(t, "blockers: {"+text+"}")); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// No answer is left on the way when -o fails, and nothing that is there is written over.
func TestBlockersExportToAFile(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	file := project + "/night.md"
	for _, test := range []answerCase{
		{[]string{"-o", "night.md"}, exitOK, "Exported 4 blockers to"},
		{[]string{"-o", "night.md"}, exitUsage, "night.md is there already, and is not overwritten"},
		{[]string{"-o", "night.md", "--force", "--hard"}, exitOK, "Exported 2 blockers to"},
		{[]string{"-o", ".manager"}, exitUsage, "is a directory"},
		{[]string{"-o", "none/night.md"}, exitError, "no such file"},
		{[]string{"-o", "data.jsonl"}, exitOK, "Exported 4 blockers to"},
		{[]string{"-o", "data.md", "--json"}, exitOK, ""},
		{[]string{"--force"}, exitUsage, "--force is for the file of -o"},
	} {
		_, stderr, code := command(project, append([]string{"blockers", "export"}, test.args...)...)
		if code != test.code || !strings.Contains(stderr, test.says) {
			t.Errorf("%q: exit code %d, %s", test.args, code, stderr)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(text), "# Blockers\n\n2 blockers, 2 of them without an answer.") {
		t.Errorf("%v: %s", err, text)
	}
	for name, begins := range map[string]string{"data.jsonl": `{"type":"blocker-record","id":"B1",`, "data.md": "# Blockers\n"} {
		if text, err := os.ReadFile(filepath.Join(project, name)); err != nil || !strings.HasPrefix(string(text), begins) {
			t.Errorf("%s: %v: %s", name, err, text)
		}
	}
	if left, err := os.ReadDir(project); err != nil || len(left) != 5 { // .manager, blockers.md, night.md and those two
		t.Errorf("left behind: %v, %v", left, err)
	}
}
