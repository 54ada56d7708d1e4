package progressledger

import (
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

// maxSummary is the length of a summary that is taken from the agent's own last message, in characters.
const maxSummary = 600

// withoutJudge is the verdict on a sub-task whose done_when does not name the judge. Without gates the turn must at
// least have come to an end of its own: a truncated one never completes by itself. Declared outputs cannot be told
// apart, so the last message is handed on whole.
func withoutJudge(req boulder.JudgeRequest) boulder.Verdict {
	e := evidence(req)
	missing := vetoes(req)
	if why := unfinished(e); why != "" && len(e.Gates) == 0 {
		missing = append(missing, why)
	}
	v := unaided(req, missing)
	v.IsProgress = v.Completed || !e.Diff.Empty()
	return v
}

// withoutAnswer is the verdict when the model's answers could not be used: only gates can then make a turn complete. It
// claims no progress; whoever counts stalls leaves it out, by JudgeUnavailable.
func withoutAnswer(req boulder.JudgeRequest) boulder.Verdict {
	missing := vetoes(req)
	if len(missing) == 0 && len(evidence(req).Gates) == 0 {
		missing = []string{"it could not be judged, and there are no gates that could show that it is complete"}
	}
	v := unaided(req, missing)
	v.IsProgress, v.JudgeUnavailable = v.Completed, true
	return v
}

func unaided(req boulder.JudgeRequest, missing []string) boulder.Verdict {
	e := evidence(req)
	if len(missing) > 0 {
		return boulder.Verdict{
			Summary: "Not completed: " + strings.Join(missing, "; ") + ".", BlockedBy: "none", Remaining: missing,
			ContinuationPrompt: continuation(Answer{}, false, missing, nil),
		}
	}
	message := strings.TrimSpace(e.FinalMessage)
	summary := limited(message, maxSummary)
	if n := len(e.Gates); n > 0 {
		summary = strings.TrimSpace(fmt.Sprintf("All %d gates passed. %s", n, summary))
	}
	if summary == "" {
		summary = "The turn came to its end."
	}
	return boulder.Verdict{
		Completed: true, Summary: summary, OutputData: limited(message, MaxOutput), BlockedBy: "none",
	}
}

// unfinished says why a turn's end is none of its own; empty if it is. OpenCode ends a turn that is done with "stop";
// length and unknown, and a turn without a text, are truncations (SEMANTICS 5).
func unfinished(e *boulder.Evidence) string {
	switch end := e.Ended; {
	case end.Stopped != "":
		return "the turn was stopped: " + end.Stopped
	case end.Error != "":
		return strings.TrimSuffix("the turn ended with "+end.Error+": "+end.Message, ": ")
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
