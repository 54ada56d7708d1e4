package view

import (
	"cmp"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/text"
)

// Stated is a status and the reason for it, which often begins with the same word: "paused by a person".
func Stated(status, reason string) string {
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
	return JoinedBy(": ", a, b)
}

// JoinedBy puts sep between two texts, unless one of them is empty.
func JoinedBy(sep, a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + sep + b
}

// ModelName names a model for people; empty is what OpenCode uses when none is named.
func ModelName(model string) string { return cmp.Or(model, "OpenCode's default model") }

// Clock is a time of the day, here.
func Clock(t time.Time) string { return t.Local().Format(time.TimeOnly) }

// Prefixed puts something in front of a text that is not empty.
func Prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// BudgetText is a budget in words: "2.0M tokens, $5.00, 8h".
func BudgetText(b boulder.Budget) string { return report.Budget(b) }

// UsageText is what was used, for people.
func UsageText(u boulder.Usage) string { return report.Usage(u) }

// costText is what is known of a cost: "$0.04", "$0.04+?" when some calls had no known price, "?" when none had.
func costText(u boulder.Usage) string {
	switch {
	case u.Unpriced > 0 && u.Cost > 0:
		return text.Money(u.Cost) + "+?"
	case u.Unpriced > 0:
		return "?"
	}
	return text.Money(u.Cost)
}
