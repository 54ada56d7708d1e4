package blockers

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/testkit/golden"
)

// The whole list, with one item of each kind.
func TestGolden(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.register(t, func(c *Config) {
		c.Policy.Permissions = []Rule{{Permission: "bash", Pattern: "git push *", Action: AskMe, Wait: 10 * time.Minute}}
	})
	hard := hardInput("Which database may the service use?")
	hard.Context = "The service keeps nothing yet.\n\nSQLite needs no server; Postgres is there for the other services.\n" +
		"# Not a heading\n- [x] not a checkbox\n<!-- not a comment"
	book := p.turn(d, inRun)
	_, err := d.Raise(t.Context(), inRun, hard)
	check(t, err)
	p.clock.pass(90 * time.Second)
	raise(t, d, softInput("What is the [setting](http://example.org) called?"))
	p.clock.pass(time.Minute)
	push := permission("per_1", "git push *")
	push.Ask.Arguments = `{"command":"git push origin main","description":"Push"}`
	push.BlockerScope = inRun
	divert(t, d, push)
	unwritten, err := d.Listed(t.Context(), inRun.BoulderID, book.since)
	check(t, err)
	divert(t, d, question("que_1", "Which colour?", "red", "blue"))
	p.clock.pass(time.Hour)
	check(t, book.settle(d, "B1", answered("SQLite.\n\nOne file, please.")))
	check(t, book.settle(d, "B2", Settlement{Status: boulder.BlockerAnswered, Allowed: true, Answer: "This branch only."}))
	left, err := d.Listed(t.Context(), inRun.BoulderID, book.since)
	check(t, err)
	settle(t, d, "W2", skipped)
	raise(t, d, hardInput("Who may see the report?"))
	if unwritten+left != 0 {
		t.Errorf("%d, %d are unwritten", unwritten, left)
	}
	golden.Compare(t, "blockers.md", p.file(t))
}

// ours matches every line that the list may contain: no text adds headings, checkboxes, HTML or links.
var ours = regexp.MustCompile(`^(|## (Hard blockers|Soft blockers|Answers)` +
	`|- \[ \] \*\*[BW]\d+\*\* [^\[<]*|- \*\*[BW]\d+ (answered|allowed|skipped)\*\* [^\[<]*` +
	`|  - (Category|Context|Permission|Tool|Arguments|Option \d+|Chosen|Because|Waits for the user|Sub-task|Session|Question): ` +
	`[^\[<]*` +
	`|  - (Recorded|Settled): 2026-03-01 02:14:05 UTC)$`)

// hostile generates text that imitates the list, Markdown or a terminal.
func hostile() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
			"\n", "\r", "\u2028", "\u0085", "\v", "## Answers", "- [x] **B1** done", "[ ]", "<!--", "<script>", "```", "~~~", "---",
			"===", "![p](http://e)", "\\", "\\[", "**", "B1 answered", "- Recorded: 2026-03-01 02:14:05 UTC", "\x1b[2J", "\u202e",
			"a", " ", "\t", "> ", "1. ", "    ", "|", "&lt;", "\xff", "\x00",
		}), 0, 8).Draw(t, "parts"), "")
	}))
}

// Whatever the texts, every line is one of ours, and each item is found again.
func TestNothingButText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := drawBlocker(t)
		settled := b
		settled.SettledAt, settled.Answer = epoch, hostile().Draw(t, "answer")
		settled.Status = boulder.BlockerAnswered
		if rapid.Bool().Draw(t, "skipped") {
			settled.Status = boulder.BlockerSkipped
		}
		settled.Allowed = settled.Status == boulder.BlockerAnswered && rapid.Bool().Draw(t, "allowed")
		items := []item{raisedItem(&b), settledItem(&settled)}
		text := compose("\n", items)
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			bare := strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(line, `\\`, ``), `\[`, ``), `\<`, ``)
			if !ours.MatchString(bare) {
				t.Fatalf("%q", line)
			}
		}
		if again := compose(text, items); again != text {
			t.Fatalf("not found again: %q", again)
		}
	})
}

