package cli

import (
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/text"
)

// The words of package text, which this package says on nearly every line.

func safeText(s string) string          { return text.Safe(s) }
func oneLine(s string) string           { return text.OneLine(s) }
func clipText(s string, n int) string   { return text.Clip(s, n) }
func clipLine(s string, n int) string   { return text.ClipLine(s, n) }
func indent(s, prefix string) string    { return text.Indent(s, prefix) }
func wrap(s string, n int) string       { return text.Wrap(s, n) }
func elapsed(d time.Duration) string    { return text.Elapsed(d) }
func count(n int64) string              { return text.Count(n) }
func money(dollars float64) string      { return text.Money(dollars) }
func usageText(u boulder.Usage) string  { return report.Usage(u) }
func plural(n int, thing string) string { return text.Plural(n, thing) }

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
