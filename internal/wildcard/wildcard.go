// Package wildcard matches names of models against the patterns of limits and prices.
package wildcard

import "strings"

// Match reports whether a pattern matches all of a text. * matches any characters, slashes included. Case is ignored.
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
