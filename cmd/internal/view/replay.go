package view

import (
	"encoding/json"
	"fmt"

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
		o.Say(fmt.Sprintf("%s: %s come out as recorded, from %s.", boulder.ShortID(c.BoulderID), decisions, text.Plural(c.Events, "event")))
		return
	}
	o.Say(fmt.Sprintf("%s: event %d differs, after %s as recorded.", boulder.ShortID(c.BoulderID), d.Seq, decisions))
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
