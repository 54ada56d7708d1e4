package view

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
)

// StatusAt is the status as it was at the last of the first events of a log, while a process ran the boulder.
func StatusAt(s *boulder.State, events []boulder.Event, limits schedule.Limits) *Status {
	recent := events[max(0, len(events)-200):]
	running := &control.Holder{Running: []string{s.Boulder.ID}}
	status := NewStatus(s.Snapshot(), recent, running, limits, nil, events[len(events)-1].Time)
	status.RunBy, status.AtEvent, status.Resumable = nil, s.Boulder.Seq, false
	return status
}

// Replayed is what `manager replay --check --json` prints: one object.
type Replayed struct {
	Type      string `json:"type"` // replay
	BoulderID string `json:"boulder_id"`
	*orchestrator.Check
}

// NewReplayed reports whether the decisions of a boulder's log come out again.
func NewReplayed(boulderID string, c *orchestrator.Check) *Replayed {
	return &Replayed{"replay", boulderID, c}
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
	if expected == got { // what differs is not in a sentence
		expected, got = encoded(d.Expected), encoded(d.Got)
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

func encoded(e *boulder.Event) string {
	line, err := json.Marshal(e)
	if err != nil {
		return err.Error()
	}
	return string(line)
}

// Rescheduled is what `manager replay --limits --json` prints: one object. All times are milliseconds from the boulder's
// beginning, without pauses.
type Rescheduled struct {
	Type      string                   `json:"type"` // schedule
	BoulderID string                   `json:"boulder_id"`
	Limits    schedule.Limits          `json:"limits"`
	Was       int64                    `json:"was_ms"` // the end of the last attempt
	WouldBe   int64                    `json:"would_be_ms"`
	Attempts  []orchestrator.Scheduled `json:"attempts"`
}

// NewRescheduled reports how attempts would have been spread over time with other limits.
func NewRescheduled(boulderID string, limits schedule.Limits, all []orchestrator.Scheduled) *Rescheduled {
	r := &Rescheduled{Type: "schedule", BoulderID: boulderID, Limits: limits, Attempts: append([]orchestrator.Scheduled{}, all...)}
	for _, a := range all {
		r.Was, r.WouldBe = max(r.Was, a.Was.To.Milliseconds()), max(r.WouldBe, a.WouldBe.To.Milliseconds())
	}
	return r
}

// Print shows the schedule to people.
func (r *Rescheduled) Print(o page.Out) {
	ends := func(ms int64) string { return text.Elapsed(time.Duration(ms) * time.Millisecond) }
	o.Say(fmt.Sprintf("%s: the last attempt ended after %s, and would have after %s.", r.BoulderID, ends(r.Was), ends(r.WouldBe)))
	rows := [][]string{{"", "was", "would be"}}
	for _, a := range r.Attempts {
		row := []string{a.SubTaskID + text.If(a.Attempt > 1, fmt.Sprintf(" #%d", a.Attempt))}
		for _, s := range []orchestrator.Span{a.Was, a.WouldBe} {
			row = append(row, text.Elapsed(s.From)+" – "+text.If(s.To > 0, text.Elapsed(s.To)))
		}
		rows = append(rows, row)
	}
	for _, line := range table(o.Width(), []column{{}, {}, {}}, rows) {
		fmt.Fprintln(o, line)
	}
}
