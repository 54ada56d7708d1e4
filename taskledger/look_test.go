package taskledger_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/testkit/golden"
)

// TestPrepare: when a look is wanted, and for what. The project has as many files as the test says.
func TestPrepare(t *testing.T) {
	t.Parallel()
	const nothing = `{"request":[],"facts":{},"reason":"r","needs_plan":true}`
	split, whole := fmt.Sprintf(askedFor, "true"), fmt.Sprintf(askedFor, "false")
	for name, test := range map[string]struct {
		answer string
		files  int
		mode   boulder.LookMode
		want   string // the beginning of the only question
		sealed bool
	}{
		"something to find":             {split, 21, "", "where the settings are", false},
		"the same, said":                {split, 21, boulder.LookAuto, "where the settings are", false},
		"in a small project":            {split, 20, "", "", false},
		"small, but always":             {split, 1, boulder.LookAlways, "where the settings are", false},
		"never":                         {split, 21, boulder.LookNever, "", false},
		"nothing to find":               {nothing, 21, "", "", false},
		"nothing to find, but always":   {nothing, 1, boulder.LookAlways, "What in the project bears on the task", false},
		"one agent does it":             {whole, 21, "", "", true},
		"one agent does it, but always": {whole, 1, boulder.LookAlways, "where the settings are", true},
	} {
		dir := t.TempDir()
		for i := range test.files {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("file", i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		req := boulder.PlanRequest{Task: longTask, Project: dir, Look: test.mode, Constraints: []string{"never touch vendor/"}}
		got, usage, err := planner(answers(test.answer)).Prepare(t.Context(), req)
		if err != nil || usage.Calls != 1 || (got.Known.Seal != nil) != test.sealed {
			t.Errorf("%s: %v, used %+v, known %+v", name, err, usage, got.Known)
		}
		if n := len(got.Find); n > 1 || (n == 1) != (test.want != "") || n == 1 && !strings.HasPrefix(got.Find[0], test.want) {
			t.Errorf("%s: %q", name, got.Find)
		}
	}
}

// TestPlanWithFindings: what a look found is in the plan, in the call that splits, as data, and with the sub-tasks that name
// it. The first call is not made again.
func TestPlanWithFindings(t *testing.T) {
	t.Parallel()
	req := boulder.PlanRequest{Task: longTask, Constraints: []string{"never touch vendor/"}}
	known := func(needs string) *boulder.Plan {
		p, _, err := planner(answers(fmt.Sprintf(askedFor, needs))).Prepare(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		p.Known.Facts.Found = []boulder.Finding{
			{ID: "f1", Statement: "The settings are one page", File: "web/settings.js", Line: 12, Sure: boulder.Certain},
			{ID: "f2", Statement: "They are old", Command: "git log -1", Sure: boulder.Likely},
		}
		return p.Known
	}
	req.Known = known("true")
	m := answers(strings.Replace(twoParts(`{"id":"r1","owner":"toggle","shown_by":"It is there"},{"id":"r2","owner":"docs","shown_by":"Document it"}`),
		`"id":"toggle"`, `"id":"toggle","found":["F1","f7"]`, 1))
	p, usage := plan(t, m, req)
	if usage.Calls != 1 || !slices.Equal(p.SubTasks[0].Found, []string{"f1"}) || p.SubTasks[1].Found != nil || len(p.Facts.Found) != 2 || len(p.Request) != 3 {
		t.Errorf("used %+v, plan %+v", usage, p)
	}
	golden.Compare(t, "look.golden", m.Asked[0].Messages[0].Text)
	if !strings.Contains(string(m.Asked[0].Schema), `"found"`) {
		t.Errorf("no one can be named: %s", m.Asked[0].Schema)
	}

	req.Known = known("false")
	p, usage = plan(t, answers(), req)
	if usage.Calls != 0 || p.Origin() != boulder.OriginDirect || !slices.Equal(p.SubTasks[0].Found, []string{"f1", "f2"}) {
		t.Errorf("left whole: used %+v, plan %+v", usage, p)
	}

	req.Known = known("true")
	golden.Forge(&req.Known.Facts.Found, golden.Forgery)
	m = answers(twoParts(""), twoParts(""), twoParts(""))
	plan(t, m, req)
	golden.NoForgery(t, m.Asked[0].Messages[0].Text)
}

// Before a replan the model may ask for a look, where the survey does not show enough; what it found is told when it is asked again.
func TestReplanAfterALook(t *testing.T) {
	t.Parallel()
	const wants = `{"reason":"it is not known","to_find":[" Where is the page? ",""],"sub_tasks":[]}`
	large := t.TempDir()
	for i := range 21 {
		if err := os.WriteFile(filepath.Join(large, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		mode    boulder.LookMode
		project string
		answers []any
		wants   []string // questions of the look
		calls   int64
	}{
		"asked for":          {boulder.LookAuto, large, []any{wants}, []string{"Where is the page?"}, 1},
		"by default":         {"", large, []any{wants}, []string{"Where is the page?"}, 1},
		"not asked for":      {boulder.LookAuto, large, []any{goodReplan}, nil, 1},
		"a small project":    {boulder.LookAuto, t.TempDir(), []any{wants, goodReplan}, nil, 2},
		"never, or it was":   {boulder.LookNever, large, []any{wants, goodReplan}, nil, 2},
		"the user wants one": {boulder.LookAlways, large, nil, []string{"What in the project keeps this part from being done as planned, and what else can it be built on, or has to be done first?"}, 0},
	} {
		req := replanRequest()
		req.Project, req.Look = test.project, test.mode
		m := answers(test.answers...)
		made, usage, err := planner(m).Replan(t.Context(), req)
		if err != nil || !slices.Equal(made.Questions, test.wants) || (made.SubTasks == nil) != (test.wants != nil) || usage.Calls != test.calls {
			t.Errorf("%s: %+v, used %+v, %v", name, made, usage, err)
		}
		if asked := len(m.Asked) > 0 && strings.Contains(string(m.Asked[0].Schema), "to_find"); asked != (test.calls == 1) {
			t.Errorf("%s: it may ask: %v", name, asked)
		}
	}
}

// A new sub-task may name what a look found.
func TestReplanNamesFindings(t *testing.T) {
	t.Parallel()
	req := replanRequest()
	req.Facts.Found = []boulder.Finding{{ID: "f1", Statement: "The page is here", File: "web/page.js"}}
	made, _, err := replan(t, answers(strings.Replace(goodReplan, `"id":"page"`, `"id":"page","found":["F1"]`, 1)), req)
	if err != nil || !slices.Equal(made.SubTasks[0].Found, []string{"f1"}) {
		t.Errorf("%+v, %v", made, err)
	}
}
