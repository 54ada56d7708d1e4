package taskledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/taskledger"
	"github.com/bouldermgr/manager/testkit/golden"
)

// asking is an answer to the first question about [longTask] that asks the user.
func asking(needsPlan bool, questions ...string) string {
	return fmt.Sprintf(`{"request":[],"facts":{"guesses":["no tests"]},"questions":[%s],"reason":"r","needs_plan":%t}`,
		strings.Join(questions, ","), needsPlan)
}

const (
	where = `{"question":"Where is the setting\nkept?","why":"a server needs an endpoint","default":"in the browser"}`
	whose = `{"question":"Whose is it?","why":"","default":"each user's"}`
)

// prepared returns what is known of [longTask].
func prepared(t *testing.T, said string) *boulder.Plan {
	t.Helper()
	got, _, err := planner(answers(said)).Prepare(t.Context(), boulder.PlanRequest{Task: longTask})
	if err != nil {
		t.Fatal(err)
	}
	return got.Known
}

// TestQuestions: at most three are asked, each with a default; the others are assumptions. What one agent does rests on all.
func TestQuestions(t *testing.T) {
	t.Parallel()
	p := prepared(t, asking(true, where, `{"question":" ","default":"x"}`, `{"question":"Which colour?"}`, whose, whose,
		`{"question":"When?","default":"`+strings.Repeat("now ", 200)+`"}`, `{"question":"Why?","default":"because"}`))
	if len(p.Facts.Questions) != 3 || len([]rune(p.Facts.Questions[2].Default)) > 301 {
		t.Fatalf("%+v", p.Facts.Questions)
	}
	want := boulder.Question{
		ID: "q1", Question: "Where is the setting kept?", Why: "a server needs an endpoint", Default: "in the browser",
		Answer: "in the browser", By: boulder.ByDefault,
	}
	if d := cmp.Diff(want, p.Facts.Questions[0]); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"no tests", "Not decided: Which colour?", "Why? because"}, p.Facts.Guesses); d != "" {
		t.Error(d)
	}
	if !slices.Equal(p.SubTasks[0].Questions, []string{"q1", "q2", "q3"}) {
		t.Errorf("the only sub-task rests on %q", p.SubTasks[0].Questions)
	}
}

// TestSplitRestsOnQuestions: the call that splits is told of questions and answers, and has to name what depends on each.
func TestSplitRestsOnQuestions(t *testing.T) {
	t.Parallel()
	known := prepared(t, asking(true, where, whose))
	known.Facts.Questions[1].Answer, known.Facts.Questions[1].By = "the\nowner's", boulder.ByUser
	first := strings.Replace(twoParts(""), `"id":"toggle"`, `"id":"toggle","questions":["Q1","q7"]`, 1)
	second := strings.Replace(twoParts(""), `"id":"toggle"`, `"id":"toggle","questions":["q1","q2"]`, 1)
	m := answers(first, second)
	p, usage := plan(t, m, boulder.PlanRequest{Task: longTask, Known: known})
	if usage.Calls != 2 || !slices.Equal(p.SubTasks[0].Questions, []string{"q1", "q2"}) || p.SubTasks[1].Questions != nil || len(p.Facts.Questions) != 2 {
		t.Errorf("used %+v, plan %+v", usage, p)
	}
	told := m.Asked[1].Messages[len(m.Asked[1].Messages)-1].Text
	for _, wrong := range []string{`sub-task "toggle" depends on the question "q7", which is not there`, "no sub-task names q2 (Whose is it?)"} {
		if !strings.Contains(told, wrong) {
			t.Errorf("the model is not told %q: %s", wrong, told)
		}
	}
	golden.Compare(t, "asked.golden", m.Asked[0].Messages[0].Text)
	if !strings.Contains(string(m.Asked[0].Schema), `"questions"`) {
		t.Errorf("no question can be named: %s", m.Asked[0].Schema)
	}

	p, _ = plan(t, answers(twoParts(""), twoParts(""), twoParts("")), boulder.PlanRequest{Task: longTask, Known: known})
	if len(p.SubTasks) != 2 || len(p.Facts.Questions) != 2 {
		t.Errorf("a question on which nothing depends stays: %+v", p)
	}

	golden.Forge(&known.Facts.Questions, golden.Forgery)
	m = answers(twoParts(""), twoParts(""), twoParts(""))
	plan(t, m, boulder.PlanRequest{Task: longTask, Known: known})
	golden.NoForgery(t, m.Asked[0].Messages[0].Text)
}

