// Package text holds the words for people: texts made harmless for a terminal and cut to size, numbers as they are said
// and written, and the word that was probably meant.
//
// Before any foreign text reaches a terminal or a file that is looked at in one, [Safe] or [OneLine] takes out what
// would move the cursor, change colours or turn the direction of writing. Widths are those of terminals: a Chinese
// character or an emoji takes two columns.
package text

import (
	"slices"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// Safe keeps the lines of a text and drops everything that is not plain writing.
func Safe(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(ansi.Strip(s), "\t", "    ")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return -1
		case r == '\u2028', r == '\u2029':
			return '\n'
		}
		return r
	}, s)
}

// OneLine is [Safe] on one line, with runs of white space folded.
func OneLine(s string) string { return strings.Join(strings.Fields(Safe(s)), " ") }

// Clip is [OneLine], cut visibly to n columns.
func Clip(s string, n int) string { return Truncate(OneLine(s), n) }

// Truncate cuts a clean line, which may have colours, visibly to n columns.
func Truncate(line string, n int) string {
	n = max(n, 0)
	for w := n; ansi.StringWidthWc(line) > n; w-- { // TruncateWc takes a family of emojis for one of them, and keeps too much
		line = ansi.TruncateWc(line, w, "…")
	}
	return line
}

// ClipLine cuts a safe line visibly to n columns and keeps its white space. Too little room, as for a stream that is no
// terminal, leaves it as it is.
func ClipLine(line string, n int) string {
	if n < 20 {
		return line
	}
	return ansi.TruncateWc(line, n, "…")
}

// Indent puts prefix before every line of a text.
func Indent(s, prefix string) string {
	return prefix + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n"+prefix)
}

// Wrap breaks the lines of a text between words so that none is wider than n columns. Too little room leaves
// them as they are.
func Wrap(s string, n int) string {
	if n < 20 {
		return s
	}
	return ansi.WrapWc(s, n, "")
}

// Fit is [Clip], filled with spaces to exactly n columns.
func Fit(s string, n int) string {
	s = Clip(s, n)
	return s + strings.Repeat(" ", max(0, n-ansi.StringWidthWc(s)))
}

// If is a text on a condition, else none.
func If(on bool, s string) string {
	if on {
		return s
	}
	return ""
}

// Prefixed puts something in front of a text that is not empty.
func Prefixed(prefix, s string) string { return If(s != "", prefix+s) }

// JoinedBy puts sep between the texts that are not empty.
func JoinedBy(sep string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), sep)
}
