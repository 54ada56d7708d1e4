package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/graph"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/dag"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/yamlfile"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/taskledger"
)

// planJSON is what `manager plan --json` prints: one object with the content of the plan file.
type planJSON struct {
	Type   string         `json:"type"` // plan
	Path   string         `json:"path"` // of the plan file
	Hash   string         `json:"hash"` // of the content, without comments and layout
	Origin boulder.Origin `json:"origin"`
	Edited bool           `json:"edited"`         // the user changed it after it was sealed
	Base   string         `json:"base,omitempty"` // commit that it was made on; absent outside git
	boulder.Plan
	From     *project.TaskList    `json:"from,omitempty"`     // the list of tasks that it was read from
	Changes  *boulder.PlanChanges `json:"changes,omitempty"`  // what a revision changed
	Warnings []yamlfile.Problem   `json:"warnings,omitempty"` // of its gates; file is the path in the plan, without a line
}

// NewPlanJSON returns a plan as --json prints it.
func NewPlanJSON(plan *boulder.Plan, path string) planJSON {
	out := planJSON{
		Type: "plan", Path: path, Hash: plan.Hash(), Origin: plan.Origin(), Edited: plan.Edited(), Plan: *plan, Warnings: taskledger.Warnings(plan),
	}
	if plan.Seal != nil {
		out.Base = plan.Seal.Base
	}
	return out
}

// Warnings prints what a plan is warned of.
func Warnings(o page.Out, all []yamlfile.Problem) {
	for _, w := range all {
		o.Say(o.Yellow("warning:"), " ", o.Plain(w.String()))
	}
}

// TaskList prints what of a list of tasks is in its plan, and what is not, by reasons.
func TaskList(o page.Out, name string, l *project.TaskList) {
	o.Say(fmt.Sprintf("Read %s as %s: %d of %s taken.", o.Strong(name), l.Kind, l.Taken, text.Plural(l.Total, "task")))
	type reason struct{ what, why string }
	const places, reasons = 8, 15
	var order []reason
	items := map[reason][]string{} // a note of the whole file has ""
	for _, n := range l.Notes {
		at := reason{string(n.What), n.Why}
		if items[at] == nil {
			order = append(order, at)
		}
		items[at] = append(items[at], strings.TrimSpace(n.Item+text.If(n.Line > 0, fmt.Sprintf(" (line %d)", n.Line))))
	}
	for i, at := range order {
		if i == reasons {
			o.Field(1, "and", fmt.Sprintf("%d reasons more: --json has all", len(order)-reasons))
			break
		}
		who := items[at]
		if more := len(who) - places; more > 0 {
			who = append(who[:places:places], fmt.Sprintf("%d more", more))
		}
		o.Field(1, at.what, text.JoinedBy(": ", strings.Join(who, ", "), at.why))
	}
}

const descriptionShown = 6

// Plan prints a plan for people. known are the commands that the project is known to have.
func Plan(o page.Out, plan *boulder.Plan, known []string) {
	fmt.Fprintln(o, o.Bold(text.Wrap(firstLines(text.Safe(plan.Task), descriptionShown), o.Lines())))
	if text.OneLine(plan.Goal) != text.OneLine(plan.Task) {
		o.Field(1, "goal", plan.Goal)
	}
	for _, c := range plan.Constraints {
		o.Field(1, "constraint", c)
	}
	if len(plan.Facts.Found) > 0 {
		o.Field(1, "looked for", strings.Join(plan.Facts.ToFind, "; "))
	}
	for _, f := range plan.Facts.Found {
		o.Field(1, "found", f.ID+": "+f.String())
	}
	for _, guess := range plan.Facts.Guesses {
		o.Field(1, "assumed", guess)
	}
	Questions(o, plan)
	o.Field(1, "model", plan.Model.String())
	o.Field(1, "effort", plan.Effort)
	switch {
	case plan.Origin() == boulder.OriginDirect && plan.Reason != "":
		o.Field(1, "not split", ModelName(plan.Seal.Model)+" found that no plan is needed: "+plan.Reason+" (--plan has it split all the same)")
	default:
		o.Field(1, "reason", plan.Reason)
	}
	for i, s := range plan.SubTasks {
		printSpec(o, o.Bold(fmt.Sprintf("%d.", i+1)), s.ID, s, known)
	}
	Request(o, plan)
	if order := order(plan); order != "" {
		o.Say()
		o.Field(0, "order", order)
	}
}

