// Package wildcard compares names of models with patterns, as limits and prices have them.
package wildcard

import "strings"

// Match reports whether a pattern, in which * stands for any characters, slashes included, matches all of a text. Case
// does not matter.
func Match(pattern, text string) bool {
	head, rest, star := strings.Cut(strings.ToLower(pattern), "*")
	text = strings.ToLower(text)
	if !star {
		return head == text
	}
	if !strings.HasPrefix(text, head) {
		return false
	}
	text = text[len(head):]
	for {
		part, next, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(text, part)
		}
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text, rest = text[i+len(part):], next
	}
}
