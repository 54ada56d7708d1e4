package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/dag"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
)

// planJSON is what `manager plan --json` prints: one object, the plan as the plan file has it and what is known about
// it.
type planJSON struct {
	Type   string         `json:"type"` // plan
	Path   string         `json:"path"` // where the plan file is
	Hash   string         `json:"hash"` // of the content, comments and layout left out
	Origin boulder.Origin `json:"origin"`
	Edited bool           `json:"edited"`         // a person changed it after it was sealed
	Base   string         `json:"base,omitempty"` // commit it was made on; absent outside git
	boulder.Plan
}

// NewPlanJSON is a plan as --json prints it.
func NewPlanJSON(plan *boulder.Plan, path string) planJSON {
	out := planJSON{
		Type: "plan", Path: path, Hash: plan.Hash(), Origin: plan.Origin(), Edited: plan.Edited(), Plan: *plan,
	}
	if plan.Seal != nil {
		out.Base = plan.Seal.Base
	}
	return out
}

// descriptionShown bounds the lines of a description: the plan file has all of it.
const descriptionShown = 6

// Plan prints a plan for people.
func Plan(o page.Out, plan *boulder.Plan) {
	fmt.Fprintln(o, o.Bold(text.Wrap(firstLines(text.Safe(plan.Task), descriptionShown), o.Lines())))
	if text.OneLine(plan.Goal) != text.OneLine(plan.Task) {
		o.Field(1, "goal", plan.Goal)
	}
	for _, c := range plan.Constraints {
		o.Field(1, "constraint", c)
	}
	o.Fields(1, "decided by", strings.Join(plan.DoneWhen, ", "), "model", plan.Model)
	var nodes []dag.Node[string]
	for i, s := range plan.SubTasks {
		spec(o, o.Bold(fmt.Sprintf("%d.", i+1)), s.ID, s)
		nodes = append(nodes, dag.Node[string]{ID: s.ID, DependsOn: s.DependsOn})
	}
	if len(nodes) < 2 {
		return
	}
	widest := 0
	var steps []string
	for _, level := range dag.Levels(nodes) {
		var names []string
		for _, i := range level {
			names = append(names, fmt.Sprint(i+1))
		}
		widest = max(widest, len(level))
		steps = append(steps, strings.Join(names, " + "))
	}
	order := strings.Join(steps, " → ")
	if len(nodes) > 20 {
		order = fmt.Sprintf("%d sub-tasks in %s, at most %d side by side", len(nodes), text.Plural(len(steps), "step"), widest)
	}
	o.Say()
	o.Field(0, "order", order)
}

// Replan shows a replan to the user who is asked about it: what goes, what changes and what is new.
func Replan(o page.Out, r orchestrator.ReplanProposal) {
	o.Say()
	o.Say(o.Bold(fmt.Sprintf("Replan %d:", r.Number)), " ", o.Plain(r.Reason))
	var changed []string
	for _, s := range r.SubTasks {
		from := r.Replaces[s.ID]
		if changed = append(changed, from); from == "" {
			spec(o, o.Green("+"), s.ID, s)
		} else {
			spec(o, o.Yellow("~"), from+" → "+s.ID, s)
		}
	}
	for _, t := range r.Replaced {
		if !slices.Contains(changed, t.ID) {
			o.Say()
			o.Say(o.Red("-"), " ", o.Plain(t.Subject), " ", o.Faint("("+t.ID+")"))
		}
	}
}

// spec is a sub-task of a plan.
func spec(o page.Out, mark, id string, s boulder.Spec) {
	o.Say()
	o.Say(mark, " ", o.Strong(s.Subject), " ", o.Faint("("+id+")"))
	if text.OneLine(s.Description) != text.OneLine(s.Subject) {
		o.Text(1, firstLines(strings.TrimSpace(text.Safe(s.Description)), descriptionShown))
	}
	o.Field(1, "after", strings.Join(s.DependsOn, ", "))
	for _, c := range s.SuccessCriteria {
		if text.OneLine(c) != text.OneLine(s.Subject) {
			o.Field(1, "done when", c)
		}
	}
	for _, g := range s.Gates {
		o.Item(1, o.Dim("gate:"), " ", o.Code("$ "+g))
	}
	for _, g := range s.NoWorse {
		o.Item(1, o.Dim("no worse:"), " ", o.Code("$ "+g))
	}
	o.Fields(1, "expects", text.If(s.ExpectsChanges, "a change to files"),
		"empty ok", text.If(s.EmptyOK, "to have found nothing is a good result"),
		"outputs", strings.Join(s.Outputs, ", "), "decided by", strings.Join(s.DoneWhen, ", "), "model", s.Model,
		"agent", s.Agent, "priority", text.If(s.Priority != boulder.Medium, string(s.Priority)))
	o.Field(1, "budget", report.Budget(s.Budget))
}

// firstLines keeps the first n lines of a text and says how many there are more.
func firstLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if len(lines) <= n+1 {
		return strings.Join(lines, "\n")
	}
	return strings.Join(lines[:n], "\n") + fmt.Sprintf("\n… and %d more lines", len(lines)-n)
}
