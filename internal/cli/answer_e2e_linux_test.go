package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/internal/scriptmodel"
)

// An agent that waits for an answer and gets it is not told again: neither by another turn nor with another judgement.
func TestAnswerToAWaitingAgent(t *testing.T) {
	t.Parallel()
	question := scriptmodel.ToolCall{Name: "question", Args: map[string]any{"questions": []any{map[string]any{
		"question": "Which colour shall it be?", "header": "Colour", "options": []any{
			map[string]any{"label": "Red", "description": "red"}, map[string]any{"label": "Blue", "description": "blue"},
		},
	}}}}
	w := directWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		switch {
		case req.Kind() == scriptmodel.KindStructured:
			return content
		case req.AssistantTurns() == 0:
			return scriptmodel.Reply{ToolCalls: []scriptmodel.ToolCall{question}}
		}
		return scriptmodel.Reply{Text: "All of it is done now."}
	}, map[string]string{
		"plan.yaml":            "task: Paint it\nmodel: scripted/agent\nsub_tasks: [{id: one, description: Paint it}]\n",
		".manager/config.yaml": "blockers: {questions: ask, wait: 10m}\n",
	})
	p := startManager(t, w.dir, w.env, "run", "plan.yaml", "--blockers", "--json", w.attached())
	p.until("blocker")
	expect(t, w.dir, exitOK, []string{"blockers", "answer", "B1", "2"}, "Answered B1: Blue.")
	p.wait(exitOK)
	judged, heard := 0, false
	for _, r := range w.model.Requests() {
		heard = heard || toolSaid(r, `="Blue"`)
		if r.Kind() == scriptmodel.KindStructured && strings.Contains(r.Text(), "# Sub-task: one") {
			judged++
		}
		if strings.Contains(r.LastUser(), "About B1") && r.Kind() != scriptmodel.KindStructured {
			t.Errorf("the agent is told again:\n%s", r.LastUser())
		}
	}
	if judged != 1 || !heard {
		t.Errorf("judged %d times; heard %v", judged, heard)
	}
}
