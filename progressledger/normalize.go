package progressledger

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

// MaxOutput is the greatest length of a verdict's OutputData, in characters; what is cut is said at its end.
const MaxOutput = 64 << 10

// Normalize makes the verdict from a model's answer, by these rules in this order:
//
//  1. A gate that is red or was not run, open todos (where done_when names them), or no changes where changes are
//     expected mean: not completed.
//  2. Completed requires every criterion to be met, with evidence: one that the answer does not mention is not. It also
//     requires every declared output. An output is there if the answer's outputs hold its label (O1), or its
//     output_data is an object with its name as a key, with a value that is not blank; where an empty result is fine
//     (empty_ok), a blank value will do, but not its absence.
//  3. need_replan is recorded and changes nothing about completion.
//  4. A completed turn is not in a loop, and not stuck.
//  5. goal_achieved counts only with completion.
//  6. Not completed without a continuation prompt: one is built from what is missing.
//
// It is pure. What forced completed to false although the model said true is in Overruled.
func Normalize(req boulder.JudgeRequest, a Answer) boulder.Verdict {
	claimed := a.Completed != nil && *a.Completed
	criteria := findings(req.SubTask, a.Criteria)
	outputs := declared(req.SubTask, a)

	missing := vetoes(req)
	missing = append(missing, unmet(criteria)...)
	missing = append(missing, outputs.missing()...)
	v := boulder.Verdict{
		Completed: claimed && len(missing) == 0,
		Summary:   strings.TrimSpace(a.Summary), Criteria: criteria, OutputData: limited(outputs.data(), MaxOutput),
		IsProgress: a.IsProgress, BlockedBy: obstacle(a.BlockedBy),
		NeedReplan: a.NeedReplan, ReplanReason: a.ReplanReason, NewFacts: filled(a.NewFacts),
	}
	if v.Completed {
		v.IsProgress, v.GoalAchieved = true, a.GoalAchieved
		return v
	}
	if claimed {
		v.Overruled = missing
	}
	v.IsInLoop, v.IsStuck, v.StuckReason = a.IsInLoop, a.IsStuck, a.StuckReason
	v.Remaining = remaining(filled(a.Remaining), vetoes(req), outputs.missing())
	v.ContinuationPrompt = continuation(a, claimed, missing, outputs.missing())
	return v
}

// vetoes lists what forbids completion whatever a model says (rule 1).
func vetoes(req boulder.JudgeRequest) []string {
	e := evidence(req)
	var reasons []string
	for _, g := range e.Red() {
		reasons = append(reasons, fmt.Sprintf("the command `%s` must exit 0 (%s)", g.Command, gateEnd(g)))
	}
	for _, command := range req.SubTask.Gates {
		if !slices.ContainsFunc(e.Gates, func(g boulder.Gate) bool { return g.Command == command }) {
			reasons = append(reasons, fmt.Sprintf("the command `%s` must exit 0 (it was not run)", command))
		}
	}
	if req.SubTask.DoneNeeds(boulder.DoneTodos) {
		for _, todo := range e.OpenTodos() {
			reasons = append(reasons, "the todo list has an open item: "+todo.Content)
		}
	}
	if req.SubTask.ExpectsChanges && e.Diff.Empty() {
		reasons = append(reasons, "changes to files are expected, and there are none")
	}
	return reasons
}

// evidence of a turn; nothing, if it has none.
func evidence(req boulder.JudgeRequest) *boulder.Evidence {
	if req.Turn.Evidence == nil {
		return &boulder.Evidence{}
	}
	return req.Turn.Evidence
}

// findings gives one entry for each criterion of the sub-task. Of contradicting findings the unfavourable one counts.
func findings(t boulder.SubTask, answers []Finding) []boulder.Criterion {
	labelled := slices.ContainsFunc(answers, func(f Finding) bool { return f.ID != "" })
	var all []boulder.Criterion
	for i, criterion := range t.SuccessCriteria {
		var found *Finding
		for k, f := range answers {
			mine := isLabel(f.ID, "C", i) || !labelled && k == i
			if mine && (found == nil || !f.shown()) {
				found = &answers[k]
			}
		}
		c := boulder.Criterion{Criterion: criterion}
		if found != nil {
			c.Met, c.Evidence = found.shown(), strings.TrimSpace(found.Evidence)
		}
		all = append(all, c)
	}
	return all
}

