package report

import (
	"fmt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/text"
)

// Gate is the newest run of a gate.
type Gate struct {
	Command    string `json:"command"`
	Result     string `json:"result"`
	ExitCode   int    `json:"exit_code"`
	DurationMS int64  `json:"duration_ms"`
	From       string `json:"from,omitempty"`   // the replaced sub-task that it was taken over from
	Why        string `json:"why,omitempty"`    // of no_worse
	Output     string `json:"output,omitempty"` // the tail, of one that does not hold
}

// How a gate went.
const (
	gatePassed   = "passed"
	gateNoWorse  = "no_worse" // red, as it was before
	gateFailed   = "failed"
	gateTimedOut = "timed_out"
	gateNotRun   = "not_run"
)

// NewGate is a run of a gate as reports have it.
func NewGate(g boulder.Gate) Gate {
	to := Gate{Command: g.Command, Result: gateFailed, ExitCode: g.ExitCode, DurationMS: g.Duration.Milliseconds()}
	switch {
	case g.Green():
		to.Result = gatePassed
	case g.NoWorse != "":
		to.Result, to.Why = gateNoWorse, g.NoWorse
	case g.TimedOut:
		to.Result = gateTimedOut
	}
	to.Output = text.If(!g.Holds(), g.Output)
	return to
}

// Text says how a gate went, behind the sign for it.
func (g Gate) Text() (sign, how string) {
	switch g.Result {
	case gatePassed:
		return "✓", "passed"
	case gateNoWorse:
		return "≈", "red, but no worse than before"
	case gateTimedOut:
		return "✗", "did not end in time"
	case gateNotRun:
		return "✗", "did not run"
	}
	return "✗", fmt.Sprintf("failed with exit code %d", g.ExitCode)
}

// Print writes how a gate went, with the end of its output if it does not hold.
func (g Gate) Print(o page.Out, depth int) {
	sign, how := g.Text()
	took := text.If(g.Result != gateNotRun, " ("+elapsed(g.DurationMS)+text.Prefixed(", taken over from ", o.Plain(g.From))+")")
	o.Item(depth, o.Mark(sign), " gate ", how, ": ", o.Code(g.Command),
		text.Prefixed(", ", o.Plain(text.Clip(g.Why, evidenceShown))), o.Dim(took))
	o.Output(depth+1, outputShown, g.Output)
}
