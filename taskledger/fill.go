package taskledger

import (
	"strconv"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

const (
	maxSubject = 80 // bounds a subject that is taken from another text, in characters
	maxNamed   = 5  // how many sub-tasks name a task that has no text of its own
)

// fill completes a plan with what may be left out, and gives what has several forms one, so that the same plan always
// has the same hash.
func fill(p *boulder.Plan) {
	if p.Version == 0 {
		p.Version = boulder.PlanVersion
	}
	for _, list := range []*[]string{&p.Constraints, &p.Facts.Given, &p.Facts.ToFind, &p.Facts.Guesses, &p.DoneWhen} {
		nilIfEmpty(list)
	}
	number(p.SubTasks)
	for i := range p.SubTasks {
		fillSubTask(&p.SubTasks[i])
	}
	if blank(p.Task) {
		p.Task = p.Goal
	}
	if blank(p.Task) {
		p.Task = subjects(p.SubTasks)
	}
}

func fillSubTask(s *boulder.Spec) {
	if blank(s.Subject) {
		s.Subject = headline(s.Description)
	}
	if blank(s.ActiveForm) {
		s.ActiveForm = oneLine(s.Subject)
	}
	if len(s.SuccessCriteria) == 0 && s.Subject != "" {
		s.SuccessCriteria = []string{s.Subject}
	}
	for _, list := range []*[]string{&s.SuccessCriteria, &s.DependsOn, &s.Gates, &s.NoWorse, &s.Outputs, &s.DoneWhen} {
		nilIfEmpty(list)
	}
	if s.Budget != nil && *s.Budget == (boulder.Budget{}) {
		s.Budget = nil
	}
}

func nilIfEmpty(list *[]string) {
	if len(*list) == 0 {
		*list = nil
	}
}

// number gives sub-tasks without an id their number in the plan, or, where that is taken, the next free one after the
// last.
func number(specs []boulder.Spec) {
	taken := make(map[string]bool, len(specs))
	for _, s := range specs {
		taken[s.ID] = true
	}
	next := len(specs) + 1
	for i := range specs {
		if specs[i].ID != "" {
			continue
		}
		id := strconv.Itoa(i + 1)
		for taken[id] {
			id = strconv.Itoa(next)
			next++
		}
		specs[i].ID, taken[id] = id, true
	}
}

func subjects(specs []boulder.Spec) string {
	var all []string
	for _, s := range specs {
		if s.Subject != "" {
			all = append(all, s.Subject)
		}
	}
	if len(all) > maxNamed {
		all = append(all[:maxNamed], "…")
	}
	return strings.Join(all, "; ")
}

func headline(s string) string {
	for line := range strings.Lines(s) {
		if line = text.Short(line, maxSubject); line != "" {
			return line
		}
	}
	return ""
}
