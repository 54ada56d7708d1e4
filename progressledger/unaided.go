package progressledger

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// maxQuote is the length of a summary that is taken from the agent's own last message, in characters.
const maxQuote = 600

// withoutJudge is the verdict on a sub-task whose done_when does not name the judge. Without a green gate the turn must
// at least have come to an end of its own. Declared outputs cannot be told apart, so the last message is handed on
// whole.
func withoutJudge(req boulder.JudgeRequest) boulder.Verdict {
	e := evidence(req)
	missing := undone(req)
	if why := unfinished(e); why != "" && !shown(req) && truncated(e) == "" {
		missing = append(missing, why)
	}
	v := unaided(req, missing)
	v.IsProgress = v.Completed || !e.Diff.Empty()
	return v
}

// byRules is the verdict where a rule forbids completion whatever a model would say; forbidden is false if none does.
func byRules(req boulder.JudgeRequest) (v boulder.Verdict, forbidden bool) {
	if len(vetoes(req)) == 0 && truncated(evidence(req)) == "" {
		return boulder.Verdict{}, false
	}
	v = unaided(req, undone(req))
	v.IsProgress = !evidence(req).Diff.Empty()
	return v, true
}

// withoutAnswer is the verdict when the model's answers could not be used: only gates can then make a turn complete. It
// claims no progress; whoever counts stalls leaves it out, by JudgeUnavailable. ok is false if nothing forbids
// completion and no gate shows it: then nothing can be said.
func withoutAnswer(req boulder.JudgeRequest) (v boulder.Verdict, ok bool) {
	if e := evidence(req); len(vetoes(req)) == 0 && truncated(e) == "" && !shown(req) {
		return boulder.Verdict{}, false
	}
	v = unaided(req, undone(req))
	v.IsProgress, v.JudgeUnavailable = v.Completed, true
	return v, true
}

// shown reports whether a gate shows that the work is done: one that has to be green and is, or that was red before and
// is not any more. One that is merely as it was, red or green, shows nothing.
func shown(req boulder.JudgeRequest) bool {
	return slices.ContainsFunc(evidence(req).Gates, func(g boulder.Gate) bool {
		wasRed := func(b boulder.Gate) bool { return b.Command == g.Command && !b.Green() }
		return g.Green() &&
			(!req.SubTask.MayStayRed(g.Command) || slices.ContainsFunc(req.SubTask.Baseline, wasRed))
	})
}

// unaided is a verdict without a model. missing is what work can still do about it.
func unaided(req boulder.JudgeRequest, missing []string) boulder.Verdict {
	e := evidence(req)
	cutOff := truncated(e)
	if all := slices.Concat(missing, unpromised(req), rest(cutOff)); len(all) > 0 {
		prompt := ""
		switch {
		case len(missing) > 0:
			prompt = continuation(Answer{}, false, missing, nil)
		case cutOff == "":
			prompt = lookAgain
		}
		return boulder.Verdict{
			Summary:   text.Excerpt("Not completed: "+strings.Join(all, "; ")+".", maxSummary, text.Start),
			BlockedBy: "none", Remaining: slices.Concat(missing, rest(cutOff)),
			ContinuationPrompt: text.Excerpt(goOn(cutOff, prompt), maxPrompt, text.Start),
		}
	}
	message := strings.TrimSpace(e.FinalMessage)
	summary := text.Excerpt(message, maxQuote, text.Start)
	if len(e.Gates) > 0 {
		summary = strings.TrimSpace(passed(e.Gates) + " " + summary)
	}
	if summary == "" {
		summary = "The turn came to its end."
	}
	return boulder.Verdict{
		Completed: true, Summary: summary, OutputData: text.Excerpt(message, MaxOutput, text.Start), BlockedBy: "none",
	}
}

func passed(gates []boulder.Gate) string {
	asBefore := 0
	for _, g := range gates {
		if !g.Green() {
			asBefore++
		}
	}
	all := text.Plural(len(gates), "gate")
	switch {
	case asBefore == 0 && len(gates) == 1:
		return "The gate passed."
	case asBefore == 0:
		return fmt.Sprintf("All %s passed.", all)
	case len(gates) == 1:
		return "The gate did not pass, and is no worse than before."
	case asBefore == 1:
		return fmt.Sprintf("%d of %s passed, and the other is no worse than before.", len(gates)-1, all)
	}
	return fmt.Sprintf("%d of %s passed, and the others are no worse than before.", len(gates)-asBefore, all)
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
