package text

import "strings"

// maxWord bounds what is compared, in bytes: the distance of long texts costs much and says nothing.
const maxWord = 64

// Nearest gives the candidate that word was probably meant to be: the first of those with the fewest slips, upper and
// lower case being the same. There may be one slip for every three bytes. It is empty if there is no such candidate.
func Nearest(word string, candidates []string) (best string) {
	fewest := len(word)/3 + 1
	for _, c := range candidates {
		if max(len(c), len(word)) > maxWord {
			continue
		}
		if n := slips(strings.ToLower(word), strings.ToLower(c)); n < fewest {
			best, fewest = c, n
		}
	}
	return best
}

// slips is how many bytes must be added, removed, changed or swapped with the next one to turn a into b (their distance
// by optimal string alignment).
func slips(a, b string) int {
	table := make([][]int, len(a)+1) // of the first i bytes of a from the first j of b
	for i := range table {
		table[i] = make([]int, len(b)+1)
		for j := range table[i] {
			if i == 0 || j == 0 {
				table[i][j] = i + j
				continue
			}
			n := table[i-1][j-1]
			if a[i-1] != b[j-1] {
				n++
			}
			n = min(n, table[i-1][j]+1, table[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				n = min(n, table[i-2][j-2]+1)
			}
			table[i][j] = n
		}
	}
	return table[len(a)][len(b)]
}
