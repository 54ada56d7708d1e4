package taskledger_test

import (
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

var described = map[string]string{"a/large#high": "hard refactoring, slow", "a/small": "texts\nand small edits"}

// TestModelsAreChosen: of the models that the user describes, and of no others.
func TestModelsAreChosen(t *testing.T) {
	t.Parallel()
	with := func(one, two string) string {
		return subTasks(`{"id":"a","description":"x","model":"`+one+`"}`, `{"id":"b","description":"y","model":"`+two+`"}`)
	}
	m := planned(with("a/large", ""), with("a/large#high", "default"))
	p, _ := plan(t, m, boulder.PlanRequest{Task: longTask, Describe: described})
	if got := p.SubTasks; len(m.Asked) != 3 || got[0].Model != "a/large#high" || got[1].Model != "" {
		t.Errorf("%d calls: %+v", len(m.Asked), got)
	}
	told := m.Asked[2].Messages[len(m.Asked[2].Messages)-1].Text
	if want := `sub-task "a" has the model "a/large": copy one of a/large#high, a/small, or default`; !strings.Contains(told, want) {
		t.Error(told)
	}
	comparePrompt(t, "models.golden", m.Asked[1])
	m = planned(with("a/small", "a/other"))
	p, _ = plan(t, m, boulder.PlanRequest{Task: longTask})
	if got := p.SubTasks; got[0].Model+got[1].Model != "" || strings.Contains(string(m.Asked[1].Schema), `"model"`) {
		t.Errorf("%+v, asked with %s", got, m.Asked[1].Schema)
	}
}

// TestReplansChooseModels: for what is new. What replaces a sub-task has the models that the user may have given to it.
func TestReplansChooseModels(t *testing.T) {
	t.Parallel()
	req := replanRequest()
	req.Describe = described
	m := answers(strings.ReplaceAll(goodReplan, `"id":`, `"model":"a/small","id":`))
	got, _, err := replan(t, m, req)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range got.SubTasks {
		if old := got.Replaces[s.ID]; old == "" && s.Model != "a/small" || old == "toggle" && s.Model != "a/b" {
			t.Errorf("%s, which replaces %q, has the model %q", s.ID, old, s.Model)
		}
	}
	if asked := m.Asked[0]; !strings.Contains(asked.Messages[0].Text, "a/small: texts and small edits") || !strings.Contains(string(asked.Schema), `"enum":["default","a/large#high","a/small"]`) {
		t.Errorf("%s\n%s", asked.Messages[0].Text, asked.Schema)
	}
}
