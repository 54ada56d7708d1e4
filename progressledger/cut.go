package progressledger

import (
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"
)

// keep says which part of a text survives a cut.
type keep int

const (
	keepHead keep = iota // what matters comes first
	keepTail             // what matters comes last
	keepEnds             // a third from the beginning, the rest from the end
)

// cut gives text in at most limit characters, with a notice where something is missing. The notice itself is never cut.
func cut(text string, limit int, what keep) string {
	runes := []rune(text)
	total := len(runes)
	if total <= max(limit, len(notice(total, total))) {
		return text
	}
	kept := max(0, limit-len(notice(total, total)))
	front := kept
	switch what {
	case keepTail:
		front = 0
	case keepEnds:
		front = kept / 3
	}
	cut := string(runes[:front]) + notice(total-kept, total) + string(runes[total-(kept-front):])
	return strings.TrimSpace(cut)
}

func notice(missing, total int) string {
	return fmt.Sprintf("\n[cut: %d of %d characters]\n", missing, total)
}

// limited keeps the beginning.
func limited(text string, limit int) string {
	return cut(strings.ToValidUTF8(text, "\uFFFD"), limit, keepHead)
}

// share gives the greatest length of one part at which parts of these lengths fit into room: short ones are whole, long
// ones equal.
func share(lengths []int, room int) int {
	return sort.Search(room, func(level int) bool {
		sum := 0
		for _, n := range lengths {
			sum += min(n, level+1)
		}
		return sum > room
	})
}

func length(text string) int { return utf8.RuneCountInString(text) }
