package text

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Elapsed formats a duration: <0.1s, 0.4s, 34s, 1m02s, 3h05m, 2d04h, 90d.
func Elapsed(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d <= 0:
		return "0s"
	case d < 100*time.Millisecond:
		return "<0.1s"
	case d < time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	case d < 10*day:
		return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}

// Millis is [Elapsed] of milliseconds.
func Millis(ms int64) string { return Elapsed(time.Duration(ms) * time.Millisecond) }

// Until formats the end of a wait, with the zone: 19:30:05 within ten minutes, 19:30 on the same day, else Mon 2 Jan 19:30.
func Until(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	switch {
	case t.Sub(now) < 10*time.Minute:
		return t.Format(time.TimeOnly + " MST")
	case t.Format(time.DateOnly) == now.Format(time.DateOnly):
		return t.Format("15:04 MST")
	}
	return t.Format("Mon 2 Jan 15:04 MST")
}

// Count formats a number, in at most six columns up to a billion: 950, 12.3k, 4.5M.
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

// Money formats US dollars with cents, and small amounts with more digits.
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

// Bytes formats a size, with 1,000 bytes in a kB: 0 bytes, 12.3 kB, 4.5 MB.
func Bytes(n int64) string {
	if n < 1000 {
		return Plural(int(n), "byte")
	}
	size, unit := float64(n)/1000, 0
	for ; size >= 999.95 && unit < 3; unit++ {
		size /= 1000
	}
	return fmt.Sprintf("%.1f %cB", size, "kMGT"[unit])
}

// Plural formats a number and a noun whose plural takes an s: "1 turn", "0 turns", "2 turns".
func Plural(n int, thing string) string { return fmt.Sprintf("%d %s%s", n, thing, If(n != 1, "s")) }

// ParseCount parses a whole number of at least 1, such as "500", "1.5k" or "2M"; the suffixes k, M and G ignore case.
func ParseCount(s string) (n int64, ok bool) {
	number := strings.TrimRight(s, "kKmMgG")
	places, known := map[string]int{"": 0, "k": 3, "m": 6, "g": 9}[strings.ToLower(s[len(number):])]
	whole, fraction, _ := strings.Cut(number, ".")
	fraction = strings.TrimRight(fraction, "0")
	if !known || len(fraction) > places {
		return 0, false
	}
	u, err := strconv.ParseUint(whole+fraction+strings.Repeat("0", places-len(fraction)), 10, 63)
	return int64(u), err == nil && u > 0
}

// Are is [Plural] with a verb: "1 blocker is", "2 blockers are".
func Are(n int, thing string) string { return Plural(n, thing) + cmp.Or(If(n == 1, " is"), " are") }

// Some returns "2 failed", or "" if n is 0.
func Some(n int, what string) string { return If(n > 0, fmt.Sprintf("%d %s", n, what)) }

// Stamp formats a date and time in the local zone.
func Stamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") }
