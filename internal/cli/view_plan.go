package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/dag"
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

func (a *app) printPlanJSON(plan *boulder.Plan, path string) error {
	out := planJSON{
		Type: "plan", Path: path, Hash: plan.Hash(), Origin: plan.Origin(), Edited: plan.Edited(), Plan: *plan,
	}
	if plan.Seal != nil {
		out.Base = plan.Seal.Base
	}
	return a.printJSON(out)
}

// showPlan prints a plan on stderr, for a person who is about to run it.
func (a *app) showPlan(plan *boulder.Plan) {
	if !a.quiet {
		a.printPlan(a.Stderr, plan)
	}
}

// printPlan prints a plan for people.
func (a *app) printPlan(w io.Writer, plan *boulder.Plan) {
	v := planView{paint: a.paint(w), out: w, plan: plan}
	if terminal(w) {
		v.width = min(terminalSize(w).Width, widthLine) - 1
	}
	v.head()
	for i, s := range plan.SubTasks {
		v.subTask(i+1, s)
	}
	v.order()
}

type planView struct {
	paint
	out   io.Writer
	plan  *boulder.Plan
	width int // of lines; 0: as they come
}

// descriptionShown bounds the lines of a description: the plan file has all of it.
const descriptionShown = 6

func (v planView) head() {
	fmt.Fprintf(v.out, "%s\n", v.bold(wrap(firstLines(safeText(v.plan.Task), descriptionShown), v.width)))
	if v.plan.Goal != "" && oneLine(v.plan.Goal) != oneLine(v.plan.Task) {
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
	subject := oneLine(s.Subject)
	fmt.Fprintf(v.out, "\n%s %s %s\n", v.bold(fmt.Sprintf("%d.", n)), v.bold(subject), v.dim("("+oneLine(s.ID)+")"))
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
func (v planView) field(name, value string) { v.painted(name, oneLine(value)) }

// painted is field for a value that is clean and may have colours.
func (v planView) painted(name, value string) {
	if value == "" {
		return
	}
	const margin = "               " // as wide as what stands before the value
	value = strings.TrimPrefix(indent(wrap(value, v.width-len(margin)), margin), margin)
	fmt.Fprintf(v.out, "   %s %s\n", v.dim(fit(name+":", len(margin)-4)), value)
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
		fmt.Fprintf(v.out, "\n%s %d sub-tasks in %s, at most %d side by side\n", v.dim("order:"), len(nodes),
			plural(len(levels), "step"), len(widest))
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
	fmt.Fprintf(v.out, "\n%s %s\n", v.dim("order:"), strings.Join(steps, " → "))
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
