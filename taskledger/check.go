package taskledger

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/internal/dag"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/providers"
)

// maxID is the length of a sub-task's id in bytes: ids become parts of file names and titles.
const maxID = 64

// finding is one thing that is wrong in a plan, wherever the plan comes from.
type finding struct {
	path     string // as in the file: sub_tasks[0].gates[1]
	what, do string
}

// of is the path of a field of a sub-task, or of an entry of it if it is a list.
func of(task int, field string, entry ...int) string {
	path := fmt.Sprintf("sub_tasks[%d].%s", task, field)
	for _, i := range entry {
		path += fmt.Sprintf("[%d]", i)
	}
	return path
}

// check gives everything that is wrong in a plan to which [fill] has been applied, in the file's words.
func check(p *boulder.Plan) []finding {
	var all []finding
	for _, one := range []func(*boulder.Plan) []finding{
		checkVersion, checkSubTasks, checkIDs, checkTexts, checkLists, checkGates, checkGraph, checkModels, checkWords,
		checkBudgets,
	} {
		all = append(all, one(p)...)
	}
	return all
}

// called is how messages call a sub-task.
func called(p *boulder.Plan, i int) string {
	if id := p.SubTasks[i].ID; id != "" {
		return fmt.Sprintf("sub-task %q", text.Cut(id, maxID))
	}
	return fmt.Sprintf("sub-task %d", i+1)
}

func checkVersion(p *boulder.Plan) []finding {
	if p.Version == boulder.PlanVersion {
		return nil
	}
	return []finding{{
		"version",
		fmt.Sprintf("this plan has version %d, this manager reads version %d", p.Version, boulder.PlanVersion),
		"install a newer manager, or plan again with this one",
	}}
}

func checkSubTasks(p *boulder.Plan) []finding {
	if len(p.SubTasks) > 0 {
		return nil
	}
	return []finding{{
		"sub_tasks", "the plan has no sub-tasks", "add at least one under sub_tasks, with a description",
	}}
}

func checkIDs(p *boulder.Plan) []finding {
	var all []finding
	for i, s := range p.SubTasks {
		at := of(i, "id")
		switch {
		case len(s.ID) > maxID:
			all = append(all, finding{
				at, fmt.Sprintf("the id %q is longer than %d characters", text.Cut(s.ID, 30), maxID), "choose a shorter one",
			})
		case !isID(s.ID):
			all = append(all, finding{
				at, fmt.Sprintf("%q cannot be an id", s.ID), "use letters (a-z, A-Z), digits, - and _",
			})
		}
	}
	return all
}

func isID(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !idRune(r) })
}

