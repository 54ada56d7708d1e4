package wildcard

import "testing"

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"openai/gpt-4o", "openai/gpt-4o", true},
		{"openai/gpt-4o", "openai/gpt-4o-mini", false},
		{"*", "", true},
		{"*GPT-4o*", "openrouter/openai/gpt-4O-mini", true},
		{"*claude*sonnet*", "anthropic/claude-sonnet-4-5", true},
		{"*claude*sonnet*", "anthropic/sonnet-claude", false},
		{"a*a", "a", false}, // prefix and suffix do not share a character
		{"a*a", "aa", true},
		{"*ab*ab", "ab", false},
		{"", "", true},
		{"", "a", false},
		{"a/b", "a/bc", false}, {"a*", "abc", true}, {"a*", "ba", false}, {"*c", "abc", true}, {"*c", "cab", false},
		{"a*c", "abc", true}, {"*b*", "abc", true}, {"*b*", "ac", false}, {"a**c", "ac", true}, {"*ab*ab", "abab", true},
		{"*a*b*c", "xaybzc", true}, {"*a*b*c", "xbyazc", false}, {"a*bc", "abcbc", true},
	} {
		if got := Match(c.pattern, c.text); got != c.want {
			t.Errorf("%q, %q: %v", c.pattern, c.text, got)
		}
	}
}
