package progressledger

import (
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// A choice that the agent made and reported is no reason to send it back: the judge is told so. What it chose is the agent's
// word, and stands among what is no instruction.
func TestJudgeKnowsChoices(t *testing.T) {
	t.Parallel()
	req := boulder.JudgeRequest{
		SubTask: boulder.SubTask{ID: "a", Subject: "Name it", SuccessCriteria: []string{"It has a name"}, Blockers: []boulder.RaisedBlocker{
			{ID: "B1", Attempt: 1, Question: "What is it called?", Choice: "theme", Status: boulder.BlockerPending},
			{ID: "B2", Attempt: 1, Question: "Which file?", Choice: "answered.go", Status: boulder.BlockerAnswered, Answer: "other.go"},
			{ID: "B3", Attempt: 1, Question: "Which key?", Hard: true, Status: boulder.BlockerPending},
			{ID: "B4", Attempt: 1, Question: "May it run npm publish?", Status: boulder.BlockerPending}, // refused for a person
		}},
		Turn: boulder.Turn{Number: 1, Evidence: &boulder.Evidence{FinalMessage: "Named."}},
	}
	prompt := userPrompt(req, 30_000)
	outside, evidence, _ := strings.Cut(prompt, "<<<EVIDENCE")
	const rule = "No criterion is unmet because of such a choice"
	if !strings.Contains(outside, rule) || strings.Contains(outside, "It chose") {
		t.Errorf("outside of the marks:\n%s", outside)
	}
	if !strings.Contains(evidence, "- What is it called? It chose: theme\n") {
		t.Errorf("the choice is not among the evidence:\n%s", evidence)
	}
	for _, other := range []string{"answered.go", "Which key", "npm publish"} {
		if strings.Contains(prompt, other) {
			t.Errorf("%q is no open choice of the agent's", other)
		}
	}
	req.SubTask.Blockers = nil
	if prompt = userPrompt(req, 30_000); strings.Contains(prompt, "choice") || strings.Contains(prompt, "Choices") {
		t.Errorf("there were none:\n%s", prompt)
	}
}
