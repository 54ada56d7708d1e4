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
	// maxTold bounds the diagnostics, and the tests of a gate, that one reason names.
	maxTold = 5
	// maxQuote is the length of a summary that is taken from the agent's own last message, in characters.
	maxQuote = 600
)

// ruling is what forbids completion whatever a model says (rule 1).
type ruling struct {
	undone []string // what work can do something about
	// silent says that the promise was not given, where it has to be. An agent is not told of that as of something to be
	// done: it would write the promise instead of doing the work.
	silent []string
	// cutOff says why the turn's end is no end of its own, although it may look like one. Such a turn never completes a
	// sub-task, with green gates neither: what it was about to do is not known. Empty if the manager ended the turn itself.
	cutOff string
}

func rule(req boulder.JudgeRequest) ruling {
	t, e := req.SubTask, req.Turn.Evidence
	end, undone := e.Ended, gateVetoes(t, e)
	if t.DoneNeeds(boulder.DoneTodos) {
		for _, todo := range e.OpenTodos() {
			undone = append(undone, "the todo list has an open item: "+todo.Content)
		}
	}
	undone = append(undone,
		text.If(t.DoneNeeds(boulder.DoneDiagnostics),
			text.Prefixed("the language server finds errors in changed files: ", several(e.Errors(), "; "))),
		text.If(t.ExpectsChanges && e.Diff.Empty(), "changes to files are expected, and there are none"),
		text.Prefixed("these files of the project itself changed, in which the sub-task is not to work: its own directory is a "+
			"copy of the project, and changes of its own have to be there: ",
			strings.Join(slices.Concat(e.Escaped, e.Strayed), ", ")),
		text.If(req.Scope == boulder.ScopeVeto, text.Prefixed("files outside of what the sub-task may write ("+
			strings.Join(t.Writes, ", ")+") were changed, which have to be as they were before: ", strings.Join(e.Outside, ", "))),
	)
	return ruling{
		undone: filled(undone),
		silent: filled([]string{
			text.If(t.DoneNeeds(boulder.DonePromise) && !e.Promised, "the promise was not given that everything is done"),
		}),
		cutOff: cmp.Or(end.Truncated,
			text.If(end.Finish == "length" && end.Stopped == "" && end.Error == "", "it reached the output limit")),
	}
}

// rest is that the turn's end is missing.
func (r ruling) rest() []string {
	if r.cutOff == "" {
		return nil
	}
	return []string{"the turn was cut off (" + r.cutOff + "), so its end is missing"}
}

// tell makes the prompt to continue with: an agent whose turn was truncated is told so before whatever else there is to say.
// One that has nothing to do by the rules, and does not say that it is done, looks again.
func (r ruling) tell(prompt string) string {
	if prompt == "" && len(r.silent) > 0 {
		prompt = "Look whether all that your brief asks for is done, and do what is not."
	}
	if r.cutOff != "" {
		prompt = strings.TrimSpace("Your last turn was cut off (" + r.cutOff + "). Go on where you stopped; at the end say in " +
			"two sentences what you did.\n\n" + prompt)
	}
	return text.Excerpt(prompt, maxPrompt, text.Start)
}

// verdict is that of the rules alone. Declared outputs cannot be told apart, so the last message is handed on whole.
func (r ruling) verdict(e *boulder.Evidence) boulder.Verdict {
	v := boulder.Verdict{BlockedBy: "none", IsProgress: !e.Diff.Empty()}
	if all := slices.Concat(r.undone, r.silent, r.rest()); len(all) > 0 {
		v.Summary = text.Excerpt("Not completed: "+strings.Join(all, "; ")+".", maxSummary, text.Start)
		v.Remaining = slices.Concat(r.undone, r.rest())
		prompt := ""
		if len(r.undone) > 0 {
			prompt = continuation(Answer{}, false, r.undone, nil)
		}
		v.ContinuationPrompt = r.tell(prompt)
		return v
	}
	message := strings.TrimSpace(e.FinalMessage)
	v.Completed, v.IsProgress, v.OutputData = true, true, text.Excerpt(message, MaxOutput, text.Start)
	v.Summary = strings.TrimSpace(passed(e.Gates) + " " + text.Excerpt(message, maxQuote, text.Start))
	if v.Summary == "" {
		v.Summary = "The turn came to its end."
	}
	return v
}

// shown reports whether a gate shows that the work is done: one that has to be green and is, or that was red before and
// is not any more. One that is merely as it was, red or green, shows nothing.
func shown(req boulder.JudgeRequest) bool {
	return slices.ContainsFunc(req.Turn.Evidence.Gates, func(g boulder.Gate) bool {
		before := boulder.GateOf(req.SubTask.Baseline, g.Command)
		return g.Green() && (!req.SubTask.MayStayRed(g.Command) || before != nil && !before.Green())
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

// unfinished says why a turn's end is none of its own; empty if it is. OpenCode ends a turn that is done with "stop";
// length and unknown, and a turn without a text, are truncations (SEMANTICS 5).
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

// worse tells how a gate ended, now and before the sub-task began, and which tests fail only now.
func worse(t boulder.SubTask, g boulder.Gate) string {
	before := boulder.GateOf(t.Baseline, g.Command)
	if before == nil {
		return g.End()
	}
	known := func(test string) bool { return slices.Contains(before.Failing, test) }
	fresh := slices.DeleteFunc(slices.Clone(g.Failing), known)
	return g.End() + "; before: " + before.End() + text.Prefixed("; newly failing: ", several(fresh, ", "))
}

// several joins the first few items and counts the others.
func several(items []string, separator string) string {
	if more := len(items) - maxTold; more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(items[:maxTold], separator), more)
	}
	return strings.Join(items, separator)
}
