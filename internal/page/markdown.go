package page

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// escape makes a line of text mean itself: no emphasis, code, link, picture, HTML, table or entity, and if it begins
// its block, no heading, list, quote or rule.
func escape(s string) string {
	var b strings.Builder
	for i, r := range s {
		before, after := s[:i], s[i+utf8.RuneLen(r):]
		next, _ := utf8.DecodeRuneInString(after)
		means := false
		switch r {
		case '\\', '`', '*', '[', ']', '|', '~':
			means = true
		case '_': // within a word it means nothing
			last, _ := utf8.DecodeLastRuneInString(strings.TrimRight(before, "_"))
			next, _ = utf8.DecodeRuneInString(strings.TrimLeft(after, "_"))
			means = !isWord(last) || !isWord(next)
		case '<': // HTML, or a link; not "<0.1s"
			means = after == "" || unicode.IsLetter(next) || strings.ContainsRune("/!?", next)
		case '&': // an entity
			means = after == "" || next == '#' || isWord(next)
		case '$': // a formula; prices are none
			means = next < '0' || next > '9'
		case '-', '+', '=', '#', '>':
			means = before == ""
		case '.', ')': // a numbered list
			means = before != "" && strings.Trim(before, "0123456789") == "" && (after == "" || next == ' ')
		}
		if means {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

func isWord(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

// fence is a run of at least n backticks that is longer than any in s.
func fence(s string, n int) string {
	for strings.Contains(s, strings.Repeat("`", n)) {
		n++
	}
	return strings.Repeat("`", n)
}
