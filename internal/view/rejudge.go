package view

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
)

// Rejudged is what `manager replay --rejudge --json` prints for each turn: one object.
type Rejudged struct {
	Type      string `json:"type"` // rejudged
	BoulderID string `json:"boulder_id"`
	SubTaskID string `json:"sub_task_id"`
	Attempt   int    `json:"attempt"`
	Turn      int    `json:"turn"`
	Gates     string `json:"gates"` // green, red, none
	Was       said   `json:"was"`
	Is        said   `json:"is"`
	// Differs: the two judges do not say the same. AgainstGates: the new one says complete where a gate is red, or not
	// complete where all are green.
	Differs      bool          `json:"differs"`
	AgainstGates bool          `json:"against_gates"`
	Usage        boulder.Usage `json:"usage"`
}

type said struct {
	// Complete is what the judge said, also where a rule overruled it.
	Complete  bool     `json:"complete"`
	Overruled []string `json:"overruled,omitempty"`
	Summary   string   `json:"summary"`
}

// NewRejudged reports a turn that was judged again.
func NewRejudged(boulderID string, r orchestrator.Rejudged) *Rejudged {
	saidBy := func(v boulder.Verdict) said { return said{v.Completed || len(v.Overruled) > 0, v.Overruled, v.Summary} }
	v := &Rejudged{
		Type: "rejudged", BoulderID: boulderID, SubTaskID: r.SubTaskID, Attempt: r.Attempt, Turn: r.Turn, Gates: "green",
		Was: saidBy(r.Was), Is: saidBy(r.Is), Usage: r.Usage,
	}
	switch {
	case len(r.Gates) == 0:
		v.Gates = "none"
	case slices.ContainsFunc(r.Gates, func(g boulder.Gate) bool { return !g.Holds() }):
		v.Gates = "red"
	}
	v.Differs = v.Was.Complete != v.Is.Complete
	v.AgainstGates = v.Gates != "none" && v.Is.Complete != (v.Gates == "green")
	return v
}

// Print shows the turn to people.
func (r *Rejudged) Print(o page.Out) {
	says := map[bool]string{true: "complete", false: "not complete"}
	line := fmt.Sprintf("%s, turn %d.%d: was %s, is %s; gates: %s", r.SubTaskID, r.Attempt, r.Turn, says[r.Was.Complete],
		says[r.Is.Complete], r.Gates)
	mark := cmp.Or(text.If(r.Differs, "≠"), text.If(r.AgainstGates, "!"), "=")
	o.Say(mark, " ", o.Plain(line))
	if r.Differs || r.AgainstGates {
		o.Fields(1, "was", r.Was.Summary, "is", r.Is.Summary)
	}
}

// RejudgedTotal is a line about all of them.
func RejudgedTotal(all []*Rejudged, model string) string {
	var differ, against int
	var used boulder.Usage
	for _, r := range all {
		used = used.Add(r.Usage)
		differ += map[bool]int{true: 1}[r.Differs]
		against += map[bool]int{true: 1}[r.AgainstGates]
	}
	return fmt.Sprintf("%s judged again by %s: %d differ, %d are against the gates (%s).", text.Plural(len(all), "turn"),
		cmp.Or(model, "OpenCode's default model"), differ, against, report.Usage(used))
}
