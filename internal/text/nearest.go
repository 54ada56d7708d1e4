package text

import "strings"

// maxWord bounds the compared words, in bytes: the distance of long texts is expensive and meaningless.
const maxWord = 64

// Nearest returns the candidate that word probably meant: the first with the fewest slips, ignoring case, and at most
// one per three bytes of word. It returns "" if there is none.
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

// slips returns the optimal string alignment distance of a and b, in bytes.
func slips(a, b string) int {
	table := make([][]int, len(a)+1) // [i][j]: distance of a[:i] and b[:j]
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
