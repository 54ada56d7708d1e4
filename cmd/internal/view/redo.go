package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
)

// Redo is what `manager redo --json` prints: one object.
type Redo struct {
	Type      string        `json:"type"` // redo-preview
	BoulderID string        `json:"boulder_id"`
	SubTasks  []redoRow     `json:"sub_tasks"` // that are redone, perhaps redone, or keep their results; in plan order
	Files     boulder.Files `json:"files"`
	Paths     []string      `json:"paths,omitempty"` // in the project, that are reverted
	Why       string        `json:"why,omitempty"`   // why changes stay although the default is to revert them
	Usage     boulder.Usage `json:"usage"`           // so far, of the sub-tasks that are redone
	Worked    int64         `json:"worked_ms"`       // of the same sub-tasks
	Note      string        `json:"note,omitempty"`
	// NewBoulder is why a new boulder does it, on the present files; empty: the boulder itself does.
	NewBoulder string `json:"new_boulder,omitempty"`
	DryRun     bool   `json:"dry_run"`

	isolated bool
}

type redoRow struct {
	ID      string           `json:"id"`
	Do      string           `json:"do"` // redo | perhaps | keep
	Reasons []boulder.Reason `json:"reasons,omitempty"`
	Why     string           `json:"why"`
}

func reasonText(reasons []boulder.Reason) string {
	says := map[boulder.Reason]string{
		boulder.ReasonAsked: "you asked for it", boulder.ReasonEdited: "its plan was edited", boulder.ReasonModel: "its model or agent is another one now",
		boulder.ReasonInput: "what it builds on is different now", boulder.ReasonBase: "commits changed files that it changed too",
		boulder.ReasonGate: "a gate is red now", boulder.ReasonAnswer: "a question that it rests on has another answer now",
	}
	var all []string
	for _, r := range reasons {
		all = append(all, says[r])
	}
	return strings.Join(all, "; ")
}

// NewRedo reports what a redo does or, with dryRun, would do.
func NewRedo(before *boulder.Snapshot, r boulder.Redoing, dryRun bool) *Redo {
	o := r.Order.Redone
	v := &Redo{
		Type: "redo-preview", BoulderID: before.Boulder.ID, Files: o.Files, Paths: r.Paths, Why: r.Why, Note: r.Order.Text, DryRun: dryRun,
		NewBoulder: r.Anew, isolated: before.Boulder.Isolated(),
	}
	var kept map[string]boulder.Inherited
	if r.Anew != "" {
		kept = r.After.Inherited(o.SubTasks)
	}
	for _, was := range before.SubTasks {
		t := r.After.SubTask(was.ID)
		row := redoRow{ID: t.ID, Do: "keep", Why: "does not depend on it"}
		switch {
		case slices.Contains(o.SubTasks, t.ID):
			row = redoRow{t.ID, "redo", o.Reasons[t.ID], reasonText(o.Reasons[t.ID])}
			v.Usage, v.Worked = v.Usage.Add(was.Usage), v.Worked+was.Worked.Milliseconds()
		case was.Status == boulder.SubTaskSuperseded:
			continue
		case r.Anew != "":
			if _, keeps := kept[t.ID]; !keeps {
				row.Do, row.Why = "redo", text.If(was.Status == boulder.SubTaskCompleted, "depends on what is redone")+
					text.If(was.Status != boulder.SubTaskCompleted, "is "+string(was.Status))
			}
		case was.Status != boulder.SubTaskCompleted:
			continue
		case t.Reuse == boulder.ReusePerhaps:
			row.Do, row.Why = "perhaps", "kept if "+needed(r.After, t)+" the same"
		case t.Generation > was.Generation:
			row.Do, row.Why = "redo", reasonText(t.Earlier.Reasons)
		case t.Reuse == boulder.ReuseKept && !slices.Contains(r.Moved, t.ID):
			row.Why = "you want no dependents redone"
		case t.Reuse == boulder.ReuseKept:
			row.Why += "; its change is applied and tested again"
		}
		v.SubTasks = append(v.SubTasks, row)
	}
	return v
}

func needed(s *boulder.State, t *boulder.SubTask) string {
	var all []string
	for _, id := range t.DependsOn {
		if s.SubTask(id).Status != boulder.SubTaskCompleted {
			all = append(all, id)
		}
	}
	return text.Clip(strings.Join(all, ", "), 40) + text.If(len(all) == 1, " comes out") + text.If(len(all) != 1, " come out")
}

// Print writes the report for people.
func (r *Redo) Print(o page.Out) {
	if r.NewBoulder != "" {
		o.Say(o.Plain(r.NewBoulder), ", with your files as they are.")
	}
	var rows [][]string
	for _, row := range r.SubTasks {
		rows = append(rows, []string{row.Do, row.ID, row.Why})
	}
	how := "what it changed stays, and its next session finds it"
	switch {
	case r.NewBoulder != "":
		how = "stay as they are; the new boulder begins with them"
	case r.isolated && r.Files == boulder.FilesRevert:
		how = "the results are rebuilt from before it; the old ones stay under refs/manager/" + r.BoulderID
	case r.Files == boulder.FilesKeep:
	case len(r.Paths) == 0:
		how = "stay as they are"
	default:
		how = text.Clip(strings.Join(r.Paths, ", "), 60) + text.If(len(r.Paths) == 1, " goes") + text.If(len(r.Paths) > 1, " go") + " back to before it"
	}
	rows = append(rows, []string{"files", how})
	printTable(o, []column{{}, {}, {flexible: true}}, rows)
	if r.Why != "" {
		o.Say("It stays because ", o.Plain(r.Why), ".")
	}
	o.Say(fmt.Sprintf("so far: %s, %s", Usage(r.Usage), text.Millis(r.Worked)))
}
