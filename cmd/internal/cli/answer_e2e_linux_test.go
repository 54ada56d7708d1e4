package cli

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// An agent that waits gets its answer, here from the page, exactly once: no extra turn or verdict repeats it.
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
			return acceptAll
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
	ui, endUI := openUI(t, w.dir, w.env)
	if shown := ui.page("/"); !strings.Contains(shown, "1 ask waits for an answer") || !strings.Contains(shown, `name="option" value="Blue"`) {
		t.Errorf("the page shows no question:\n%s", shown)
	}
	if shown := ui.send("/blockers/B1", url.Values{"do": {"answer"}, "option": {"Blue"}}); !strings.Contains(shown, "Answered B1: Blue.") {
		t.Errorf("the page does not take the answer:\n%s", shown)
	}
	p.wait(exitOK)
	if shown := ui.page("/"); !strings.Contains(shown, "Nothing waits for you.") {
		t.Errorf("after the run the page shows:\n%s", shown)
	}
	endUI()
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
