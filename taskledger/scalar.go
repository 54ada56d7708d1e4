package taskledger

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// scalar writes a text in one line of YAML: plain where nothing in it has a meaning to YAML, between single quotes
// where that keeps a command readable, and else between double quotes with escapes, which Go and YAML write alike.
func scalar(s string) string {
	switch {
	case isPlain(s):
		return s
	case strings.ContainsAny(s, `"\`) && !strings.ContainsFunc(s, unprintable):
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	default:
		return strconv.Quote(s)
	}
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// isPlain is narrower than YAML: every reader, and every person, takes such a text for a text.
func isPlain(s string) bool {
	if s == "" || strings.TrimSpace(s) != s || strings.ContainsFunc(s, unprintable) {
		return false
	}
	if strings.Contains(s, ": ") || strings.Contains(s, " #") || strings.HasSuffix(s, ":") ||
		strings.ContainsAny(s, "[]{},\"'`\\") {
		return false
	}
	first := rune(s[0])
	if !unicode.IsLetter(first) && s[0] < 0x80 && s[0] != '/' && s[0] != '_' {
		return false // numbers, dates and indicators begin so
	}
	words := []string{"true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"}
	return !slices.Contains(words, strings.ToLower(s))
}

// unfitForBlock matches texts that a literal block can hold only with marks that puzzle people, or that editors change:
// what begins with a space, ends with an empty line, or has spaces at the end of a line.
var unfitForBlock = regexp.MustCompile(`^[ \t\n]|[ \t](\n|$)|\n\n$`)

// isBlock reports whether a text is written as a literal block.
func isBlock(s string) bool {
	return strings.Contains(s, "\n") && !unfitForBlock.MatchString(s) &&
		!strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && r != '\t' && unprintable(r) })
}
