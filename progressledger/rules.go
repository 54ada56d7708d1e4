package progressledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

const (
	maxTold  = 5   // diagnostics, or tests of a gate, that one reason names
	maxQuote = 600 // length of a summary taken from the agent's last message, in characters
)

// ruling is what forbids completion whatever the model says (rule 1).
type ruling struct {
	undone []string // what work can fix
	// noPromise says that a required promise is missing. The agent is not told: it would write it instead of working.
	noPromise []string
	// cutOff says why the turn did not end by itself, even if it seems so; empty also if the manager stopped it. Such a
	// turn never completes a sub-task, even with green gates: what it was about to do is unknown.
	cutOff string
}

func applyRules(req boulder.JudgeRequest) ruling {
	t, e := req.SubTask, req.Turn.Evidence
	end, undone := e.Ended, gateVetoes(t, e)
	if t.DoneNeeds(boulder.DoneTodos) {
		for _, todo := range e.OpenTodos() {
			undone = append(undone, "the todo list has an open item: "+todo.Content)
		}
	}
	undone = append(undone,
		text.If(t.DoneNeeds(boulder.DoneDiagnostics),
			text.Prefixed("the language server finds errors in changed files: ", firstItems(e.Errors(), "; "))),
		text.If(t.ExpectsChanges && e.Diff.Empty(), "changes to files are expected, and there are none"),
		text.Prefixed("these files of the project itself changed, in which the sub-task is not to work: its own directory is a "+
			"copy of the project, and changes of its own have to be there: ",
			strings.Join(slices.Concat(e.Escaped, e.Strayed), ", ")),
		text.Prefixed("git cannot store these files, so they would not be part of the result; change them or what .gitattributes "+
			"says of them, or have git ignore them: ", firstItems(e.Diff.Unstored, "; ")),
		text.If(req.Scope == boulder.ScopeVeto, text.Prefixed("files outside of what the sub-task may write ("+
			strings.Join(t.Writes, ", ")+") were changed, which have to be as they were before: ", strings.Join(e.Outside, ", "))),
	)
	return ruling{
		undone: nonBlank(undone),
		noPromise: nonBlank([]string{
			text.If(t.DoneNeeds(boulder.DonePromise) && !e.Promised, "the promise was not given that everything is done"),
		}),
		cutOff: cmp.Or(end.Truncated,
			text.If(end.Finish == "length" && end.Stopped == "" && end.Error == "", "it reached the output limit")),
	}
}

func (r ruling) cutOffNote() []string {
	if r.cutOff == "" {
		return nil
	}
	return []string{"the turn was cut off (" + r.cutOff + "), so its end is missing"}
}

// continuationPrompt completes prompt. It first says that the turn was truncated, if it was. An agent that has nothing
// to do by the rules, but did not promise that it is done, is told to look again.
func (r ruling) continuationPrompt(prompt string) string {
	if prompt == "" && len(r.noPromise) > 0 {
		prompt = "Look whether all that your brief asks for is done, and do what is not."
	}
	if r.cutOff != "" {
		prompt = strings.TrimSpace("Your last turn was cut off (" + r.cutOff + "). Go on where you stopped; at the end say in " +
			"two sentences what you did.\n\n" + prompt)
	}
	return text.Excerpt(prompt, maxPrompt, text.Start)
}

// verdict returns that of the rules alone. They cannot tell outputs apart, so all that was said is the output.
func (r ruling) verdict(e *boulder.Evidence) boulder.Verdict {
	v := boulder.Verdict{BlockedBy: "none", IsProgress: !e.Diff.Empty()}
	if all := slices.Concat(r.undone, r.noPromise, r.cutOffNote()); len(all) > 0 {
		v.Summary = text.Excerpt("Not completed: "+strings.Join(all, "; ")+".", maxSummary, text.Start)
		v.Remaining = slices.Concat(r.undone, r.cutOffNote())
		prompt := ""
		if len(r.undone) > 0 {
			prompt = continuation(Answer{}, false, r.undone, nil)
		}
		v.ContinuationPrompt = r.continuationPrompt(prompt)
		return v
	}
	said := text.Excerpt(strings.TrimSpace(e.FinalMessage), maxQuote, text.Start)
	v.Completed, v.IsProgress, v.OutputData = true, true, text.Excerpt(strings.TrimSpace(e.Words()), MaxOutput, text.Start)
	v.Summary = strings.TrimSpace(passed(e.Gates) + " " + said)
	if v.Summary == "" {
		v.Summary = "The turn came to its end."
	}
	return v
}

