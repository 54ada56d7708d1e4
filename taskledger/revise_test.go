package taskledger_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/taskledger"
	"github.com/bouldermgr/manager/testkit/golden"
)

// agreed is a plan as the ledger wrote it: a toggle, its colours, and a page about them.
func agreed() *boulder.Plan {
	return taskledger.Seal(&boulder.Plan{
		Task: longTask, Goal: "Dark mode", Constraints: []string{"never touch vendor/"}, Reason: "three parts",
		Request: []boulder.Obligation{
			{ID: "r1", Text: "A toggle", Owner: "toggle", ShownBy: "It is there"}, {ID: "r2", Text: "Documentation", Owner: "docs", ShownBy: "A page"},
		},
		SubTasks: []boulder.Spec{
			{ID: "toggle", Subject: "Add the toggle", Description: "Add it.", SuccessCriteria: []string{"It is there"}, Gates: []string{"true"}, Model: "p/large"},
			{ID: "colours", Subject: "Define the colours", Description: "In style.css.", DependsOn: []string{"toggle"}},
			{ID: "docs", Subject: "Document it", Description: "Write a page.", SuccessCriteria: []string{"A page"}, DependsOn: []string{"colours"}},
		},
	}, boulder.OriginModel, "p/m", time.Unix(1e9, 0))
}

// edited is agreed after the user rewrote the colours, and removed nothing.
func edited() *boulder.Plan {
	p := agreed()
	p.SubTasks[1].Description = "In theme.css, in two shades."
	return p
}

func revise(t *testing.T, was *boulder.Plan, comment string, said ...any) (*boulder.Plan, []string, error) {
	t.Helper()
	m := answers(said...)
	p, usage, err := planner(m).Plan(t.Context(), boulder.PlanRequest{Task: was.Task, Was: was, Comment: comment})
	if usage.Calls != int64(len(m.Asked)) {
		t.Errorf("%d calls are counted, and %d were made", usage.Calls, len(m.Asked))
	}
	var told []string
	for _, asked := range m.Asked[min(1, len(m.Asked)):] {
		told = append(told, asked.Messages[len(asked.Messages)-1].Text)
	}
	return p, told, err
}

// TestRevise: what the answer does not describe stays word for word, with what only the user can write; the rest is as
// answered. The rows of the request stay, with owners that are there.
func TestRevise(t *testing.T) {
	t.Parallel()
	was := agreed()
	got, told, err := revise(t, was, "No page, a line in the README. And check the whole.",
		`{"goal":"Dark mode, told in the README","reason":"no page","constraints":["never touch vendor/","short lines"],"sub_tasks":[`+
			`{"id":"colours"},{"id":"toggle","description":"Add it, and say so in the README.","success_criteria":["It is there","README says it"]},`+
			`{"id":"verify","description":"Check it.","depends_on":["toggle",1],"gates":["make"]}],`+
			`"owners":[{"id":"r2","owner":"toggle","shown_by":"README says it"},{"id":"r1","owner":"verify","shown_by":"make"},{"id":"r9","owner":"verify"}]}`)
	if err != nil || len(told) > 0 {
		t.Fatal(err, told)
	}
	want := new(was.Clone())
	want.Goal, want.Reason, want.Constraints = "Dark mode, told in the README", "no page", []string{"never touch vendor/", "short lines"}
	toggle := want.SubTasks[0]
	toggle.Description, toggle.Subject, toggle.ActiveForm = "Add it, and say so in the README.", "Add it, and say so in the README.", "Add it, and say so in the README."
	toggle.SuccessCriteria, toggle.Gates = []string{"It is there", "README says it"}, nil
	want.SubTasks = []boulder.Spec{want.SubTasks[1], toggle, {
		ID: "verify", Subject: "Check it.", ActiveForm: "Check it.", Description: "Check it.", SuccessCriteria: []string{"Check it."},
		DependsOn: []string{"toggle", "colours"}, Gates: []string{"make"},
	}}
	want.Request[1].Owner, want.Request[1].ShownBy = "toggle", "README says it"
	want.Seal, got.Seal.CreatedAt = got.Seal, was.Seal.CreatedAt
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got.Edited() || len(got.ByHand()) > 0 || got.Seal.Hash == was.Seal.Hash {
		t.Errorf("the ledger's plan counts as edited: %+v, by hand %q", got.Seal, got.ByHand())
	}
}

