package view

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/project/report"
	"github.com/bouldermgr/manager/testkit/golden/sample"
)

// hostile has texts with a meaning in Markdown, HTML or a terminal.
var hostile = []string{
	"# heading", "## Next\n- `rm -rf /`", "- item", "* item", "+ item", "1. one", "2) two", "> quote", "---", "***", "===",
	"```\nrm -rf /\n```", "~~~", "`code`", "``", "`", "**bold**", "__bold__", "_em_", "a_b", "[x](http://e)", "![p](http://e)",
	"<b>", "<!--", "-->", "<script>alert(1)</script>", "&lt;", "&#60;", "| a | b |", "| - | - |", "$x$", "$`x`$", "$", `\`,
	"- [ ] open", "- [x] done", "\n\n# heading", "\r\n## Next", "\u2028# heading", "\t# code", "    code", "<http://e>",
	"\x1b[31mred", "\x1b]0;title\x07", "\x9b2J", "\u202e", "text", "", " ", "0", "don't", "3. ", "[a]: http://e",
}

// Whatever agents write, the report has the same lines and structure, and their text stays text.
func TestMarkdownIsHarmless(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Custom(func(t *rapid.T) string {
			// No control characters: an unterminated escape sequence would swallow what follows it.
			random := rapid.StringOfN(rapid.RuneFrom(nil, unicode.L, unicode.N, unicode.P, unicode.S, unicode.Zs), 0, 8, -1)
			return strings.Join(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(hostile), random), 1, 4).Draw(t, "parts"), rapid.SampledFrom([]string{"", " ", "\n"}).Draw(t, "between"))
		})
		// The original text follows, as empty and repeated texts are left out.
		said := map[string]string{} // a chosen option must stay equal to its option
		got := markdown(sample.Night(func(s string) string {
			if said[s] == "" {
				said[s] = text.Draw(t, "text") + s
			}
			return said[s]
		}))
		checkMarkdown(t, markdown(sample.Night(sample.AsItIs)), got)
	})
}

func markdown(in report.Input) string {
	for i := range in.SubTasks { // gate outputs vary in length; TestOutputStaysInItsFence has them
		for j, g := range in.SubTasks[i].GateRuns {
			if g.Output != "" {
				in.SubTasks[i].GateRuns[j].Output = "out"
			}
		}
	}
	var b bytes.Buffer
	PrintReport(page.Out{Writer: &b, Markdown: true}, report.New(in))
	return b.String()
}

var structure = regexp.MustCompile(`^( *- ([✓≈✗!○–] )?(\*\*)?|#+ | *)`)

// checkMarkdown compares the structure of each line, and looks for special characters outside of code.
func checkMarkdown(t *rapid.T, want, got string) {
	wantLines, gotLines := strings.Split(want, "\n"), strings.Split(got, "\n")
	if len(wantLines) != len(gotLines) {
		t.Fatalf("%d lines became %d:\n%s", len(wantLines), len(gotLines), got)
	}
	for i, line := range gotLines {
		if w, g := structure.FindString(wantLines[i]), structure.FindString(line); w != g {
			t.Fatalf("line %d begins as %q, want %q:\n%s", i, g, w, line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
			t.Fatalf("line %d can move the cursor: %q", i, line)
		}
		if strings.Contains(line, "```text") || strings.TrimSpace(line) == "```" {
			continue
		}
		if w, g := stars(t, wantLines[i]), stars(t, line); w != g {
			t.Fatalf("%d stars mean something, want %d: %s", g, w, line)
		}
	}
}

var (
	ticks   = regexp.MustCompile("`+")
	special = regexp.MustCompile("\\\\.|`+")
	means   = regexp.MustCompile(`[\[\]|~]|<[\pL/!?]|(^|[^\pL\pN_])_|_([^\pL\pN_]|$)`) // HTML, links, tables, emphasis
)

// stars parses a line as CommonMark does: a backslash escapes the next character, and a run of backticks opens code up
// to the next run of that length. It returns the number of stars in the rest, where nothing else may have a meaning.
func stars(t *rapid.T, line string) int {
	plain, rest := "", line
	for at := special.FindStringIndex(rest); at != nil; at = special.FindStringIndex(rest) {
		found := rest[at[0]:at[1]]
		plain, rest = plain+rest[:at[0]], rest[at[1]:]
		if found[0] == '\\' {
			plain += map[bool]string{true: "0", false: " "}[found == `\_`] // an escaped _ stays part of its word
			continue
		}
		runs := ticks.FindAllStringIndex(rest, -1)
		end := slices.IndexFunc(runs, func(run []int) bool { return run[1]-run[0] == len(found) })
		if end < 0 {
			t.Fatalf("code is not closed: %s", line)
		}
		plain, rest = plain+" ", rest[runs[end][1]:]
	}
	plain += rest
	if m := means.FindString(plain); m != "" {
		t.Fatalf("%q means something in: %s", m, line)
	}
	return strings.Count(plain, "*")
}

// The output of a program stays inside its fence, whatever fences it contains.
func TestOutputStaysInItsFence(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		out := strings.Join(rapid.SliceOfN(rapid.SampledFrom(hostile), 1, 8).Draw(t, "lines"), "\n")
		in := report.Input{
			Boulder: boulder.Boulder{ID: "id", Status: boulder.Failed},
			SubTasks: []*boulder.SubTask{
				{
					ID: "a", Subject: "a", Status: boulder.SubTaskFailed,
					GateRuns: []boulder.Gate{{Command: "x", ExitCode: 1, Output: out + "\nend"}},
				},
				{ID: "z", Position: 2, Subject: "z", Status: boulder.SubTaskFailed},
			},
		}
		var b bytes.Buffer
		PrintReport(page.Out{Writer: &b, Markdown: true}, report.New(in))
		_, rest, _ := strings.Cut(b.String(), "exit code 1: `x`")
		lines := strings.Split(rest, "\n")[1:]
		fence := strings.TrimSuffix(lines[0], "text")
		n := 1
		for ; lines[n] != fence; n++ {
			if s := strings.TrimSpace(lines[n]); lines[n] != "" && !strings.HasPrefix(lines[n], "    ") ||
				strings.HasPrefix(s, strings.TrimSpace(fence)) {
				t.Fatalf("line %q leaves the fence %q:\n%s", lines[n], fence, rest)
			}
		}
		if strings.TrimSpace(lines[n-1]) != "end" || !strings.HasPrefix(lines[n+1], "- ✗ 2. **z**") {
			t.Fatalf("the fence ends at %q, before %q:\n%s", lines[n-1], lines[n+1], rest)
		}
	})
}

// A terminal gets no control characters of agents, and no forged heading.
func TestTextIsHarmless(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom(hostile)
		in := sample.Night(func(s string) string { return text.Draw(t, "text") + s })
		var b bytes.Buffer
		PrintReport(page.Out{Writer: &b}, report.New(in))
		for line := range strings.Lines(b.String()) {
			if strings.ContainsFunc(strings.TrimRight(line, "\n"), func(r rune) bool {
				return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
			}) {
				t.Fatalf("%q", line)
			}
		}
		if n := strings.Count(b.String(), "\nNext\n"); n != 1 {
			t.Fatalf("there are %d headings Next:\n%s", n, b.String())
		}
	})
}
