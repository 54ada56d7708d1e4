package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
)

// StatusAt returns the status after events, which are the first of a log, as if a process ran the boulder.
func StatusAt(s *boulder.State, events []boulder.Event, limits orchestrator.Limits) *Status {
	running := &project.Holder{Running: []string{s.Boulder.ID}}
	status := NewStatus(&project.Reading{
		Snapshot: s.Snapshot(), Events: events, Holder: running, Limits: limits, Now: events[len(events)-1].Time,
	})
	status.RunBy, status.AtEvent, status.Resumable = nil, s.Boulder.Seq, false
	return status
}

// Replayed is what `manager replay --check --json` prints: one object that says whether a log's decisions reproduce.
type Replayed struct {
	Type      string `json:"type"` // replay
	BoulderID string `json:"boulder_id"`
	*orchestrator.Check
}

// Print shows the check to people.
func (c *Replayed) Print(o page.Out) {
	decisions := text.Plural(c.Decisions, "decision")
	d := c.Difference
	if d == nil {
		o.Say(fmt.Sprintf("%s: %s come out as recorded, from %s.", c.BoulderID, decisions, text.Plural(c.Events, "event")))
		return
	}
	o.Say(fmt.Sprintf("%s: event %d differs, after %s as recorded.", c.BoulderID, d.Seq, decisions))
	expected, got := told(d.Expected), told(d.Got)
	if expected == got { // the difference is not in a sentence
		was, _ := json.Marshal(d.Expected)
		is, _ := json.Marshal(d.Got)
		expected, got = string(was), string(is)
	}
	o.Fields(1, "expected", expected, "got", got)
}

func told(e *boulder.Event) string {
	if e == nil {
		return "nothing"
	}
	s := Describe(*e)
	return text.JoinedBy(" ", boulder.TypeOf(e.Body), s.SubTask) + text.Prefixed(": ", s.Line)
}

// Rescheduled is what `manager replay --limits --json` prints: one object. Times are milliseconds from the start of the
// boulder, without pauses.
type Rescheduled struct {
	Type      string                   `json:"type"` // schedule
	BoulderID string                   `json:"boulder_id"`
	Limits    orchestrator.Limits      `json:"limits"`
	Was       int64                    `json:"was_ms"` // the end of the last attempt
	WouldBe   int64                    `json:"would_be_ms"`
	Attempts  []orchestrator.Scheduled `json:"attempts"`
}

// NewRescheduled reports when attempts would have run with other limits.
func NewRescheduled(boulderID string, limits orchestrator.Limits, all []orchestrator.Scheduled) *Rescheduled {
	r := &Rescheduled{Type: "schedule", BoulderID: boulderID, Limits: limits, Attempts: append([]orchestrator.Scheduled{}, all...)}
	for _, a := range all {
		r.Was, r.WouldBe = max(r.Was, a.Was.To.Milliseconds()), max(r.WouldBe, a.WouldBe.To.Milliseconds())
	}
	return r
}

// Print shows the schedule to people.
func (r *Rescheduled) Print(o page.Out) {
	o.Say(fmt.Sprintf("%s: the last attempt ended after %s, and would have after %s.", r.BoulderID, text.Millis(r.Was),
		text.Millis(r.WouldBe)))
	rows := [][]string{{"", "was", "would be"}}
	for _, a := range r.Attempts {
		row := []string{a.SubTaskID + text.If(a.Attempt > 1, fmt.Sprintf(" #%d", a.Attempt))}
		for _, s := range []orchestrator.Span{a.Was, a.WouldBe} {
			row = append(row, text.Elapsed(s.From)+" – "+text.If(s.To > 0, text.Elapsed(s.To)))
		}
		rows = append(rows, row)
	}
	printTable(o, []column{{}, {}, {}}, rows)
}

// Rejudged is what `manager replay --rejudge --json` prints for each turn: one object.
type Rejudged struct {
	Type         string        `json:"type"` // rejudged
	BoulderID    string        `json:"boulder_id"`
	SubTaskID    string        `json:"sub_task_id"`
	Attempt      int           `json:"attempt"`
	Turn         int           `json:"turn"`
	Gates        string        `json:"gates"` // green, red, none
	Was          said          `json:"was"`
	Is           said          `json:"is"`
	Differs      bool          `json:"differs"`       // the two judges disagree
	AgainstGates bool          `json:"against_gates"` // the new judge contradicts the gates
	Usage        boulder.Usage `json:"usage"`
}

type said struct {
	Complete  bool     `json:"complete"` // as the judge said, even if a rule overruled it
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

// RejudgedTotal sums up all turns in a line.
func RejudgedTotal(all []*Rejudged, model string) string {
	var differ, against int
	var used boulder.Usage
	for _, r := range all {
		used = used.Add(r.Usage)
		differ += map[bool]int{true: 1}[r.Differs]
		against += map[bool]int{true: 1}[r.AgainstGates]
	}
	return fmt.Sprintf("%s judged again by %s: %d differ, %d are against the gates (%s).", text.Plural(len(all), "turn"),
		ModelName(model), differ, against, Usage(used))
}