// order says which sub-tasks of a plan run after which, by their numbers; empty if there is one alone.
func order(plan *boulder.Plan) string {
	var nodes []dag.Node
	for _, s := range plan.SubTasks {
		nodes = append(nodes, dag.Node{ID: s.ID, DependsOn: s.DependsOn})
	}
	if len(nodes) < 2 {
		return ""
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
	return order
}

// Summary prints what has to be known of a plan before it is agreed to: its sub-tasks, their order and models, what of the
// request nobody does, and the commands that then run. uses is for sub-tasks that name none; known is as for [Plan].
func Summary(o page.Out, plan *boulder.Plan, uses boulder.Settings, known []string) {
	o.Say(o.Bold(text.ClipLine(text.OneLine(plan.Task), 2*o.Lines()-8))) // two lines
	models, gates := forWhich{}, forWhich{}
	for i, s := range plan.SubTasks {
		o.Item(1, o.Bold(fmt.Sprintf("%d.", i+1)), " ", o.Plain(s.Subject), " ", o.Faint("("+s.ID+")"))
		models.add(ModelName(s.ModelsIn(plan, uses.Model, uses.Effort).String()), i+1)
		for _, gate := range slices.Concat(s.Gates, s.NoWorse) {
			gates.add(gate+text.If(!slices.Contains(known, gate), " (new)"), i+1)
		}
	}
	for _, gate := range plan.IntegrationGates {
		gates.add(gate+text.If(!slices.Contains(known, gate), " (new)"), 0)
	}
	o.Field(0, "order", order(plan))
	o.Field(0, "model", models.of(len(plan.SubTasks)))
	o.Field(0, "gates", gates.of(len(plan.SubTasks)))
	Questions(o, plan)
	for _, row := range plan.Request {
		if row.Owner == "" && row.Deferred == "" && row.Kind == boulder.Asks {
			o.Field(0, "nobody does", row.Text)
		}
	}
}

// forWhich are texts, in the order of their first use, with the numbers of the sub-tasks that they are for; 0: all together.
type forWhich struct {
	texts []string
	by    map[string][]string
}

func (n *forWhich) add(s string, number int) {
	if n.by == nil {
		n.by = map[string][]string{}
	}
	if n.by[s] == nil {
		n.texts = append(n.texts, s)
	}
	n.by[s] = append(n.by[s], fmt.Sprint(number))
}

// of joins the texts. Those that are for all of so many sub-tasks have no numbers.
func (n *forWhich) of(all int) string {
	var parts []string
	for _, s := range n.texts {
		numbers := n.by[s]
		if len(numbers) < all && numbers[0] != "0" {
			s += " (for " + strings.Join(numbers, ", ") + ")"
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, "; ")
}

// Where prints where the sub-tasks of a plan are going to work, and why.
func Where(o page.Out, w project.Where) {
	const names = 10
	lacks := strings.Join(w.Lacks[:min(len(w.Lacks), names)], ", ") + text.Prefixed(" and ", text.Some(len(w.Lacks)-names, "more"))
	in := "in your files"
	if w.Copies {
		in = "in copies"
	}
	o.Field(0, "where", text.JoinedBy("; ", text.JoinedBy(", ", in, w.Why), text.Prefixed("copies lack ", lacks),
		text.Prefixed("to bring that, add to the configuration: ", w.Add)))
}

// Questions prints what the planner asked, and the answers that count.
func Questions(o page.Out, plan *boulder.Plan) {
	for _, q := range plan.Facts.Questions {
		o.Field(1, "question", q.ID+": "+text.OneLine(q.Question)+" "+AnswerTo(q))
	}
}

// AnswerTo says what a question of the planner is answered with, and by whom.
func AnswerTo(q boulder.Question) string {
	return text.OneLine(q.Answer) + map[bool]string{true: " (your answer)", false: " (the default: nobody was asked)"}[q.By == boulder.ByUser]
}

// Request prints what the task demands, and who does it.
func Request(o page.Out, plan *boulder.Plan) {
	if len(plan.Request) == 0 {
		return
	}
	o.Say()
	o.Say(o.Faint("the task demands:"))
	for _, row := range plan.Request {
		var who string
		switch {
		case row.Deferred != "":
			who = o.Faint(fmt.Sprintf("put off by the task (%q)", text.Clip(row.Deferred, 80)))
		case row.Owner != "" && row.ShownBy == "" && row.Kind == boulder.Asks:
			who = row.Owner + o.Yellow(", and no criterion shows it")
		case row.Owner != "":
			who = row.Owner
		case row.Kind == boulder.Forbids:
			who = o.Faint("holds for all")
		case row.Kind == boulder.Wish:
			who = o.Faint("cannot be checked")
		default:
			who = o.Yellow("nobody does this")
		}
		o.Item(1, o.Plain(row.Text), ": ", who)
	}
}

// Decided prints the criteria of sub-tasks that name none: those of the plan, or else of the run. It also names
// criteria that are off only because the project has no command for them.
func Decided(o page.Out, plan *boulder.Plan, run []string, checks boulder.Checks) {
	words, named := run, !checks.Default
	if len(plan.DoneWhen) > 0 {
		words, named = plan.DoneWhen, true
	}
	by := map[string][]string{boulder.DoneTests: checks.Tests, boulder.DoneDiagnostics: checks.Lint}
	var on, off []string
	for _, word := range boulder.DoneWords() {
		switch commands := strings.Join(by[word], "; "); {
		case !slices.Contains(words, word):
			if _, has := by[word]; has && !named {
				off = append(off, word)
			}
		case commands != "":
			on = append(on, word+" ("+commands+")")
		default:
			on = append(on, word)
		}
	}
	o.Field(0, "decided by", strings.Join(on, ", ")+text.Prefixed("; no command is known for ", strings.Join(off, " and ")))
	Ungated(o, plan, words, checks)
}

// Ungated names the sub-tasks without a gate. run and checks are as for [Decided].
func Ungated(o page.Out, plan *boulder.Plan, run []string, checks boulder.Checks) {
	words := run
	if len(plan.DoneWhen) > 0 {
		words = plan.DoneWhen
	}
	var ungated []string
	for _, s := range plan.SubTasks {
		if len(s.Gates)+len(s.NoWorse) == 0 {
			ungated = append(ungated, s.ID)
		}
	}
	if len(ungated) > 0 {
		tests := slices.Contains(words, boulder.DoneTests) && len(checks.Tests) > 0
		o.Field(0, "no gate", strings.Join(ungated, ", ")+": besides the judge "+
			map[bool]string{true: "only the project's tests check", false: "nobody checks"}[tests]+" what is done there")
	}
}

// Expected prints the upper bound of judged turns, the cost at which the run stops, and an estimate of the cost from
// the completed boulders of the project. Prices alone give no bound: a turn has any number of steps.
func Expected(o page.Out, plan *boulder.Plan, l orchestrator.Limits, b *boulder.Budget, review bool, earlier []store.Item) {
	n, total := len(plan.SubTasks), l.EvaluationsTotal
	most := text.Plural(n*total, "judged turn") + text.If(n > 1, fmt.Sprintf(", %d for each sub-task and what replaces it", total))
	if n > 1 {
		most += ", and " + text.If(review, "a review and ") + "a check of the whole request"
		if added := l.Extensions * boulder.MaxAdded; added > 0 {
			most += fmt.Sprintf("; %s more, and another check, if it finds something missing", text.Plural(added*total, "turn"))
		}
	}
	o.Field(0, "at most", most+text.Prefixed("; the run stops at ", Budget(b)))
	completed, usage := 0, boulder.Usage{}
	for _, i := range earlier {
		if i.Status == boulder.Completed && i.Usage.Unpriced == 0 && i.Usage.Cost > 0 {
			completed, usage = completed+i.Tally.Completed, usage.Add(i.Usage)
		}
	}
	if completed > 0 {
		each := usage.Cost / float64(completed)
		o.Field(0, "about", fmt.Sprintf("%s, at the %s that %s cost here so far, with planning and judging",
			text.Money(each*float64(n)), text.Money(each), text.Plural(completed, "completed sub-task")))
	}
}

// Replan shows a proposed replan to the user: what is removed, changed and added, and what it is warned of. known is as for
// [Plan].
func Replan(o page.Out, r orchestrator.ReplanProposal, known []string) {
	o.Say()
	name := map[bool]string{true: "Extension", false: "Replan"}[len(r.Missing) > 0]
	o.Say(o.Bold(fmt.Sprintf("%s %d:", name, r.Number)), " ", o.Plain(r.Reason))
	for _, missing := range r.Missing {
		o.Field(1, "missing", missing)
	}
	if r.Was != nil {
		o.Say("Of the proposal before, this is different:")
		PlanChanges(o, &boulder.Plan{SubTasks: r.Was.SubTasks}, &boulder.Plan{SubTasks: r.SubTasks})
		Warnings(o, taskledger.Warnings(&boulder.Plan{SubTasks: r.SubTasks}))
		return
	}
	var changed []string
	for _, s := range r.SubTasks {
		from := r.Replaces[s.ID]
		if changed = append(changed, from); from == "" {
			printSpec(o, o.Green("+"), s.ID, s, known)
		} else {
			printSpec(o, o.Yellow("~"), from+" → "+s.ID, s, known)
		}
	}
	for _, t := range r.Replaced {
		if !slices.Contains(changed, t.ID) {
			o.Say()
			o.Say(o.Red("-"), " ", o.Plain(t.Subject), " ", o.Faint("("+t.ID+")"))
		}
	}
	Warnings(o, taskledger.Warnings(&boulder.Plan{SubTasks: r.SubTasks}))
}

func printSpec(o page.Out, mark, id string, s boulder.Spec, known []string) {
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
		o.Item(1, o.Dim("gate:"), " ", o.Code("$ "+g), o.Dim(text.If(slices.Contains(known, g), " (the project has it)")))
	}
	for _, g := range s.NoWorse {
		o.Item(1, o.Dim("no worse:"), " ", o.Code("$ "+g), o.Dim(text.If(slices.Contains(known, g), " (the project has it)")))
	}
	o.Fields(1, "expects", text.If(s.ExpectsChanges, "a change to files"),
		"empty ok", text.If(s.EmptyOK, "to have found nothing is a good result"),
		"outputs", strings.Join(s.Outputs, ", "), "is told", strings.Join(s.Found, ", "), "rests on", strings.Join(s.Questions, ", "), "writes", strings.Join(s.Writes, ", "), "decided by", strings.Join(s.DoneWhen, ", "), "model", s.Model.String(),
		"effort", s.Effort, "agent", s.Agent, "priority", text.If(s.Priority != boulder.Medium, string(s.Priority)))
	o.Field(1, "budget", Budget(s.Budget))
}

func firstLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if len(lines) <= n+1 {
		return strings.Join(lines, "\n")
	}
	return strings.Join(lines[:n], "\n") + fmt.Sprintf("\n… and %d more lines", len(lines)-n)
}