// shown reports whether the criterion is met, with evidence.
func (f Finding) shown() bool { return f.Met && strings.TrimSpace(f.Evidence) != "" }

// isLabel tolerates "c1" and "1" for C1.
func isLabel(id, prefix string, i int) bool {
	id = strings.TrimSpace(id)
	return strings.EqualFold(id, label(prefix, i)) || strings.EqualFold(prefix+id, label(prefix, i))
}

func unmet(criteria []boulder.Criterion) []string {
	var reasons []string
	for _, c := range criteria {
		switch {
		case c.Met:
		case c.Evidence == "":
			reasons = append(reasons, "there is no evidence that this is met: "+c.Criterion)
		default:
			reasons = append(reasons, fmt.Sprintf("this is not met: %s (%s)", c.Criterion, c.Evidence))
		}
	}
	return reasons
}

// results are the declared outputs with what the answer has for them.
type results struct {
	outputs []output
	extra   string // what there is besides
}

type output struct {
	name    string
	value   string
	present bool
}

// declared looks the sub-task's outputs up in the answer.
func declared(t boulder.SubTask, a Answer) results {
	r := results{extra: strings.TrimSpace(string(a.OutputData))}
	var named map[string]Text
	if json.Unmarshal([]byte(r.extra), &named) != nil {
		named = nil
	}
	if others := maps.Clone(named); others != nil {
		maps.DeleteFunc(others, func(name string, _ Text) bool { return slices.Contains(t.Outputs, name) })
		if len(others) == 0 {
			r.extra = "" // it says nothing besides
		}
	}
	for i, name := range t.Outputs {
		o := output{name: name}
		take := func(value Text) {
			if v := strings.TrimSpace(string(value)); v != "" || t.EmptyOK {
				o.present = true
				if v != "" {
					o.value = v
				}
			}
		}
		if value, ok := named[name]; ok {
			take(value)
		}
		for _, v := range a.Outputs {
			if isLabel(v.ID, "O", i) {
				take(v.Value)
			}
		}
		r.outputs = append(r.outputs, o)
	}
	return r
}

func (r results) missing() []string {
	var names []string
	for _, o := range r.outputs {
		if !o.present {
			names = append(names, "the value of this output has to be stated: "+o.name)
		}
	}
	return names
}

// data is what dependents get: the outputs by name, and the rest.
func (r results) data() string {
	var parts []string
	for _, o := range r.outputs {
		switch {
		case !o.present:
		case o.value == "":
			parts = append(parts, o.name+": (nothing)")
		case strings.Contains(o.value, "\n"):
			parts = append(parts, o.name+":\n"+o.value)
		default:
			parts = append(parts, o.name+": "+o.value)
		}
	}
	if r.extra != "" {
		parts = append(parts, r.extra)
	}
	return strings.Join(parts, "\n")
}

func obstacle(s string) string {
	if slices.Contains(obstacles(), s) {
		return s
	}
	return "none"
}

// remaining joins the lists, each item once.
func remaining(lists ...[]string) []string {
	var all []string
	for _, item := range slices.Concat(lists...) {
		if !slices.Contains(all, item) {
			all = append(all, item)
		}
	}
	return all
}

// filled drops blank items.
func filled(items []string) []string {
	return slices.DeleteFunc(slices.Clone(items), func(s string) bool { return strings.TrimSpace(s) == "" })
}

// continuation is the model's prompt where it has one for an incomplete turn, and otherwise a list of what is missing
// (rule 6). Outputs are asked for in either case: the model may take them for granted.
func continuation(a Answer, claimed bool, missing, outputs []string) string {
	prompt := strings.TrimSpace(a.ContinuationPrompt)
	switch {
	case prompt != "" && !claimed:
		missing = outputs
	case len(missing) == 0:
		prompt = "The sub-task is not complete: " + strings.TrimSpace(a.Summary)
		missing = filled(a.Remaining)
	default:
		prompt = "The sub-task is not complete."
	}
	if len(missing) == 0 {
		return prompt
	}
	return prompt + "\n\nSee to this:\n- " + strings.Join(missing, "\n- ")
}
