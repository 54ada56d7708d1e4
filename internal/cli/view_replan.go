package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// replanLines tells what a replan that was adopted changes, a line each.
func replanLines(s *boulder.State, b boulder.Replanned) []string {
	subject := func(id string) string {
		if t := s.SubTask(id); t != nil {
			return t.Subject
		}
		return ""
	}
	var lines []string
	for _, c := range b.Changed {
		lines = append(lines, fmt.Sprintf("~ %s → %s: %s", c.From, c.To.ID, c.To.Subject))
	}
	for _, t := range b.Added {
		lines = append(lines, fmt.Sprintf("+ %s: %s", t.ID, t.Subject))
	}
	for _, id := range b.Removed {
		lines = append(lines, fmt.Sprintf("- %s: %s", id, subject(id)))
	}
	return lines
}

// showReplan shows a replan to a person who is asked about it: what goes, what changes and what is new.
func (a *app) showReplan(r orchestrator.ReplanProposal) {
	p := a.paint(a.Stderr)
	v := planView{paint: p, out: a.Stderr, plan: &boulder.Plan{SubTasks: r.SubTasks}}
	if terminal(a.Stderr) {
		v.width = min(terminalSize(a.Stderr).Width, widthLine) - 1
	}
	fmt.Fprintf(a.Stderr, "\n%s %s\n", p.bold(fmt.Sprintf("Replan %d:", r.Number)), wrap(oneLine(r.Reason), v.width))
	var changed []string
	for _, s := range r.SubTasks {
		from := r.Replaces[s.ID]
		changed = append(changed, from)
		if from == "" {
			fmt.Fprintf(a.Stderr, "\n%s %s %s\n", p.green("+"), p.bold(oneLine(s.Subject)), p.dim("("+oneLine(s.ID)+")"))
		} else {
			fmt.Fprintf(a.Stderr, "\n%s %s %s\n", p.yellow("~"), p.bold(oneLine(s.Subject)),
				p.dim("("+oneLine(from)+" → "+oneLine(s.ID)+")"))
		}
		v.details(s)
	}
	for _, t := range r.Replaced {
		if !slices.Contains(changed, t.ID) {
			fmt.Fprintf(a.Stderr, "\n%s %s %s\n", p.red("-"), oneLine(t.Subject), p.dim("("+oneLine(t.ID)+")"))
		}
	}
}

// details are the lines of a sub-task below its subject.
func (v planView) details(s boulder.Spec) {
	if text := strings.TrimSpace(safeText(s.Description)); oneLine(text) != oneLine(s.Subject) {
		fmt.Fprintln(v.out, indent(wrap(firstLines(text, descriptionShown), v.width-len("   ")), "   "))
	}
	if len(s.DependsOn) > 0 {
		v.field("after", strings.Join(s.DependsOn, ", "))
	}
	for _, c := range s.SuccessCriteria {
		if oneLine(c) != oneLine(s.Subject) {
			v.field("done when", c)
		}
	}
	for _, g := range s.Gates {
		v.painted("gate", v.cyan("$ ")+oneLine(g))
	}
	for _, g := range s.NoWorse {
		v.painted("no worse", v.cyan("$ ")+oneLine(g))
	}
	if s.ExpectsChanges {
		v.field("expects", "a change to files")
	}
	if s.EmptyOK {
		v.field("empty ok", "to have found nothing is a good result")
	}
	v.field("outputs", strings.Join(s.Outputs, ", "))
	v.field("decided by", strings.Join(s.DoneWhen, ", "))
	v.field("with", v.with(s))
	if s.Budget != nil {
		v.field("budget", budgetText(*s.Budget))
	}
}