func drawBlocker(t *rapid.T) boulder.Blocker {
	h := hostile()
	b := boulder.Blocker{
		ID: idOf(rapid.Uint64Range(1, 1200).Draw(t, "id")), Category: boulder.BlockerOther,
		BlockerScope: boulder.BlockerScope{SessionID: h.Draw(t, "session")},
		Question:     "Q" + h.Draw(t, "question"), Context: h.Draw(t, "context"), Hard: rapid.Bool().Draw(t, "hard"),
		Options: rapid.SliceOfN(h, 0, 3).Draw(t, "options"), ChosenOption: h.Draw(t, "chosen"),
		ChosenReasoning: h.Draw(t, "reasoning"), CreatedAt: epoch,
	}
	if rapid.Bool().Draw(t, "of a run") {
		b.ID, b.BoulderID, b.SubTaskID, b.Attempt = "B7", "01J", "api", 1
	}
	if rapid.Bool().Draw(t, "asked") {
		b.Ask = &boulder.Ask{
			Kind: boulder.AskPermission, Permission: h.Draw(t, "permission"), Patterns: rapid.SliceOfN(h, 0, 3).Draw(t, "patterns"),
			Tool: h.Draw(t, "tool"), Arguments: h.Draw(t, "arguments"),
		}
		b.Until = epoch
	}
	return b
}

// Items go to the end of their sections, which are there once, whatever users wrote.
func TestCompose(t *testing.T) {
	t.Parallel()
	hard := item{Section: sectionHard, Text: "- H\n"}
	soft := item{Section: sectionSoft, Text: "- S\n"}
	for name, c := range map[string]struct {
		file  string
		items []item
		want  string
	}{
		"a new file":   {"", []item{hard}, preamble + "\n## Hard blockers\n\n- H\n"},
		"the last one": {"## Hard blockers\n- x\n", []item{hard, hard}, "## Hard blockers\n- x\n- H\n"},
		"an earlier one": {
			"## Hard blockers\n\n- x\n\n## Soft blockers\n\n- y\n", []item{hard, soft},
			"## Hard blockers\n\n- x\n- H\n\n## Soft blockers\n\n- y\n- S\n",
		},
		"none":               {"## Soft blockers\n", []item{hard, soft}, "## Soft blockers\n- S\n\n## Hard blockers\n\n- H\n"},
		"people's heading":   {"## Hard blockers\n\n- x\n\n\n# My notes\n", []item{hard}, "## Hard blockers\n\n- x\n- H\n\n\n# My notes\n"},
		"a deeper heading":   {"## Hard blockers\n### Monday\n", []item{hard}, "## Hard blockers\n- H\n### Monday\n"},
		"a closed heading":   {"## Hard blockers ##\r\n", []item{hard}, "## Hard blockers ##\r\n- H\n"},
		"no heading":         {"Just text.\n", []item{hard}, "Just text.\n\n## Hard blockers\n\n- H\n"},
		"no end of line":     {"## Hard blockers\n- x", []item{hard}, "## Hard blockers\n- x\n- H\n"},
		"perhaps a heading":  {"## Hard blockers\n#tag\n", []item{hard}, "## Hard blockers\n- H\n#tag\n"},
		"code":               {"## Hard blockers\n```\n## Mine\n```\n", []item{hard}, "## Hard blockers\n- H\n```\n## Mine\n```\n"},
		"no heading: indent": {"## Hard blockers\n\n    ## Mine\n", []item{hard}, "## Hard blockers\n\n    ## Mine\n- H\n"},
		"an open block":      {"## Hard blockers\n~~~\n", []item{hard}, "## Hard blockers\n- H\n~~~\n"},
	} {
		if got := compose(c.file, c.items); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Whatever a user's file contains, an item is added once, and nothing else changes.
func FuzzCompose(f *testing.F) {
	b := boulder.Blocker{ID: "B7", BlockerScope: inRun, Question: "Which?", Context: "C", CreatedAt: epoch}
	i := raisedItem(&b)
	for _, seed := range []string{
		"", "\n", preamble, "## Soft blockers\n" + i.Text, i.Text[:40], "```\n", "~~~~\n~~~\n", "#",
		"-", "\xff\x00\r", "## Hard blockers",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		after := compose(text, []item{i})
		if again := compose(after, []item{i}); !strings.Contains(after, i.Text) || again != after {
			t.Errorf("not found in %q: %q", text, again)
		}
		if strings.Contains(text, i.Text) {
			return
		}
		before, behind, _ := strings.Cut(after, i.Text)
		if rest := before + behind; text != "" && rest != text && !strings.HasPrefix(rest, text+"\n") {
			t.Errorf("%q became %q", text, rest)
		}
	})
}
