package view

import (
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
)

// Finding is the outcome of a check of `manager doctor`.
type Finding string

const (
	Fine    Finding = "ok"
	Notice  Finding = "note"    // worth knowing, but not in the way of a run
	None    Finding = "none"    // nothing to check, or not known
	Broken  Finding = "failed"  // in the way of a run
	Skipped Finding = "skipped" // of `manager doctor --contract`
)

// Check is one line of `manager doctor`.
type Check struct {
	Name    string  `json:"name"`
	Finding Finding `json:"finding"`
	Detail  string  `json:"detail"`
	Do      string  `json:"do,omitempty"` // how to mend it
}

// Doctor is what `manager doctor --json` prints.
type Doctor struct {
	Type   string  `json:"type"` // doctor
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`
}

// Add adds checks.
func (d *Doctor) Add(checks []Check) {
	for _, c := range checks {
		d.Checks, d.OK = append(d.Checks, c), d.OK && c.Finding != Broken
	}
}

// Print prints the report for people.
func (d *Doctor) Print(o page.Out) {
	for _, c := range d.Checks {
		sign := map[Finding]page.Sign{Fine: page.Good, Notice: page.Attention, Broken: page.Bad, None: page.Idle}[c.Finding]
		lines := strings.Split(strings.TrimSpace(text.Safe(c.Detail)), "\n")
		if c.Do != "" {
			lines = append(lines, "→ "+text.OneLine(c.Do))
		}
		fmt.Fprintf(o, "%s %s  %s\n", o.Mark(sign), o.Bold(text.Fit(c.Name, len("opencode"))),
			strings.Join(lines, "\n"+strings.Repeat(" ", len("! opencode  "))))
	}
	if !d.OK {
		o.Say("\nSomething is in the way of a run; see the lines with ", o.Mark(page.Bad), ".")
	}
}
