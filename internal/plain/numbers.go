package plain

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/plural"
)

// Elapsed is a duration as people say it: <0.1s, 0.4s, 34s, 1m02s, 3h05m, 2d04h, 90d.
func Elapsed(d time.Duration) string {
	switch d = max(d, 0); {
	case d == 0:
		return "0s"
	case d < 100*time.Millisecond:
		return "<0.1s"
	case d < time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return whole(d, time.Second) + "s"
	case d < time.Hour:
		return whole(d, time.Minute) + "m" + two(d%time.Minute/time.Second) + "s"
	case d < 24*time.Hour:
		return whole(d, time.Hour) + "h" + two(d%time.Hour/time.Minute) + "m"
	case d < 10*24*time.Hour:
		return whole(d, 24*time.Hour) + "d" + two(d%(24*time.Hour)/time.Hour) + "h"
	}
	return whole(d, 24*time.Hour) + "d"
}

func whole(d, unit time.Duration) string { return strconv.FormatInt(int64(d/unit), 10) }

// two writes a number below 100 with two digits.
func two(n time.Duration) string { return string([]byte{byte('0' + n/10), byte('0' + n%10)}) }

// Count is a number in at most five columns up to a billion: 950, 12.3k, 4.5M.
func Count(n int64) string {
	switch f := float64(n); {
	case n < 1000:
		return fmt.Sprint(n)
	case f < 99_950:
		return fmt.Sprintf("%.1fk", f/1e3)
	case f < 999_500:
		return fmt.Sprintf("%.0fk", f/1e3)
	default:
		return fmt.Sprintf("%.1fM", f/1e6)
	}
}

// Money is an amount in US dollars, with cents, or with the digits that show it is not nothing.
func Money(dollars float64) string {
	switch {
	case dollars <= 0 || dollars >= 0.095:
		return fmt.Sprintf("$%.2f", max(dollars, 0))
	case dollars < 0.0001:
		return "<$0.0001"
	case dollars < 0.00095:
		return fmt.Sprintf("$%.4f", dollars)
	}
	return fmt.Sprintf("$%.3f", dollars)
}

// Usage is a usage in a sentence: "12.3k tokens, $0.04". A price that is not known is said to be so.
func Usage(u boulder.Usage) string {
	tokens := Count(u.Tokens()) + " tokens"
	switch {
	case u.Unpriced > 0 && u.Cost > 0:
		return fmt.Sprintf("%s, %s and %s of unknown price", tokens, Money(u.Cost), plural.Of(int(u.Unpriced), "call"))
	case u.Unpriced > 0:
		return tokens + ", cost unknown"
	}
	return tokens + ", " + Money(u.Cost)
}

// Budget is a budget in words: "2.0M tokens, $5.00, 8h"; empty if it bounds nothing.
func Budget(b boulder.Budget) string {
	var parts []string
	add := func(set bool, text string) {
		if set {
			parts = append(parts, text)
		}
	}
	add(b.Tokens > 0, Count(b.Tokens)+" tokens")
	add(b.Cost > 0, fmt.Sprintf("$%.2f", b.Cost))
	add(b.Time > 0, Elapsed(time.Duration(b.Time)))
	add(b.Attempts > 0, plural.Of(b.Attempts, "attempt"))
	add(b.Calls > 0, plural.Of(int(b.Calls), "model call"))
	return strings.Join(parts, ", ")
}
