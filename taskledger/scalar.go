package taskledger

import (
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

// isBlock reports whether a text can be written as a literal block without marks that puzzle people.
func isBlock(s string) bool {
	if !strings.Contains(s, "\n") || strings.HasSuffix(s, "\n\n") || strings.ContainsFunc(s, unfitForBlock) {
		return false
	}
	first := true
	for line := range strings.Lines(s) {
		line = strings.TrimSuffix(line, "\n")
		if strings.TrimRight(line, " \t") != line { // editors strip it
			return false
		}
		if first && (line == "" || line[0] == ' ' || line[0] == '\t') { // would need an indentation mark
			return false
		}
		first = false
	}
	return true
}

func unfitForBlock(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }
