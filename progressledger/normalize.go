package progressledger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// MaxOutput is the greatest length of a verdict's OutputData, in characters; what is cut is said at its end.
const MaxOutput = 64 << 10

// Bounds of a verdict's other texts, in characters: they are stored with every turn and shown in prompts.
const (
	maxSummary = 2_000
	maxReason  = 1_000 // of a finding's evidence, and of why it is stuck or needs another plan
	maxPrompt  = 8_000 // of a continuation
	maxItems   = 30    // of what remains
	maxItem    = 500
	maxFacts   = 10
	maxFact    = 300
)

// Normalize makes the verdict from a model's answer, by these rules in this order:
//
//  1. Not completed, if a gate is red or was not run (one that was red before must be no worse); if todos are open, the
//     language server finds errors or the promise was not given, where done_when names these; if there are no changes
//     where changes are expected; if it changed the project and not its slot, or files outside of its
//     writes where scope is veto; or if the turn was
//     truncated. A turn that the manager stopped may be complete.
//  2. Completed requires every criterion to be met, with evidence: one that the answer does not mention is not. It also
//     requires every declared output. An output is there if the answer's outputs hold its label (O1), or its
//     output_data is an object with its name as a key, with a value that is not blank; where an empty result is fine
//     (empty_ok), a blank value will do, but not its absence.
//  3. need_replan, blocked_by and new_facts (at most 10, of 300 characters) are recorded and change nothing about
//     completion.
//  4. A completed turn is not in a loop, and not stuck.
//  5. goal_achieved counts only with completion.
//  6. Not completed without a continuation prompt: one is built from what is missing. After a truncated turn it says
//     so.
//
// It is pure. What forced completed to false although the model said true is in Overruled. A goal that is achieved
// makes what remains superfluous only as far as the scheduler allows it: sub-tasks with gates are not skipped.
func Normalize(req boulder.JudgeRequest, a Answer) boulder.Verdict {
	claimed := a.Completed != nil && *a.Completed
	criteria := findings(req.SubTask, a.Criteria)
	data, unstated := outputs(req.SubTask, a)

	rules := rule(req)
	missing := slices.Concat(rules.undone, unmet(criteria), unstated)
	v := boulder.Verdict{
		Completed: claimed && len(missing) == 0 && len(rules.silent) == 0 && rules.cutOff == "",
		Summary:   text.Excerpt(strings.TrimSpace(a.Summary), maxSummary, text.Start), Criteria: criteria,
		OutputData: text.Excerpt(data, MaxOutput, text.Start), IsProgress: a.IsProgress, BlockedBy: "none",
		NeedReplan: a.NeedReplan, ReplanReason: text.Excerpt(a.ReplanReason, maxReason, text.Start),
		NewFacts: few(a.NewFacts, maxFacts, maxFact),
	}
	if slices.Contains(obstacles, a.BlockedBy) {
		v.BlockedBy = a.BlockedBy
	}
	if v.Completed {
		v.IsProgress, v.GoalAchieved = true, a.GoalAchieved
		v.Remaining = few(a.Remaining, maxItems, maxItem) // a contradiction that people should see
		return v
	}
	if claimed {
		v.Overruled = slices.Concat(missing, rules.silent, rules.rest())
	}
	v.IsInLoop, v.IsStuck, v.StuckReason = a.IsInLoop, a.IsStuck, text.Excerpt(a.StuckReason, maxReason, text.Start)
	for _, item := range slices.Concat(few(a.Remaining, maxItems, maxItem), rules.undone, unstated, rules.rest()) {
		if !slices.Contains(v.Remaining, item) {
			v.Remaining = append(v.Remaining, item)
		}
	}
	v.ContinuationPrompt = rules.tell(continuation(a, claimed, missing, unstated))
	return v
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
			c.Met, c.Evidence = found.shown(), text.Excerpt(strings.TrimSpace(found.Evidence), maxReason, text.Start)
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

// outputs looks the declared outputs up in the answer: data is what dependents get, the outputs by name and the rest.
func outputs(t boulder.SubTask, a Answer) (data string, missing []string) {
	extra := strings.TrimSpace(string(a.OutputData))
	var named map[string]Text
	if json.Unmarshal([]byte(extra), &named) != nil {
		named = nil
	}
	undeclared := func(name string) bool { return !slices.Contains(t.Outputs, name) }
	if named != nil && !slices.ContainsFunc(slices.Collect(maps.Keys(named)), undeclared) {
		extra = "" // it says nothing besides
	}
	var parts []string
	for i, name := range t.Outputs {
		value, present := "", false
		take := func(v Text) {
			if v := strings.TrimSpace(string(v)); v != "" || t.EmptyOK {
				value, present = cmp.Or(v, value), true
			}
		}
		if v, ok := named[name]; ok {
			take(v)
		}
		for _, v := range a.Outputs {
			if isLabel(v.ID, "O", i) {
				take(v.Value)
			}
		}
		switch {
		case !present:
			missing = append(missing, "the value of this output has to be stated: "+name)
		case strings.Contains(value, "\n"):
			parts = append(parts, name+":\n"+value)
		default:
			parts = append(parts, name+": "+cmp.Or(value, "(nothing)"))
		}
	}
	if extra != "" {
		parts = append(parts, extra)
	}
	return strings.Join(parts, "\n"), missing
}

func filled(items []string) []string {
	return slices.DeleteFunc(slices.Clone(items), func(s string) bool { return strings.TrimSpace(s) == "" })
}

// few keeps the first items, each within its limit.
func few(items []string, most, limit int) []string {
	kept := filled(items)
	kept = kept[:min(len(kept), most)]
	for i := range kept {
		kept[i] = text.Excerpt(strings.TrimSpace(kept[i]), limit, text.Start)
	}
	return kept
}

// continuation is the model's prompt where it has one for an incomplete turn, and otherwise a list of what is missing
// (rule 6); nothing, if the model found nothing missing. Outputs are asked for in any case: the model may take them for
// granted.
func continuation(a Answer, claimed bool, missing, outputs []string) string {
	prompt := strings.TrimSpace(a.ContinuationPrompt)
	switch {
	case prompt != "" && !claimed:
		missing = outputs
	case len(missing) == 0 && claimed:
		prompt = ""
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
