package report

import (
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// GreenBefore names the gates that were green before the work began; empty if none was.
func GreenBefore(baseline []boulder.Gate) string {
	var green []string
	for _, g := range baseline {
		if g.Green() {
			green = append(green, "`"+text.Short(text.OneLine(g.Command), 100)+"`")
		}
	}
	return text.Prefixed("≈ was green before, and proves nothing by itself: ", strings.Join(green, ", "))
}
