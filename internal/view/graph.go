package view

import (
	"cmp"
	"fmt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/graph"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/store"
)

// Graph is what `manager graph --json` prints: one object.
type Graph struct {
	Type      string         `json:"type"`                 // graph
	BoulderID string         `json:"boulder_id,omitempty"` // of a boulder
	Path      string         `json:"path,omitempty"`       // of a plan file
	Task      string         `json:"task"`
	Status    boulder.Status `json:"status,omitempty"` // of a boulder
	SubTasks  []graphSubTask `json:"sub_tasks"`        // in plan order
	Edges     []graph.Edge   `json:"edges"`
}

// graphSubTask is a node of the graph. Its status is that of a boulder's.
type graphSubTask struct {
	graph.Node
	Attempt  int    `json:"attempt"` // number of the newest; 0 before the first
	Replaces string `json:"replaces,omitempty"`
}

// GraphOfPlan is the graph of a plan that nothing has run yet.
func GraphOfPlan(plan *boulder.Plan, path string) *Graph {
	d := store.Detail{Boulder: boulder.Boulder{Task: plan.Task}}
	for _, s := range plan.SubTasks {
		d.SubTasks = append(d.SubTasks, boulder.SubTask{ID: s.ID, Subject: s.Subject, DependsOn: s.DependsOn})
	}
	r := GraphOf(d, schedule.Limits{}, true)
	r.Path = path
	return r
}

// GraphOf makes the graph of a stored boulder; all is with what a later plan replaced.
func GraphOf(d store.Detail, limits schedule.Limits, all bool) *Graph {
	b := d.Boulder
	r := &Graph{
		Type: "graph", BoulderID: b.ID, Task: b.Task, Status: b.Status, SubTasks: []graphSubTask{}, Edges: []graph.Edge{},
	}
	hidden, replacedBy := map[string]bool{}, map[string]string{}
	for _, t := range d.SubTasks {
		hidden[t.ID] = !all && t.Status == boulder.SubTaskSuperseded
		replacedBy[t.Replaces] = t.ID
	}
	for i := range d.SubTasks {
		t := &d.SubTasks[i]
		if hidden[t.ID] {
			continue
		}
		s := graphSubTask{graph.Node{ID: t.ID, Title: t.Subject, Status: string(t.Status)}, t.Attempts, t.Replaces}
		most := limits.Attempts
		if t.Budget != nil {
			most = cmp.Or(t.Budget.Attempts, most)
		}
		if t.Attempts > 1 { // attempts whose session was lost have numbers, but do not count against the limit
			s.Note = fmt.Sprintf("attempt %d", t.Attempts) + text.If(t.Lost == 0 && t.Attempts <= most, fmt.Sprintf(" of %d", most))
		}
		s.Note = cmp.Or(text.Prefixed("replaced by ", replacedBy[t.ID]), s.Note)
		r.SubTasks = append(r.SubTasks, s)
		for _, from := range t.DependsOn {
			if !hidden[from] {
				r.Edges = append(r.Edges, graph.Edge{From: from, To: t.ID})
			}
		}
	}
	return r
}

// Draw gives the picture in a format. Text is as wide as the stream that it is for, and has its colours; a file
// has none.
func (r *Graph) Draw(format string, o page.Out) string {
	var nodes []graph.Node
	for _, s := range r.SubTasks {
		nodes = append(nodes, s.Node)
	}
	g := graph.New(r.Task, nodes, r.Edges)
	switch format {
	case "mermaid":
		return g.Mermaid()
	case "dot":
		return g.DOT()
	case "svg":
		return g.SVG()
	}
	return g.Text(o.Width(), func(status, text string) string { return o.As(report.Sign(boulder.SubTaskStatus(status)), text) })
}
