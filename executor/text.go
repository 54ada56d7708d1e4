package executor

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// clip keeps the first n characters of a text on one line.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\n", " "), "\uFFFD")
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	r := []rune(s)
	return string(r[:n-1]) + "…"
}

// head keeps the first n characters and says what was cut.
func head(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	total := utf8.RuneCountInString(s)
	if total <= n {
		return s
	}
	return string([]rune(s)[:n]) + fmt.Sprintf("\n[cut: the first %d of %d characters]", n, total)
}

// tail keeps the last n characters and says what was cut.
func tail(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	total := utf8.RuneCountInString(s)
	if total <= n {
		return s
	}
	return fmt.Sprintf("[cut: the last %d of %d characters]\n", n, total) + string([]rune(s)[total-n:])
}
