package text

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"
)

func TestElapsed(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", time.Millisecond: "<0.1s", 440 * time.Millisecond: "0.4s",
		999 * time.Millisecond: "0.9s", time.Second: "1s", 59900 * time.Millisecond: "59s",
		62 * time.Second: "1m02s", time.Hour: "1h00m", 3*time.Hour + 5*time.Minute: "3h05m", 52 * time.Hour: "2d04h",
		2160 * time.Hour: "90d",
	} {
		if got := Elapsed(d); got != want {
			t.Errorf("elapsed(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1.0k", 12345: "12.3k", 99_949: "99.9k", 99_951: "100k", 999_499: "999k",
		999_501: "1.0M", 4_500_000: "4.5M",
	} {
		if got := Count(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestClipText(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in   string
		n    int
		want string
	}{
		{"short", 10, "short"},
		{"two\n lines\tand tabs", 40, "two lines and tabs"},
		{"a longer text", 8, "a longe…"},
		{"主题上下文", 10, "主题上下文"},
		{"主题上下文", 9, "主题上下…"},
		{"主题上下文", 8, "主题上…"}, // half of a wide character does not fit
		{"\x1b[31mred\x1b[0m \x1b]0;title\abell\a", 40, "red bell"},
		{"turned \u202Earound\u202C", 40, "turned around"},
		{"broken \xff text", 40, "broken \uFFFD text"},
		{"anything", 0, ""},
	} {
		if got := Clip(test.in, test.n); got != test.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", test.in, test.n, got, test.want)
		}
	}
}

// hostile matches escape sequences, whole and cut, control characters, joined emojis and bidirectional overrides.
const hostile = `(\x1b[\[\]P_][0-9;?]*[a-zA-Z\x07]?|[a-z \t]|\x{9b}|\x{1F469}\x{200D}|\x{202E}){0,20}`

// No text of an agent or model may reach the terminal as a command, or break the columns.
func TestTextIsHarmless(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string {
			return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		}), rapid.StringMatching(hostile)).Draw(t, "text")
		n := rapid.IntRange(1, 40).Draw(t, "columns")
		checkHarmless(t, Safe(s), "\n")
		got := Fit(s, n)
		checkHarmless(t, got, "")
		if w := ansi.StringWidthWc(got); w != n {
			t.Fatalf("Fit(%q, %d) is %d columns wide: %q", s, n, w, got)
		}
	})
}

func checkHarmless(t interface{ Fatalf(string, ...any) }, s, allowed string) {
	if !utf8.ValidString(s) {
		t.Fatalf("invalid UTF-8: %q", s)
	}
	for _, r := range s {
		if (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) && !strings.ContainsRune(allowed, r) {
			t.Fatalf("%q holds %q", s, r)
		}
	}
}

// Every line of a quoted text is marked, also where it is cut, and a cut text keeps its limit.
func TestQuotedLinesStayMarked(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		said := rapid.StringOfN(rapid.RuneFrom([]rune("ab> #\n\n\r\v\u2028é")), 0, 300, -1).Draw(t, "said")
		quoted := Quote(said)
		limit, keep := rapid.IntRange(0, 400).Draw(t, "limit"), Keep(rapid.IntRange(0, 2).Draw(t, "keep"))
		got := Excerpt(quoted, limit, keep)
		if n := utf8.RuneCountInString(got); n > max(limit, 40) {
			t.Fatalf("%d characters", n)
		}
		for _, line := range breaks().Split(got, -1) {
			if got != "" && !strings.HasPrefix(line, ">") && !strings.HasPrefix(line, "[cut: ") {
				t.Fatalf("%q is not marked in %q", line, got)
			}
		}
	})
}

// What does not show in a terminal is quoted, not dropped.
func TestWhole(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"touch 'a  b' \\n": "touch 'a  b' \\n",
		"true\ntouch x":    `"true\ntouch x"`,
		"a\x1b[8mb":        `"a\x1b[8mb"`,
		"a\u202eb\u200bc":  `"a\u202eb\u200bc"`,
		"a\xffb":           `"a\xffb"`,
	} {
		if got := Whole(s); got != want {
			t.Errorf("%q is shown as %s", s, got)
		}
	}
}

func TestWrapHanging(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"  -q, --quiet   no progress on stderr":        "  -q, --quiet   no progress on\n                stderr",
		"- a list item that is too long for it":        "- a list item that is too long\n  for it",
		"    below a margin, as before, it goes":       "    below a margin, as before,\n    it goes",
		"https://example.com/a/word/that/is/wider and": "https://example.com/a/word/that/is/wider\nand",
		"short\nlines stay":                            "short\nlines stay",
	} {
		if got := WrapHanging(s, 30); got != want {
			t.Errorf("%q:\n%s\nwant\n%s", s, got, want)
		}
	}
	if s := strings.Repeat("word ", 40); WrapHanging(s, 0) != s {
		t.Error("what is no terminal is not wrapped")
	}
}

func TestFlow(t *testing.T) {
	t.Parallel()
	full := strings.Repeat("x", leastFlow+1)
	for s, want := range map[string]string{
		full + "\nrest\n\nnew":  full + " rest\n\nnew",
		"Title\n" + full:        "Title\n" + full,
		full + "\n  - indented": full + "\n  - indented",
		full + "\n- item":       full + "\n- item",
	} {
		if got := Flow(s); got != want {
			t.Errorf("%q became %q", s, got)
		}
	}
}
