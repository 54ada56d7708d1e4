// Package text formats texts and numbers for people: sanitized for terminals, cut, counted, and corrected.
//
// Foreign text must go through [Safe] or [OneLine] before it reaches a terminal, or a file that people view in one:
// these remove what moves the cursor, changes colours or the writing direction. Widths are terminal columns: a Chinese
// character or an emoji takes two.
package text

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Safe keeps the lines of a text, and drops control sequences, control characters and bidirectional controls.
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

// Whole is a text on one line with nothing left out, for what somebody agrees to: if it has what does not show, it is quoted.
func Whole(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return s
	}
	return strconv.Quote(s)
}

// Clip is [OneLine], then [Truncate].
func Clip(s string, n int) string { return Truncate(OneLine(s), n) }

// Truncate cuts a sanitized line, which may have colours, to n columns, with an ellipsis.
func Truncate(line string, n int) string {
	n = max(n, 0)
	for w := n; ansi.StringWidthWc(line) > n; w-- { // TruncateWc counts a joined emoji as one, and keeps too much
		line = ansi.TruncateWc(line, w, "…")
	}
	return line
}

// ClipLine is [Truncate] for a line that keeps its white space. With n below 20, as for a stream that is no terminal,
// it does nothing.
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

// Wrap breaks lines between words so that none is wider than n columns. With n below 20 it does nothing.
func Wrap(s string, n int) string {
	if n < 20 {
		return s
	}
	return ansi.WrapWc(s, n, "")
}

// margin matches what the rest of a broken line is indented by: spaces, with a name in a column of its own, or a mark.
var margin = Regexp(`^ *(?:\S+(?: \S+)* {2,}|[-*!✓✗→•] )?`)

// WrapHanging breaks lines that are wider than n columns between words. What follows goes below the text of the line,
// which begins after its first gap of two spaces. Wider words stay whole: a terminal breaks them so that they can be
// copied. With n below 20 it does nothing.
func WrapHanging(s string, n int) string {
	if n < 20 {
		return s
	}
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if ansi.StringWidthWc(line) > n {
			lines[i] = wrapLine(line, n)
		}
	}
	return strings.Join(lines, "\n")
}

func wrapLine(line string, n int) string {
	plain := ansi.Strip(line)
	hang := ansi.StringWidthWc(margin().FindString(plain))
	if hang > n*3/5 {
		hang = len(plain) - len(strings.TrimLeft(plain, " "))
	}
	var out strings.Builder
	at := 0
	for i, word := range strings.Split(line, " ") {
		width := ansi.StringWidthWc(word)
		switch {
		case i == 0:
		case at > hang && width > 0 && at+1+width > n:
			out.WriteString("\n" + strings.Repeat(" ", hang))
			at = hang
		default:
			out.WriteString(" ")
			at++
		}
		out.WriteString(word)
		at += width
	}
	return out.String()
}

// Flow joins the lines of each paragraph that was broken for another width, so that [WrapHanging] can break it again.
// Lines with a margin or columns stay.
func Flow(s string) string {
	lines := strings.Split(s, "\n")
	all := lines[:1]
	for _, line := range lines[1:] {
		before := all[len(all)-1]
		if len(before) > leastFlow && line != "" && margin().FindString(before) == "" && margin().FindString(line) == "" {
			all[len(all)-1] = before + " " + line
			continue
		}
		all = append(all, line)
	}
	return strings.Join(all, "\n")
}

// leastFlow is how long a line is that was broken because it was full, and not because it was over.
const leastFlow = 60

// Fit is [Clip], padded with spaces to n columns.
func Fit(s string, n int) string {
	s = Clip(s, n)
	return s + strings.Repeat(" ", max(0, n-ansi.StringWidthWc(s)))
}

// If returns s if on, else "".
func If(on bool, s string) string {
	if on {
		return s
	}
	return ""
}

// Prefixed returns prefix+s, or "" if s is empty.
func Prefixed(prefix, s string) string { return If(s != "", prefix+s) }

// First lists the first n items, and says how many more there are.
func First(n int, items []string) string {
	return strings.Join(items[:min(len(items), n)], ", ") + Prefixed(" and ", Some(len(items)-n, "more"))
}

// JoinedBy joins the non-empty parts with sep.
func JoinedBy(sep string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), sep)
}
