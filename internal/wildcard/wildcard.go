// Package wildcard compares names of models with patterns, as limits and prices have them.
package wildcard

import "strings"

// Match reports whether a pattern, in which * stands for any characters, slashes included, matches all of a text. Case
// does not matter.
func Match(pattern, text string) bool {
	head, rest, star := strings.Cut(strings.ToLower(pattern), "*")
	tail, begins := strings.CutPrefix(strings.ToLower(text), head)
	if !star {
		return begins && tail == ""
	}
	for i := 0; begins && i <= len(tail); i++ {
		if Match(rest, tail[i:]) {
			return true
		}
	}
	return false
}
