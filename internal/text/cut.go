package text

import (
	"fmt"
	"sort"
	"strings"
)

// Keep says which part of a text an excerpt shows.
type Keep int

// Start keeps the beginning, End the end. Ends keeps both; the beginning gets a third.
const (
	Start Keep = iota
	End
	Ends
)

// Head returns the first n characters of a text.
func Head(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}

// Cut cuts a text to at most n characters. A cut text ends with an ellipsis.
func Cut(s string, n int) string {
	if Head(s, n) == s {
		return s
	}
	return Head(s, n-1) + "…"
}

// Fold returns a text on one line, as valid UTF-8, with runs of white space folded.
func Fold(s string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
}

// Short is [Fold], then [Cut].
func Short(s string, n int) string { return Cut(Fold(s), n) }

// Excerpt cuts a text to at most limit characters, as valid UTF-8, with a notice in place of the cut. A smaller limit
// than the notice does not shorten it.
func Excerpt(s string, limit int, keep Keep) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	all := []rune(s)
	total := len(all)
	notice := func(missing int) string { return fmt.Sprintf("\n[cut: %d of %d characters]\n", missing, total) }
	if total <= max(limit, len(notice(total))) {
		return s
	}
	kept := max(0, limit-len(notice(total)))
	front := map[Keep]int{Start: kept, End: 0, Ends: kept / 3}[keep]
	return strings.TrimSpace(string(all[:front]) + notice(total-kept) + string(all[total-kept+front:]))
}

// Level returns the greatest length to which all longer parts must be cut so that the parts together fit into room.
func Level(lengths []int, room int) int {
	return sort.Search(room, func(level int) bool {
		sum := 0
		for _, n := range lengths {
			sum += min(n, level+1)
		}
		return sum > room
	})
}
