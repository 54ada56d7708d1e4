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

// MaxOutput bounds a verdict's OutputData, in characters. A cut is noted at its end.
const MaxOutput = 64 << 10

// Bounds of a verdict's other texts, in characters: they are stored with every turn and shown in prompts.
const (
	maxSummary = 2_000
	maxReason  = 1_000 // of a finding's evidence, and of reasons for stuck and replan
	maxPrompt  = 8_000 // of a continuation prompt
	maxItems   = 30    // of the remaining work
	maxItem    = 500
	maxFacts   = 10
	maxFact    = 300
	maxAnswer  = 8_000 // to the user
	maxRows    = 40    // of the request
)

// Normalize turns a model's answer into a verdict, by these rules in this order:
//
//  1. Not completed if a gate is red or was not run (of no_worse: if it got worse); where done_when names
//     them, if todos are open, the language server finds errors or the promise is missing; if expected changes are
//     missing; if the project outside the slot was changed, or, where scope is veto, files outside of writes; or if the
//     turn was truncated. A turn that the manager stopped may be complete.
//  2. Completed requires that every criterion is met, with evidence, and that every declared output is there: the
//     answer's outputs have its label (O1), or output_data is an object with its name as a key. The value must not be
//     blank, unless an empty result is fine (empty_ok).
//  3. need_replan, blocked_by and new_facts (at most 10, of 300 characters) are recorded, and do not affect completion.
//  4. A completed turn is neither in a loop nor stuck.
//  5. goal_achieved counts only with completion.
//  6. Without completion there is a continuation prompt, built from what is missing if need be. After a truncated turn
//     it says so.
//
// It is pure. Overruled has what forced completed to false although the model said true. Even if the goal is achieved,
// the scheduler does not skip sub-tasks with gates.
func Normalize(req boulder.JudgeRequest, a Answer) boulder.Verdict {
	claimed := a.Completed != nil && *a.Completed
	criteria := findings(req.SubTask, a.Criteria)
	data, unstated := outputs(req.SubTask, a)

	rules := applyRules(req)
	missing := slices.Concat(rules.undone, unmet(criteria), unstated)
	v := boulder.Verdict{
		Completed: claimed && len(missing) == 0 && len(rules.noPromise) == 0 && rules.cutOff == "",
		Summary:   text.Excerpt(strings.TrimSpace(a.Summary), maxSummary, text.Start), Criteria: criteria,
		OutputData: text.Excerpt(data, MaxOutput, text.Start), IsProgress: a.IsProgress, BlockedBy: "none",
		NeedReplan: a.NeedReplan, ReplanReason: text.Excerpt(a.ReplanReason, maxReason, text.Start),
		NewFacts: limitItems(a.NewFacts, maxFacts, maxFact),
	}
	if slices.Contains(obstacles, a.BlockedBy) {
		v.BlockedBy = a.BlockedBy
	}
	if v.Completed {
		v.IsProgress, v.GoalAchieved = true, a.GoalAchieved
		v.Remaining = limitItems(a.Remaining, maxItems, maxItem) // a contradiction that the user should see
		v.Answer = text.Excerpt(strings.TrimSpace(a.UserAnswer), maxAnswer, text.Start)
		return v
	}
	if claimed {
		v.Overruled = slices.Concat(missing, rules.noPromise, rules.cutOffNote())
	}
	v.IsInLoop, v.IsStuck, v.StuckReason = a.IsInLoop, a.IsStuck, text.Excerpt(a.StuckReason, maxReason, text.Start)
	for _, item := range slices.Concat(limitItems(a.Remaining, maxItems, maxItem), rules.undone, unstated, rules.cutOffNote()) {
		if !slices.Contains(v.Remaining, item) {
			v.Remaining = append(v.Remaining, item)
		}
	}
	v.ContinuationPrompt = rules.continuationPrompt(continuation(a, claimed, missing, unstated))
	return v
}

// findings returns one entry per criterion of the sub-task. Of contradicting findings the unfavourable one counts.
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

// isLabel accepts "c1" and "1" for C1.
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

// outputs looks up the declared outputs in the answer. data is for dependents: the outputs by name, then the rest.
func outputs(t boulder.SubTask, a Answer) (data string, missing []string) {
	extra := strings.TrimSpace(string(a.OutputData))
	var named map[string]Text
	if json.Unmarshal([]byte(extra), &named) != nil {
		named = nil
	}
	undeclared := func(name string) bool { return !slices.Contains(t.Outputs, name) }
	if named != nil && !slices.ContainsFunc(slices.Collect(maps.Keys(named)), undeclared) {
		extra = "" // there is nothing else in it
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

func nonBlank(items []string) []string {
	return slices.DeleteFunc(slices.Clone(items), func(s string) bool { return strings.TrimSpace(s) == "" })
}

// limitItems keeps the first items, each within limit.
func limitItems(items []string, most, limit int) []string {
	kept := nonBlank(items)
	kept = kept[:min(len(kept), most)]
	for i := range kept {
		kept[i] = text.Excerpt(strings.TrimSpace(kept[i]), limit, text.Start)
	}
	return kept
}

// continuation returns the model's prompt for an incomplete turn, or else a list of what is missing (rule 6); "" if the
// model claimed completion and nothing is. It always asks for missing outputs, which the model may take for granted.
func continuation(a Answer, claimed bool, missing, outputs []string) string {
	prompt := strings.TrimSpace(a.ContinuationPrompt)
	switch {
	case prompt != "" && !claimed:
		missing = outputs
	case len(missing) == 0 && claimed:
		prompt = ""
	case len(missing) == 0:
		prompt = "The sub-task is not complete: " + strings.TrimSpace(a.Summary)
		missing = nonBlank(a.Remaining)
	default:
		prompt = "The sub-task is not complete."
	}
	if len(missing) == 0 {
		return prompt
	}
	return prompt + "\n\nSee to this:\n- " + strings.Join(missing, "\n- ")
}
