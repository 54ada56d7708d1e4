package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Usage is a usage in a sentence: "12.3k tokens, $0.04". A price that is not known is said to be so.
func Usage(u boulder.Usage) string {
	tokens := text.Count(u.Tokens()) + " tokens"
	switch {
	case u.Unpriced > 0 && u.Cost > 0:
		return fmt.Sprintf("%s, %s and %s of unknown price", tokens, text.Money(u.Cost), text.Plural(int(u.Unpriced), "call"))
	case u.Unpriced > 0:
		return tokens + ", cost unknown"
	}
	return tokens + ", " + text.Money(u.Cost)
}

// Budget is a budget in words: "2.0M tokens, $5.00, 8h"; empty if it bounds nothing.
func Budget(b boulder.Budget) string {
	var parts []string
	add := func(set bool, part string) {
		if set {
			parts = append(parts, part)
		}
	}
	add(b.Tokens > 0, text.Count(b.Tokens)+" tokens")
	add(b.Cost > 0, fmt.Sprintf("$%.2f", b.Cost))
	add(b.Time > 0, text.Elapsed(time.Duration(b.Time)))
	add(b.Attempts > 0, text.Plural(b.Attempts, "attempt"))
	add(b.Calls > 0, text.Plural(int(b.Calls), "model call"))
	return strings.Join(parts, ", ")
}
