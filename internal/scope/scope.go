// Package scope compares file patterns: whether two sub-tasks may write one file, and what one wrote beyond its own.
package scope

import (
	"fmt"
	"slices"
	"strings"
)

// Check returns what is wrong with a pattern. A pattern is a path below the project's root with / between names, in
// which * and ? stand for characters of a name and ** for any number of directories.
func Check(pattern string) error {
	names := strings.Split(pattern, "/")
	switch {
	case strings.TrimSpace(pattern) == "":
		return fmt.Errorf("it is empty")
	case strings.ContainsAny(pattern, `\[]{}`):
		return fmt.Errorf("%q has characters other than *, ? and ** for what is left open", pattern)
	case names[0] == "" || slices.Contains(names, ".."):
		return fmt.Errorf("%q does not lead below the project", pattern)
	}
	return nil
}

// Outside returns the files that no pattern matches; none if there are no patterns.
func Outside(patterns, files []string) (outside []string) {
	for _, file := range files {
		if len(patterns) > 0 && !slices.ContainsFunc(patterns, func(pattern string) bool {
			return overlap(names(pattern), strings.Split(strings.ToLower(file), "/"))
		}) {
			outside = append(outside, file)
		}
	}
	return outside
}

// Overlap returns a pattern of each list such that both may match a file; "" if there are none. Case is ignored.
func Overlap(one, other []string) (string, string) {
	for _, a := range one {
		for _, b := range other {
			if overlap(names(a), names(b)) {
				return a, b
			}
		}
	}
	return "", ""
}

func overlap(a, b []string) bool {
	return meet(a, b, "**", func(x, y string) bool {
		return meet([]rune(x), []rune(y), '*', func(x, y rune) bool { return x == y || x == '?' || y == '?' })
	})
}

// names splits a pattern. With a final slash, or a last name without wildcard and extension, it includes all below.
func names(pattern string) []string {
	pattern = strings.ToLower(strings.TrimPrefix(pattern, "./"))
	all := strings.Split(strings.TrimSuffix(pattern, "/"), "/")
	if last := all[len(all)-1]; strings.HasSuffix(pattern, "/") || !strings.ContainsAny(last, "*?.") || last == "." {
		all = append(all, "**")
	}
	return slices.DeleteFunc(all, func(name string) bool { return name == "." || name == "" })
}

// meet reports whether two sequences may match the same one. star matches any number of elements.
func meet[T comparable](a, b []T, star T, same func(x, y T) bool) bool {
	next := make([]bool, len(b)+1) // whether a[i+1:] meets b[j:], by j
	for i := len(a); i >= 0; i-- {
		now := make([]bool, len(b)+1)
		for j := len(b); j >= 0; j-- {
			switch inA, inB := i < len(a), j < len(b); {
			case !inA && !inB:
				now[j] = true
			case inA && a[i] == star:
				now[j] = next[j] || inB && now[j+1]
			case inB && b[j] == star:
				now[j] = now[j+1] || inA && next[j]
			default:
				now[j] = inA && inB && same(a[i], b[j]) && next[j+1]
			}
		}
		next = now
	}
	return next[0]
}
