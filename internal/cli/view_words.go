package cli

import (
	"cmp"
	"strings"
	"time"
)

// stated is a status and the reason for it, which often begins with the same word: "paused by a person".
func stated(status, reason string) string {
	if strings.HasPrefix(reason, status) {
		return reason
	}
	return joined(status, reason)
}

// joined is "a: b", or only one of them if the other says nothing new.
func joined(a, b string) string {
	if strings.Contains(a, b) {
		return a
	}
	return joinedBy(": ", a, b)
}

func joinedBy(sep, a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + sep + b
}

// modelName names a model for people; empty is what OpenCode uses when none is named.
func modelName(model string) string { return cmp.Or(model, "OpenCode's default model") }

// clock is a time of the day, here.
func clock(t time.Time) string { return t.Local().Format(time.TimeOnly) }

// prefixed puts something in front of a text that is not empty.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
