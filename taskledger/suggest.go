package taskledger

import "strings"

// closest gives the candidate that word was probably meant to be, or "".
func closest(word string, candidates []string) string {
	const maxWord = 64 // the distance of long texts costs much and says nothing
	if len(word) > maxWord {
		return ""
	}
	best, fewest := "", len(word)/3
	for _, c := range candidates {
		if len(c) > maxWord {
			continue
		}
		if n := distance(strings.ToLower(word), strings.ToLower(c)); n < fewest || n == fewest && best == "" {
			best, fewest = c, n
		}
	}
	return best
}

// distance is how many bytes must be added, removed or changed to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