// gateProves reports whether a gate shows that the work is done: it is green, and was red before, or had to be green and
// did not run before. A gate that is as it was before shows nothing.
func gateProves(req boulder.JudgeRequest) bool {
	return gatesProve(req.SubTask, req.Turn.Evidence.Gates)
}

func gatesProve(t boulder.SubTask, runs []boulder.Gate) bool {
	return slices.ContainsFunc(runs, func(g boulder.Gate) bool {
		before := boulder.GateOf(t.Baseline, g.Command)
		if before == nil {
			return g.Green() && !t.MayStayRed(g.Command)
		}
		return g.Green() && !before.Green()
	})
}

func passed(gates []boulder.Gate) string {
	asBefore := 0
	for _, g := range gates {
		if !g.Green() {
			asBefore++
		}
	}
	switch {
	case len(gates) == 0:
		return ""
	case asBefore == 0:
		return fmt.Sprintf("%s passed.", text.Plural(len(gates), "gate"))
	}
	return fmt.Sprintf("%d of %s passed, %d no worse than before.", len(gates)-asBefore, text.Plural(len(gates), "gate"), asBefore)
}

// unfinished says why the turn did not end by itself, or returns "". OpenCode ends a finished turn with "stop"; length,
// unknown and a turn without text are truncations (docs/judging.md).
func unfinished(e *boulder.Evidence) string {
	switch end := e.Ended; {
	case end.Stopped != "":
		return "the turn was stopped: " + end.Stopped
	case end.Error != "":
		return strings.TrimSuffix("the turn ended with "+end.Error+": "+end.Message, ": ")
	case end.Truncated != "":
		return "the turn was cut off: " + end.Truncated
	case end.Finish == "":
		return "the turn ended without an answer"
	case end.Finish == "length":
		return "the turn was cut off at the output limit"
	case end.Finish != "stop":
		return fmt.Sprintf("the turn was cut off (finish reason %q)", end.Finish)
	case strings.TrimSpace(e.FinalMessage) == "":
		return "the turn ended without a message"
	}
	return ""
}

func gateVetoes(t boulder.SubTask, e *boulder.Evidence) []string {
	var reasons []string
	for _, g := range t.OpenGates(e.Gates, e.NoServer) {
		switch {
		case g.Run == nil:
			reasons = append(reasons, fmt.Sprintf("the command `%s` must exit 0 (it was not run)", g.Command))
		case t.MayStayRed(g.Command):
			reasons = append(reasons, fmt.Sprintf("the command `%s` must be no worse than before (%s)", g.Command, worse(t, *g.Run)))
		default:
			reasons = append(reasons, fmt.Sprintf("the command `%s` must exit 0 (%s)", g.Command, g.Run.End()))
		}
	}
	return reasons
}

// worse describes the result of a gate now and before the sub-task, and which tests fail only now.
func worse(t boulder.SubTask, g boulder.Gate) string {
	before := boulder.GateOf(t.Baseline, g.Command)
	if before == nil {
		return g.End()
	}
	known := func(test string) bool { return slices.Contains(before.Failing, test) }
	fresh := slices.DeleteFunc(slices.Clone(g.Failing), known)
	return g.End() + "; before: " + before.End() + text.Prefixed("; newly failing: ", firstItems(fresh, ", "))
}

// firstItems joins the first items and counts the others.
func firstItems(items []string, separator string) string {
	if more := len(items) - maxTold; more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(items[:maxTold], separator), more)
	}
	return strings.Join(items, separator)
}