// TestAnsweredWhole: the user's answers are in the sealed plan of a task that is not split.
func TestAnsweredWhole(t *testing.T) {
	t.Parallel()
	known := prepared(t, asking(false, where))
	before := known.Seal.Hash
	answered, err := (&boulder.Prepared{Known: known}).Answer([]string{" on the server "})
	if err != nil {
		t.Fatal(err)
	}
	p, usage := plan(t, answers(), boulder.PlanRequest{Task: longTask, Known: answered.Known})
	q := p.Facts.Questions[0]
	if usage.Calls != 0 || p.Origin() != boulder.OriginDirect || p.Seal.Hash == before || q.Answer != "on the server" || q.By != boulder.ByUser {
		t.Errorf("used %+v, asked %+v, sealed %+v", usage, q, p.Seal)
	}
}

// TestReviseKeepsAnswers, and what does not change still rests on them.
func TestReviseKeepsAnswers(t *testing.T) {
	t.Parallel()
	was := agreed()
	was.Facts.Questions = []boulder.Question{
		{ID: "q1", Question: "Where?", Default: "here", Answer: "there", By: boulder.ByUser}, {ID: "q2", Question: "When?", Default: "now"},
	}
	was.SubTasks[1].Questions = []string{"q1"}
	was = taskledger.Seal(was, boulder.OriginModel, "p/m", was.Seal.CreatedAt)
	p, told, err := revise(t, was, "no page", `{"reason":"no page","sub_tasks":[{"id":"toggle"},{"id":"colours"}],"owners":[{"id":"r2","owner":"toggle","shown_by":"It is there"}]}`)
	if err != nil || len(told) > 0 {
		t.Fatal(err, told)
	}
	if d := cmp.Diff(was.Facts, p.Facts); d != "" || !slices.Equal(p.SubTasks[1].Questions, []string{"q1"}) {
		t.Errorf("%+v\n%s", p.SubTasks, d)
	}
}

// TestAnswersInAFile: an answer that differs from the default is the user's, also beside "by: default"; one that is the default is
// nobody's, unless the file says otherwise. An edit shows.
func TestAnswersInAFile(t *testing.T) {
	t.Parallel()
	sealed, _ := plan(t, answers(asking(false, where)), boulder.PlanRequest{Task: longTask})
	data, err := taskledger.Format(sealed)
	if err != nil {
		t.Fatal(err)
	}
	for old, c := range map[string]struct {
		now, answer string
		by          boulder.AnsweredBy
		edited      bool
	}{
		"":                       {"", "in the browser", boulder.ByDefault, false},
		"answer: in the browser": {"answer: on the server", "on the server", boulder.ByUser, true},
		"by: default":            {"by: user", "in the browser", boulder.ByUser, true},
		"      answer: in the browser\n      by: default\n": {"", "in the browser", boulder.ByDefault, false},
	} {
		p, err := taskledger.Parse("p", []byte(strings.Replace(string(data), old, c.now, 1)))
		if err != nil || old != "" && !strings.Contains(string(data), old) {
			t.Fatalf("%q: %v\n%s", old, err, data)
		}
		if q := p.Facts.Questions[0]; q.Answer != c.answer || q.By != c.by || p.Edited() != c.edited {
			t.Errorf("%q: %+v, edited %t", c.now, q, p.Edited())
		}
	}
}
