package text

import "strings"

// maxWord bounds what is compared, in bytes: the distance of long texts costs much and says nothing.
const maxWord = 64

// Nearest gives the candidate that word was probably meant to be: the first of those with the fewest slips, upper and
// lower case being the same. There may be one slip for every three bytes. It is empty if there is no such candidate.
func Nearest(word string, candidates []string) string {
	if len(word) > maxWord {
		return ""
	}
	best, fewest := "", len(word)/3
	for _, c := range candidates {
		if len(c) > maxWord {
			continue
		}
		if n := slips(strings.ToLower(word), strings.ToLower(c)); n < fewest || n == fewest && best == "" {
			best, fewest = c, n
		}
	}
	return best
}

// slips is how many bytes must be added, removed, changed or swapped with the next one to turn a into b (their distance
// by optimal string alignment).
func slips(a, b string) int {
	// Of the first i bytes of a from the first j of b; a row looks back at two others.
	older, before, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		older, before, row = before, row, older
		row[0] = i
		for j := 1; j <= len(b); j++ {
			changed := before[j-1]
			if a[i-1] != b[j-1] {
				changed++
			}
			row[j] = min(changed, before[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
