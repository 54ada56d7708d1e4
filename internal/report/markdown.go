package report

import (
	"io"
	"strings"
	"unicode"

	"github.com/bouldermgr/manager/internal/text"
)

// Markdown writes the report as CommonMark that GitHub and others show alike.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	var before *block
	for _, x := range r.layout().blocks {
		if before != nil && (x.kind < blockItem || before.kind < blockItem) {
			b.WriteByte('\n')
		}
		writeMarkdown(&b, x)
		before = &x
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeMarkdown(b *strings.Builder, x block) {
	switch x.kind {
	case blockOutput:
		margin := strings.Repeat("  ", x.level+1)
		for _, line := range fenced(x.spans[0].text) {
			b.WriteString(strings.TrimRight(margin+line, " ") + "\n")
		}
		return
	case blockTitle:
		b.WriteString("# ")
	case blockHeading:
		b.WriteString("## ")
	case blockPara:
	case blockItem:
		b.WriteString(strings.Repeat("  ", x.level) + "- ")
	}
	if m := x.mark.String(); m != "" {
		b.WriteString(escape(m, true) + " ")
	}
	begins := x.mark == markNone
	for _, s := range x.spans {
		written := markdownSpan(s, begins)
		b.WriteString(written)
		begins = begins && written == ""
	}
	b.WriteByte('\n')
}

// markdownSpan writes a span on one line. begins says that nothing stands before it, so that it could be taken for the
// beginning of a block.
func markdownSpan(s span, begins bool) string {
	t := squeeze(s.text)
	if strings.TrimSpace(t) == "" {
		return t
	}
	switch s.kind {
	case spanStrong:
		return "**" + escape(strings.TrimSpace(t), false) + "**"
	case spanCode:
		return codeSpan(strings.TrimSpace(t))
	}
	return escape(t, begins)
}

// squeeze makes a text one line, with white space folded and kept at its ends, where it parts one span from the next.
func squeeze(s string) string {
	line := text.OneLine(s)
	if line == "" {
		if s == "" {
			return ""
		}
		return " "
	}
	if strings.HasPrefix(s, " ") {
		line = " " + line
	}
	if strings.HasSuffix(s, " ") {
		line += " "
	}
	return line
}

// escape makes a line of text mean itself: no emphasis, code, link, picture, HTML, table or entity, and if it begins
// its block, no heading, list, quote or rule.
func escape(s string, begins bool) string {
	var b strings.Builder
	runes := []rune(s)
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		if r == '_' {
			end := i
			for end < len(runes) && runes[end] == '_' {
				end++
			}
			run := "_"
			if !isWord(runes, i-1) || !isWord(runes, end) { // within a word it means nothing
				run = `\_`
			}
			b.WriteString(strings.Repeat(run, end-i))
			i = end - 1
			continue
		}
		if means(runes, i) || begins && opens(runes, i) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// means reports whether a character means something in the middle of a line.
func means(runes []rune, i int) bool {
	switch runes[i] {
	case '\\', '`', '*', '[', ']', '|', '~':
		return true
	case '<': // HTML, or a link; not "<0.1s"
		return i+1 == len(runes) || unicode.IsLetter(runes[i+1]) || strings.ContainsRune("/!?", runes[i+1])
	case '&': // an entity
		return i+1 == len(runes) || runes[i+1] == '#' || isWord(runes, i+1)
	case '$': // a formula; prices are none
		return i+1 == len(runes) || runes[i+1] < '0' || runes[i+1] > '9'
	}
	return false
}

// opens reports whether a character would make a block of what begins with it.
func opens(runes []rune, i int) bool {
	before := strings.TrimLeft(string(runes[:i]), " ")
	switch runes[i] {
	case '-', '+', '=', '#', '>':
		return before == ""
	case '.', ')': // a numbered list
		ends := i+1 == len(runes) || runes[i+1] == ' '
		return ends && before != "" && strings.Trim(before, "0123456789") == ""
	}
	return false
}

func isWord(runes []rune, i int) bool {
	return i >= 0 && i < len(runes) && (unicode.IsLetter(runes[i]) || unicode.IsDigit(runes[i]))
}

// codeSpan quotes with more backticks than are in the text, in which nothing has a meaning then.
func codeSpan(s string) string {
	fence := strings.Repeat("`", 1+longestRun(s, '`'))
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}

// fenced puts lines between fences that are longer than any in them.
func fenced(s string) []string {
	s = strings.TrimRight(text.Safe(s), "\n ")
	fence := strings.Repeat("`", max(3, 1+longestRun(s, '`')))
	lines := append([]string{fence + "text"}, strings.Split(s, "\n")...)
	return append(lines, fence)
}

func longestRun(s string, of rune) int {
	longest, run := 0, 0
	for _, r := range s {
		if r != of {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
