package progressledger

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

// maxTold bounds the diagnostics, and the tests of a gate, that one reason names.
const maxTold = 5

// vetoes lists what forbids completion whatever a model says (rule 1), but for a truncation, see [truncated].
func vetoes(req boulder.JudgeRequest) []string { return slices.Concat(undone(req), unpromised(req)) }

// unpromised says that the agent has not said that everything is done, where it has to. An agent is not told of that as
// of something to be done: it would write the promise instead of doing the work.
func unpromised(req boulder.JudgeRequest) []string {
	if !req.SubTask.DoneNeeds(boulder.DonePromise) || evidence(req).Promised {
		return nil
	}
	return []string{"the promise was not given that everything is done"}
}

// lookAgain is what an agent is told that has nothing to do by the rules, and does not say that it is done.
const lookAgain = "Look whether all that your brief asks for is done, and do what is not."

// undone lists the vetoes that work can lift.
func undone(req boulder.JudgeRequest) []string {
	t, e := req.SubTask, evidence(req)
	reasons := gateVetoes(t, e)
	if t.DoneNeeds(boulder.DoneTodos) {
		for _, todo := range e.OpenTodos() {
			reasons = append(reasons, "the todo list has an open item: "+todo.Content)
		}
	}
	if t.DoneNeeds(boulder.DoneDiagnostics) {
		if found := faults(e); len(found) > 0 {
			reasons = append(reasons, "the language server finds errors in changed files: "+several(found, "; "))
		}
	}
	if t.ExpectsChanges && e.Diff.Empty() {
		reasons = append(reasons, "changes to files are expected, and there are none")
	}
	return reasons
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
			reasons = append(reasons, fmt.Sprintf("the command `%s` must exit 0 (%s)", g.Command, gateEnd(*g.Run)))
		}
	}
	return reasons
}

// worse tells how a gate ended, now and before the sub-task began, and which tests fail only now.
func worse(t boulder.SubTask, g boulder.Gate) string {
	i := slices.IndexFunc(t.Baseline, func(b boulder.Gate) bool { return b.Command == g.Command })
	if i < 0 {
		return gateEnd(g)
	}
	before := t.Baseline[i]
	text := fmt.Sprintf("%s; before: %s", gateEnd(g), gateEnd(before))
	known := func(test string) bool { return slices.Contains(before.Failing, test) }
	if fresh := slices.DeleteFunc(slices.Clone(g.Failing), known); len(fresh) > 0 {
		text += "; newly failing: " + several(fresh, ", ")
	}
	return text
}

// faults are the errors that the language server found, warnings left out.
func faults(e *boulder.Evidence) []string {
	var all []string
	for _, d := range e.Diagnostics {
		if d.Severity != "warning" {
			all = append(all, fmt.Sprintf("%s:%d: %s", d.File, d.Line, d.Message))
		}
	}
	return all
}

// several joins the first few items and counts the others.
func several(items []string, separator string) string {
	if more := len(items) - maxTold; more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(items[:maxTold], separator), more)
	}
	return strings.Join(items, separator)
}

// truncated says why the turn's end is no end of its own, although it may look like one; empty if it is one, or if the
// manager ended the turn itself. Such a turn never completes a sub-task, with green gates neither: what it was about to
// do is not known.
func truncated(e *boulder.Evidence) string {
	switch end := e.Ended; {
	case end.Truncated != "":
		return end.Truncated
	case end.Finish == "length" && end.Stopped == "" && end.Error == "":
		return "it reached the output limit"
	}
	return ""
}

// evidence of a turn; nothing, if it has none.
func evidence(req boulder.JudgeRequest) *boulder.Evidence {
	if req.Turn.Evidence == nil {
		return &boulder.Evidence{}
	}
	return req.Turn.Evidence
}
