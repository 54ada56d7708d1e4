package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
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

// Replan shows a replan to a person who is asked about it: what goes, what changes and what is new.
func Replan(p Out, r orchestrator.ReplanProposal) {
	v := planView{Out: p, plan: &boulder.Plan{SubTasks: r.SubTasks}, width: p.Lines()}
	fmt.Fprintf(p, "\n%s %s\n", p.Bold(fmt.Sprintf("Replan %d:", r.Number)), text.Wrap(text.OneLine(r.Reason), v.width))
	var changed []string
	for _, s := range r.SubTasks {
		from := r.Replaces[s.ID]
		changed = append(changed, from)
		if from == "" {
			fmt.Fprintf(p, "\n%s %s %s\n", p.Green("+"), p.Bold(text.OneLine(s.Subject)), p.Dim("("+text.OneLine(s.ID)+")"))
		} else {
			fmt.Fprintf(p, "\n%s %s %s\n", p.Yellow("~"), p.Bold(text.OneLine(s.Subject)),
				p.Dim("("+text.OneLine(from)+" → "+text.OneLine(s.ID)+")"))
		}
		v.details(s)
	}
	for _, t := range r.Replaced {
		if !slices.Contains(changed, t.ID) {
			fmt.Fprintf(p, "\n%s %s %s\n", p.Red("-"), text.OneLine(t.Subject), p.Dim("("+text.OneLine(t.ID)+")"))
		}
	}
}

// details are the lines of a sub-task below its subject.
func (v planView) details(s boulder.Spec) {
	if line := strings.TrimSpace(text.Safe(s.Description)); text.OneLine(line) != text.OneLine(s.Subject) {
		fmt.Fprintln(v, text.Indent(text.Wrap(firstLines(line, descriptionShown), v.width-len("   ")), "   "))
	}
	if len(s.DependsOn) > 0 {
		v.field("after", strings.Join(s.DependsOn, ", "))
	}
	for _, c := range s.SuccessCriteria {
		if text.OneLine(c) != text.OneLine(s.Subject) {
			v.field("done when", c)
		}
	}
	for _, g := range s.Gates {
		v.painted("gate", v.Cyan("$ ")+text.OneLine(g))
	}
	for _, g := range s.NoWorse {
		v.painted("no worse", v.Cyan("$ ")+text.OneLine(g))
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
		v.field("budget", BudgetText(*s.Budget))
	}
}