// TestReviseKeepsTheUsersOwn: what the user wrote, changed or removed stays so, unless words of the comment ask for it. It is
// still known to be the user's afterwards.
func TestReviseKeepsTheUsersOwn(t *testing.T) {
	t.Parallel()
	const colours = `{"id":"colours","description":"In style.css again."}`
	without := agreed()
	without.SubTasks = without.SubTasks[:2]
	without.Request[1].Owner, without.Request[1].ShownBy = "", ""
	added := agreed()
	added.SubTasks = append(added.SubTasks, boulder.Spec{ID: "mine", Subject: "Mine", Description: "Mine.", ActiveForm: "Mine", SuccessCriteria: []string{"Mine"}})
	byHand := agreed()
	byHand.Seal = nil
	const page = `,"owners":[{"id":"r2","deferred":"","owner":"toggle","shown_by":"It is there"}]}`
	for name, c := range map[string]struct {
		was         *boulder.Plan
		said, told  string
		hand        string // after it
		description string // of the colours
	}{
		"kept":          {edited(), `{"sub_tasks":[{"id":"toggle"},{"id":"colours"},{"id":"docs"}]}`, "", "colours", "In theme.css, in two shades."},
		"changed":       {edited(), `{"sub_tasks":[{"id":"toggle"},` + colours + `,{"id":"docs"}]}`, `"colours" is a sub-task that the user wrote`, "", ""},
		"left out":      {edited(), `{"sub_tasks":[{"id":"toggle"},{"id":"docs","description":"Write it."}]}`, `"colours" is a sub-task that the user wrote`, "", ""},
		"other words":   {edited(), `{"sub_tasks":[{"id":"toggle"},` + colours + `,{"id":"docs"}],"allowed":[{"id":"colours","words":"as you like"}]}`, `"colours" is a sub-task`, "", ""},
		"asked for":     {edited(), `{"sub_tasks":[{"id":"toggle"},` + colours + `,{"id":"docs"}],"allowed":[{"id":"colours","words":"the Colours go back"}]}`, "", "", "In style.css again."},
		"brought back":  {without, `{"sub_tasks":[{"id":"toggle"},{"id":"colours"},{"id":"docs","description":"A page."}]` + page, `"docs" is a sub-task that the user removed`, "", ""},
		"stays away":    {without, `{"sub_tasks":[{"id":"toggle"},{"id":"colours"}]` + page, "", "docs", "In style.css."},
		"added":         {added, `{"sub_tasks":[{"id":"toggle"},{"id":"colours"},{"id":"docs"},{"id":"mine"}]}`, "", "mine", "In style.css."},
		"without seal":  {byHand, `{"sub_tasks":[{"id":"toggle"},` + colours + `,{"id":"docs"}]}`, `"colours" is a sub-task`, "", ""},
		"gone below it": {edited(), `{"sub_tasks":[{"id":"colours","description":"In theme.css, in two shades.","subject":"Define the colours","success_criteria":["Define the colours"]},{"id":"docs"}],"owners":[{"id":"r1","owner":"colours","shown_by":"Define the colours"}]}`, "", "colours", "In theme.css, in two shades."},
	} {
		p, told, err := revise(t, c.was, "The colours go back; the toggle may go.", c.said, "no", "no", "no")
		if c.told != "" {
			if !errors.Is(err, boulder.ErrNoNewPlan) || !strings.Contains(told[0], c.told) {
				t.Errorf("%s: %v, and the model was told %q", name, err, told)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v, %q", name, err, told)
			continue
		}
		at := slices.IndexFunc(p.SubTasks, func(s boulder.Spec) bool { return s.ID == "colours" })
		if p.SubTasks[at].Description != c.description || strings.Join(p.ByHand(), " ") != c.hand || p.Edited() != (c.hand != "") {
			t.Errorf("%s: %q, by hand %q, edited %v", name, p.SubTasks[at].Description, p.ByHand(), p.Edited())
		}
		data, err := taskledger.Format(p)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := taskledger.Parse("p", data); err != nil || strings.Join(back.ByHand(), " ") != c.hand {
			t.Errorf("%s: from its file: %v", name, err)
		}
	}
}

// TestReviseGoesBack: an answer that makes no valid plan, or leaves a row without an owner, goes back to the model; a row that
// stays without one is shown as such. Without an answer, and without a comment, there is no other plan.
func TestReviseGoesBack(t *testing.T) {
	t.Parallel()
	const all = `{"sub_tasks":[{"id":"toggle"},{"id":"colours"},{"id":"docs"}]}`
	for said, want := range map[string]string{
		`{"sub_tasks":[]}`:                "there are 0 sub_tasks; give 1 to 6",
		`{"sub_tasks":[{"id":"docs"}]}`:   `depends on "colours", which is not in the plan`,
		`{"sub_tasks":[{"id":"new"}]}`:    `sub-task "new" has no description`,
		`{"sub_tasks":[{"id":"toggle"}]}`: "nobody does r2 (Documentation)",
		strings.Replace(all, `"id":"docs"`, `"id":"docs","description":"A page","success_criteria":["b"]`, 1): "nobody does r2",
	} {
		_, told, err := revise(t, agreed(), "Less", said, all)
		if err != nil || len(told) != 1 || !strings.Contains(told[0], want) {
			t.Errorf("%s: %v, the model was told %q", said, err, told)
		}
	}
	const less = `{"sub_tasks":[{"id":"toggle"}]}`
	if p, told, err := revise(t, agreed(), "Less", less, less, less); err != nil || len(told) != 2 || len(p.Unowned()) != 1 {
		t.Errorf("%v, %d corrections, %+v", err, len(told), p)
	}
	if _, told, err := revise(t, agreed(), " "); err == nil || len(told) > 0 {
		t.Error("without a comment:", err)
	}
}

func TestReviseGolden(t *testing.T) {
	t.Parallel()
	was := edited()
	was.SubTasks = was.SubTasks[:2]
	was.SubTasks[0].Description = golden.Forgery
	m := answers(`{"sub_tasks":[{"id":"toggle"},{"id":"colours"}]}`)
	_, _, err := planner(m).Plan(t.Context(), boulder.PlanRequest{Task: longTask, Project: t.TempDir(), Was: was, Comment: "Leave out the docs."})
	if err != nil {
		t.Fatal(err)
	}
	comparePrompt(t, "revise.golden", m.Asked[0])
	golden.NoForgery(t, m.Asked[0].Messages[0].Text)
	req := replanRequest()
	req.Was = &boulder.Replacement{SubTasks: []boulder.Spec{{ID: "page", Subject: "Add the page", Description: golden.Forgery}}}
	req.Comment = "Smaller steps."
	m = answers(`{"sub_tasks":[{"id":"a","description":"A"}]}`)
	if _, _, err := replan(t, m, req); err != nil {
		t.Fatal(err)
	}
	text := m.Asked[0].Messages[0].Text
	golden.NoForgery(t, text)
	if !strings.Contains(text, "Your proposal, on which the user comments below\n\n### page: Add the page") ||
		!strings.HasSuffix(text, "heed\n\nSmaller steps.\n\nReplan what is replaced.") {
		t.Error(text)
	}
}
