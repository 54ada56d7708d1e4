package page

import (
	"strings"
	"unicode"
)

// escape makes a line of text mean itself: no emphasis, code, link, picture, HTML, table or entity, and if it begins
// its block, no heading, list, quote or rule.
func escape(s string) string {
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
		if means(runes, i) || opens(runes, i) {
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
	switch before := string(runes[:i]); runes[i] {
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
	fence := strings.Repeat("`", 1+longestRun(s))
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}

// longestRun is the length of the longest run of backticks.
func longestRun(s string) int {
	longest := 0
	for _, run := range strings.FieldsFunc(s, func(r rune) bool { return r != '`' }) {
		longest = max(longest, len(run))
	}
	return longest
}
