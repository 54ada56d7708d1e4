package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/dag"
	"github.com/bouldermgr/manager/internal/text"
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

// Plan prints a plan for people.
func Plan(o Out, plan *boulder.Plan) {
	v := planView{Out: o, plan: plan, width: o.Lines()}
	v.head()
	for i, s := range plan.SubTasks {
		v.subTask(i+1, s)
	}
	v.order()
}

type planView struct {
	Out
	plan  *boulder.Plan
	width int // of lines; 0: as they come
}

// descriptionShown bounds the lines of a description: the plan file has all of it.
const descriptionShown = 6

func (v planView) head() {
	fmt.Fprintf(v, "%s\n", v.Bold(text.Wrap(firstLines(text.Safe(v.plan.Task), descriptionShown), v.width)))
	if v.plan.Goal != "" && text.OneLine(v.plan.Goal) != text.OneLine(v.plan.Task) {
		v.field("goal", v.plan.Goal)
	}
	for _, c := range v.plan.Constraints {
		v.field("constraint", c)
	}
	v.field("decided by", strings.Join(v.plan.DoneWhen, ", "))
	if v.plan.Model != "" {
		v.field("model", v.plan.Model)
	}
}

func (v planView) subTask(n int, s boulder.Spec) {
	subject := text.OneLine(s.Subject)
	fmt.Fprintf(v, "\n%s %s %s\n", v.Bold(fmt.Sprintf("%d.", n)), v.Bold(subject), v.Dim("("+text.OneLine(s.ID)+")"))
	v.details(s)
}

// with lists how a sub-task differs from the others.
func (v planView) with(s boulder.Spec) string {
	var parts []string
	add := func(what, value string) {
		if value != "" {
			parts = append(parts, what+" "+value)
		}
	}
	add("model", s.Model)
	add("agent", s.Agent)
	if cmp.Or(s.Priority, boulder.Medium) != boulder.Medium {
		parts = append(parts, string(s.Priority)+" priority")
	}
	return strings.Join(parts, ", ")
}

// field is one labelled line; one without a value is left out.
func (v planView) field(name, value string) { v.painted(name, text.OneLine(value)) }

// painted is field for a value that is clean and may have colours.
func (v planView) painted(name, value string) {
	if value == "" {
		return
	}
	const margin = "               " // as wide as what stands before the value
	value = strings.TrimPrefix(text.Indent(text.Wrap(value, v.width-len(margin)), margin), margin)
	fmt.Fprintf(v, "   %s %s\n", v.Dim(text.Fit(name+":", len(margin)-4)), value)
}

// order says what runs side by side.
func (v planView) order() {
	nodes := make([]dag.Node[string], len(v.plan.SubTasks))
	for i, s := range v.plan.SubTasks {
		nodes[i] = dag.Node[string]{ID: s.ID, DependsOn: s.DependsOn}
	}
	levels := dag.Levels(nodes)
	if len(nodes) < 2 {
		return
	}
	if len(nodes) > orderShown {
		widest := slices.MaxFunc(levels, func(a, b []int) int { return len(a) - len(b) })
		fmt.Fprintf(v, "\n%s %d sub-tasks in %s, at most %d side by side\n", v.Dim("order:"), len(nodes),
			text.Plural(len(levels), "step"), len(widest))
		return
	}
	var steps []string
	for _, level := range levels {
		var names []string
		for _, i := range level {
			names = append(names, fmt.Sprint(i+1))
		}
		steps = append(steps, strings.Join(names, " + "))
	}
	fmt.Fprintf(v, "\n%s %s\n", v.Dim("order:"), strings.Join(steps, " → "))
}

// orderShown is how many sub-tasks a plan may have for its order to be drawn.
const orderShown = 20

// firstLines keeps the first n lines of a text and says how many there are more.
func firstLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if len(lines) <= n+1 {
		return strings.Join(lines, "\n")
	}
	return strings.Join(lines[:n], "\n") + fmt.Sprintf("\n… and %d more lines", len(lines)-n)
}