func idRune(r rune) bool {
	return r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

func checkTexts(p *boulder.Plan) []finding {
	var all []finding
	oneLine := func(path, field, value string) {
		if strings.ContainsAny(value, "\n\r") {
			all = append(all, finding{
				path, field + " has more than one line", "shorten it; details belong into the description",
			})
		}
	}
	if blank(p.Task) {
		all = append(all, finding{"task", "the task is missing", "say under task what the whole is for"})
	}
	oneLine("goal", "goal", p.Goal)
	for i, s := range p.SubTasks {
		if blank(s.Description) {
			all = append(all, finding{
				of(i, "description"), called(p, i) + " has no description",
				"say under description what is to be done",
			})
		}
		oneLine(of(i, "subject"), "subject", s.Subject)
		oneLine(of(i, "active_form"), "active_form", s.ActiveForm)
		oneLine(of(i, "agent"), "agent", s.Agent)
	}
	return all
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

func checkLists(p *boulder.Plan) []finding {
	var all []finding
	notBlank := func(path string, items []string) {
		for i, item := range items {
			if blank(item) {
				all = append(all, finding{
					fmt.Sprintf("%s[%d]", path, i), "an entry of " + path[strings.LastIndex(path, ".")+1:] + " is empty",
					"write something, or remove it",
				})
			}
		}
	}
	notBlank("constraints", p.Constraints)
	notBlank("facts.given", p.Facts.Given)
	notBlank("facts.to_find", p.Facts.ToFind)
	notBlank("facts.guesses", p.Facts.Guesses)
	for i, s := range p.SubTasks {
		notBlank(of(i, "success_criteria"), s.SuccessCriteria)
		notBlank(of(i, "gates"), s.Gates)
		notBlank(of(i, "no_worse"), s.NoWorse)
		notBlank(of(i, "outputs"), s.Outputs)
	}
	return all
}

// maxParsed bounds the commands of a plan that the shell is asked about: each costs a process. One that it cannot read
// and that is not among them is red when it runs.
const maxParsed = 500

// checkGates refuses a command that shall pass, and may fail, and one that the shell cannot read.
func checkGates(p *boulder.Plan) []finding {
	var all []finding
	parsed := map[string]string{}
	parse := func(path string, commands []string) {
		for j, line := range commands {
			what, known := parsed[line]
			if !known && len(parsed) < maxParsed && !blank(line) {
				what = command.Syntax(line)
				parsed[line] = what
			}
			if what != "" {
				all = append(all, finding{
					fmt.Sprintf("%s[%d]", path, j), "the shell cannot read the command: " + text.Cut(what, 200),
					"correct it: `sh -n -c` has to accept it",
				})
			}
		}
	}
	for i, s := range p.SubTasks {
		parse(of(i, "gates"), s.Gates)
		parse(of(i, "no_worse"), s.NoWorse)
		for j, gate := range s.NoWorse {
			if slices.Contains(s.Gates, gate) {
				all = append(all, finding{
					of(i, "no_worse", j),
					fmt.Sprintf("%s has the command %q under gates and under no_worse", called(p, i), text.Cut(gate, maxID)),
					"keep it under gates if it must pass, or under no_worse if it may stay as red as it was",
				})
			}
		}
	}
	return all
}

func checkBudgets(p *boulder.Plan) []finding {
	var all []finding
	for i, s := range p.SubTasks {
		if err := s.Budget.Validate(); err != nil { // a file's values were looked at one by one
			all = append(all, finding{of(i, "budget"), called(p, i) + ": " + err.Error(), "write amounts above 0, or none"})
		}
	}
	return all
}

func checkGraph(p *boulder.Plan) []finding {
	var all []finding
	for _, f := range dag.Check(graph(p)) {
		s := p.SubTasks[f.Node]
		who, at := called(p, f.Node), of(f.Node, "depends_on", f.Edge)
		switch f.Kind {
		case dag.Duplicate:
			all = append(all, finding{
				of(f.Node, "id"),
				fmt.Sprintf("the id %q is taken by an earlier sub-task", text.Cut(s.ID, maxID)), "give each its own",
			})
		case dag.Self:
			all = append(all, finding{at, who + " depends on itself", "remove it from depends_on"})
		case dag.Repeated:
			all = append(all, finding{
				at, fmt.Sprintf("%s names %q twice", who, text.Cut(s.DependsOn[f.Edge], maxID)), "remove one from depends_on",
			})
		case dag.Unknown:
			all = append(all, finding{
				at, fmt.Sprintf("%s depends on %q, which is not in the plan", who, text.Cut(s.DependsOn[f.Edge], maxID)),
				"add it or remove it from depends_on" + maybe(s.DependsOn[f.Edge], p),
			})
		case dag.Cycle:
			all = append(all, finding{
				at, "dependency cycle: " + shorten(f), "remove one of these dependencies",
			})
		}
	}
	return all
}

// graph is the plan's dependencies.
func graph(p *boulder.Plan) []dag.Node[string] {
	nodes := make([]dag.Node[string], len(p.SubTasks))
	for i, s := range p.SubTasks {
		nodes[i] = dag.Node[string]{ID: s.ID, DependsOn: s.DependsOn}
	}
	return nodes
}

// shorten keeps the path of a long cycle readable.
func shorten(f dag.Fault[string]) string {
	const shown = 12
	if len(f.Path) > shown {
		head := dag.Fault[string]{Path: f.Path[:shown-2]}
		return fmt.Sprintf("%s → … → %s (%d sub-tasks)", head.PathString(), f.Path[len(f.Path)-1], len(f.Path)-1)
	}
	return f.PathString()
}

// maybe names the sub-task that was probably meant.
func maybe(id string, p *boulder.Plan) string {
	ids := make([]string, len(p.SubTasks))
	for i, s := range p.SubTasks {
		ids[i] = s.ID
	}
	if meant := text.Nearest(id, ids); meant != "" {
		return fmt.Sprintf(" (did you mean %q?)", meant)
	}
	return ""
}

func checkModels(p *boulder.Plan) []finding {
	var all []finding
	one := func(path, model string) {
		if model == "" {
			return
		}
		if _, err := providers.ParseModel(model); err != nil {
			all = append(all, finding{
				path, "this is no model: " + err.Error(), "`opencode models` lists those there are",
			})
		}
	}
	one("model", p.Model)
	for i, s := range p.SubTasks {
		one(of(i, "model"), s.Model)
	}
	return all
}

func checkWords(p *boulder.Plan) []finding {
	var all []finding
	for i, s := range p.SubTasks {
		switch s.Priority {
		case "", boulder.High, boulder.Medium, boulder.Low:
		default:
			all = append(all, finding{
				of(i, "priority"), fmt.Sprintf("the priority %q is not known", text.Cut(string(s.Priority), maxID)),
				"write high, medium or low",
			})
		}
		all = append(all, checkDoneWhen(of(i, "done_when"), s.DoneWhen)...)
	}
	return append(all, checkDoneWhen("done_when", p.DoneWhen)...)
}

func checkDoneWhen(path string, words []string) []finding {
	var all []finding
	for i, word := range words {
		if !boulder.IsDoneWord(word) {
			all = append(all, finding{
				fmt.Sprintf("%s[%d]", path, i), fmt.Sprintf("done_when does not know %q", text.Cut(word, maxID)),
				"use " + doneWords() + "; commands that must pass belong under gates",
			})
		}
	}
	return all
}

// doneWords lists the criteria in a sentence: "todos, diagnostics or judge".
func doneWords() string {
	words := boulder.DoneWords()
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
