package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
)

// Texts come from models, agents and the commands they run. Before any of it reaches a terminal, [safeText] or
// [oneLine] takes out what would move the cursor, change colours or turn the direction of writing. Widths are those of
// terminals: a Chinese character or an emoji takes two columns.

// safeText keeps the lines of a text and drops everything that is not plain writing.
func safeText(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(ansi.Strip(s), "\t", "    ")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return -1
		case r == '\u2028', r == '\u2029':
			return '\n'
		}
		return r
	}, s)
}

// oneLine is safeText on one line, with runs of white space folded.
func oneLine(s string) string { return strings.Join(strings.Fields(safeText(s)), " ") }

// clipText is oneLine, cut visibly to n columns.
func clipText(s string, n int) string {
	s = oneLine(s)
	// TruncateWc takes a family of emojis for one of them, and keeps too much.
	for w := max(n, 0); ansi.StringWidthWc(s) > max(n, 0); w-- {
		s = ansi.TruncateWc(s, w, "…")
	}
	return s
}

// fit is clipText, filled with spaces to exactly n columns.
func fit(s string, n int) string {
	s = clipText(s, n)
	return s + strings.Repeat(" ", max(0, n-ansi.StringWidthWc(s)))
}

// fitRight is fit with the spaces in front.
func fitRight(s string, n int) string {
	s = clipText(s, n)
	return strings.Repeat(" ", max(0, n-ansi.StringWidthWc(s))) + s
}

// indent puts prefix before every line of a text.
func indent(s, prefix string) string {
	return prefix + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n"+prefix)
}

// wrap breaks the lines of a text between words so that none is wider than n columns. Too little room, as for a stream
// that is no terminal, leaves them as they are.
func wrap(s string, n int) string {
	if n < 20 {
		return s
	}
	return ansi.WrapWc(s, n, "")
}

// elapsed is a duration as people say it: <0.1s, 0.4s, 34s, 1m02s, 3h05m, 2d04h, 90d.
func elapsed(d time.Duration) string {
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

// count is a number in at most five columns up to a billion: 950, 12.3k, 4.5M.
func count(n int64) string {
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

// money is an amount in US dollars, with cents, or with the digits that show it is not nothing.
func money(dollars float64) string {
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

// costText is what is known of a cost: "$0.04", "$0.04+?" when some calls had no known price, "?" when none had.
func costText(u boulder.Usage) string {
	switch {
	case u.Unpriced > 0 && u.Cost > 0:
		return money(u.Cost) + "+?"
	case u.Unpriced > 0:
		return "?"
	}
	return money(u.Cost)
}

// usageText is a usage in a sentence: "12.3k tokens, $0.04". A price that is not known is said to be so.
func usageText(u boulder.Usage) string {
	tokens := count(u.Tokens()) + " tokens"
	switch {
	case u.Unpriced > 0 && u.Cost > 0:
		return fmt.Sprintf("%s, %s and %s of unknown price", tokens, money(u.Cost), plural(int(u.Unpriced), "call"))
	case u.Unpriced > 0:
		return tokens + ", cost unknown"
	}
	return tokens + ", " + money(u.Cost)
}

// plural counts things: "1 call", "2 calls".
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
