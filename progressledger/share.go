package progressledger

import (
	"sort"
	"unicode/utf8"
)

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
