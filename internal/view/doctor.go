package view

import (
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/internal/text"
)

// Finding is the outcome of a check of `manager doctor`.
type Finding string

// The findings.
const (
	Fine   Finding = "ok"
	Notice Finding = "note"   // works, but is worth knowing
	Broken Finding = "failed" // in the way of a run
)

// Check is one line of `manager doctor`.
type Check struct {
	Name    string  `json:"name"`
	Finding Finding `json:"finding"`
	Detail  string  `json:"detail"`
	Do      string  `json:"do,omitempty"` // what to do about it
}

// Doctor is what `manager doctor --json` prints.
type Doctor struct {
	Type   string  `json:"type"` // doctor
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`
}

const widthCheck = 8 // database, opencode

// Print prints the report for people.
func (d *Doctor) Print(o Out) {
	marks := map[Finding]string{Fine: o.Green("✓"), Notice: o.Yellow("!"), Broken: o.Red("✗")}
	margin := strings.Repeat(" ", widthCheck+4)
	for _, c := range d.Checks {
		fmt.Fprintf(o, "%s %s  %s\n", marks[c.Finding], o.Bold(text.Fit(c.Name, widthCheck)),
			strings.TrimSpace(text.Indent(text.Safe(c.Detail), margin)))
		if c.Do != "" {
			fmt.Fprintf(o, "%s→ %s\n", margin, text.OneLine(c.Do))
		}
	}
	if !d.OK {
		fmt.Fprintln(o, "\nSomething is in the way of a run; see the lines with "+o.Red("✗")+".")
	}
}
