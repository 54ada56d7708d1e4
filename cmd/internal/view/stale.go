package view

import (
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
)

// Stale is what `manager status --stale --json` prints: one object.
type Stale struct {
	Type      string     `json:"type"` // stale
	BoulderID string     `json:"boulder_id"`
	SubTasks  []staleRow `json:"sub_tasks"` // in plan order

	closed bool
}

type staleRow struct {
	ID      string           `json:"id"`
	Reasons []boulder.Reason `json:"reasons"`
}

// NewStale lists the sub-tasks whose results are out of date.
func NewStale(b *boulder.Snapshot, stale map[string][]boulder.Reason) *Stale {
	v := &Stale{Type: "stale", BoulderID: b.Boulder.ID, SubTasks: []staleRow{}, closed: b.Boulder.Closed()}
	for _, t := range b.SubTasks {
		if why := stale[t.ID]; len(why) > 0 {
			v.SubTasks = append(v.SubTasks, staleRow{t.ID, why})
		}
	}
	return v
}

// Print writes the list for people.
func (s *Stale) Print(o page.Out) {
	if len(s.SubTasks) == 0 {
		o.Say(boulder.ShortID(s.BoulderID) + ": nothing is out of date.")
		return
	}
	var rows [][]string
	for _, t := range s.SubTasks {
		rows = append(rows, []string{t.ID, reasonText(t.Reasons)})
	}
	printTable(o, []column{{}, {flexible: true}}, rows)
	if !s.closed {
		o.Say("Redo them with: ", o.Code("manager redo --stale"))
	}
	o.Say("Take a result as it is with: ", o.Code("manager keep SUBTASK"))
}