// Graph is what `manager graph --json` prints: one object.
type Graph struct {
	Type      string         `json:"type"`                 // graph
	BoulderID string         `json:"boulder_id,omitempty"` // empty: of a plan file
	Path      string         `json:"path,omitempty"`       // empty: of a boulder
	Task      string         `json:"task"`
	Status    boulder.Status `json:"status,omitempty"` // of the boulder
	SubTasks  []graph.Node   `json:"sub_tasks"`        // in plan order
	Edges     []graph.Edge   `json:"edges"`
}

// GraphOfPlan makes the graph of a plan that has not run.
func GraphOfPlan(plan *boulder.Plan, path string) *Graph {
	d := boulder.Snapshot{Boulder: boulder.Boulder{Task: plan.Task}}
	for i, s := range plan.SubTasks {
		d.SubTasks = append(d.SubTasks, &boulder.SubTask{ID: s.ID, Position: i + 1, Subject: s.Subject, DependsOn: s.DependsOn})
	}
	r := GraphOf(d, orchestrator.Limits{}, true)
	r.Path = path
	return r
}

// GraphOf makes the graph of a stored boulder; all includes superseded sub-tasks.
func GraphOf(d boulder.Snapshot, limits orchestrator.Limits, all bool) *Graph {
	b := d.Boulder
	r := &Graph{
		Type: "graph", BoulderID: b.ID, Task: b.Task, Status: b.Status, SubTasks: []graph.Node{}, Edges: []graph.Edge{},
	}
	hidden, replacedBy := map[string]bool{}, map[string]string{}
	for _, t := range d.SubTasks {
		hidden[t.ID] = !all && t.Status == boulder.SubTaskSuperseded
		replacedBy[t.Replaces] = t.ID
	}
	for _, t := range d.SubTasks {
		if hidden[t.ID] {
			continue
		}
		s := graph.Node{ID: t.ID, Number: t.Position, Title: t.Subject, Status: string(t.Status), Attempt: t.Attempts, Replaces: t.Replaces}
		most := limits.Attempts
		if t.Budget != nil {
			most = cmp.Or(t.Budget.Attempts, most)
		}
		if t.Attempts > 1 { // lost attempts have a number but do not count towards the limit
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

// Spent adds to each node its turn and what it cost so far, for [Graph.SVG].
func (r *Graph) Spent(d boulder.Snapshot) *Graph {
	turns, used := map[string]int{}, map[string]boulder.Usage{}
	for _, a := range d.Attempts {
		turns[a.SubTaskID] = a.Turns
		used[a.SubTaskID] = used[a.SubTaskID].Add(a.Running())
	}
	for _, t := range d.SubTasks {
		used[t.ID] = used[t.ID].Add(t.Usage)
	}
	for i := range r.SubTasks {
		n := &r.SubTasks[i]
		u := used[n.ID]
		n.Spent = text.JoinedBy(" · ", text.If(turns[n.ID] > 0, fmt.Sprintf("turn %d", turns[n.ID])),
			text.If(u.Calls > 0, costText(u)))
	}
	return r
}

// Draw returns the graph as mermaid, dot, svg or text. Text has the width and the colours of the stream o.
func (r *Graph) Draw(format string, o page.Out) string {
	g := graph.New(r.Task, r.SubTasks, r.Edges)
	switch format {
	case "mermaid":
		return g.Mermaid()
	case "dot":
		return g.DOT()
	case "svg":
		return g.SVG(nil)
	}
	return g.Text(o.Width(), func(status, text string) string { return o.As(Sign(boulder.SubTaskStatus(status)), text) })
}

// SVG returns the graph as a part of a page, see [graph.Graph.SVG].
func (r *Graph) SVG(link func(id string) string) string {
	return graph.New(r.Task, r.SubTasks, r.Edges).SVG(link)
}
