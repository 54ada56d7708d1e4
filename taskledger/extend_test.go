package taskledger_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/testkit/golden"
)

// extension asks for what is missing, after "store" and "docs" are done.
func extension() boulder.ReplanRequest {
	req := replanRequest()
	docs := req.Kept[0]
	docs.Status = boulder.SubTaskCompleted
	return boulder.ReplanRequest{
		Task: req.Task, Goal: req.Goal, Constraints: req.Constraints, NewFacts: req.NewFacts,
		Reason: "not all of the request is met", Missing: []string{"Tell the users", "The toggle is not saved:\nnothing shows it"},
		Done: append(req.Done, docs), Taken: []string{"store", "docs", "mail"},
	}
}

// An extension adds sub-tasks for what is missing. They build on what is done, and replace nothing.
func TestExtension(t *testing.T) {
	t.Parallel()
	m := answers(`{"reason":"forgotten","sub_tasks":[{"id":"mail","subject":"Tell the users","description":"Write the mail.","depends_on":["Store the theme"]}]}`)
	got, usage, err := replan(t, m, extension())
	if err != nil {
		t.Fatal(err)
	}
	want := boulder.Replacement{
		Model: "p/m", Replaces: map[string]string{},
		SubTasks: []boulder.Spec{{
			ID: "mail-2", Subject: "Tell the users", ActiveForm: "Tell the users", Description: "Write the mail.",
			SuccessCriteria: []string{"Tell the users"}, DependsOn: []string{"store"},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" || usage.Calls != 1 {
		t.Errorf("%s, usage %+v", diff, usage)
	}
	comparePrompt(t, "extend.golden", m.Asked[0])
	if strings.Contains(string(m.Asked[0].Schema), "replaces") {
		t.Error("it is asked what it replaces")
	}
}

func TestExtensionIsBounded(t *testing.T) {
	t.Parallel()
	const four = `{"sub_tasks":[{"id":"a","description":"A"},{"id":"b","description":"B"},{"id":"c","description":"C"},{"id":"d","description":"D"}]}`
	if _, _, err := replan(t, answers(four, four, four, four), extension()); !errors.Is(err, boulder.ErrNoNewPlan) {
		t.Errorf("four sub-tasks: %v", err)
	}
	req := extension()
	said := strings.Repeat(golden.Forgery+"\n", 2_000)
	req.Missing, req.Done[0].Output, req.Done[0].Summary = []string{said}, said, said
	m := answers(`{"sub_tasks":[{"id":"a","description":"A"}]}`)
	if _, _, err := replan(t, m, req); err != nil {
		t.Fatal(err)
	}
	golden.NoForgery(t, m.Asked[0].Messages[0].Text)
}
