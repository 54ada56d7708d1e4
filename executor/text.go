package executor

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// clip keeps the first n characters of a text on one line.
func clip(s string, n int) string {
	first := firstCharacters(s, n)
	if first == s {
		return oneLine(s)
	}
	return oneLine(firstCharacters(first, n-1)) + "…"
}

func oneLine(s string) string { return valid(strings.ReplaceAll(s, "\n", " ")) }

// head keeps the first n characters and says what was cut.
func head(s string, n int) string {
	first := firstCharacters(s, n)
	if first == s {
		return valid(s)
	}
	return valid(first) + fmt.Sprintf("\n[cut: the first %d of %d characters]", n, utf8.RuneCountInString(s))
}

// tail keeps the last n characters and says what was cut.
func tail(s string, n int) string {
	last := lastCharacters(s, n)
	if last == s {
		return valid(s)
	}
	return fmt.Sprintf("[cut: the last %d of %d characters]\n", n, utf8.RuneCountInString(s)) + valid(last)
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// firstCharacters looks at no more of a text than it keeps: outputs of tools have megabytes.
func firstCharacters(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

func lastCharacters(s string, n int) string {
	at := len(s)
	for ; n > 0 && at > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:at])
		at -= size
	}
	return s[at:]
}
