package taskledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/taskledger"
)

// TestRequestInAFile: rows need a text, an owner that exists, and what shows it is the owner's; ids are filled in; what nobody does is known.
func TestRequestInAFile(t *testing.T) {
	t.Parallel()
	const tail = "sub_tasks:\n  - {id: agenda, description: List the meetings}\n"
	plan, err := taskledger.Parse("p", []byte(`task: Agenda and mail, no vendor changes, clean code
request:
  - {text: Agenda, owner: agenda, shown_by: List the meetings}
  - {id: post, text: Mail, from: and mail}
  - {text: no vendor changes, kind: forbids}
  - {text: clean code, kind: wish}
  - {text: Reminders, deferred: later}
`+tail))
	if err != nil {
		t.Fatal(err)
	}
	if rows := plan.Unowned(); len(rows) != 1 || rows[0].ID != "post" || plan.Request[0].ID != "r1" || plan.Request[4].ID != "r5" {
		t.Errorf("%+v", plan.Request)
	}
	for rows, want := range map[string]string{
		"{text: x, owner: agneda}":                              `p:2:28: row "r1" of the request is owned by "agneda", which is not in the plan: name the sub-task that does it, or leave owner out: nobody does it then (did you mean "agenda"?)`,
		"{text: x, owner: agenda, shown_by: list the meetings}": `p:2:46: row "r1" of the request is shown by "list the meetings", which is no success criterion or gate of sub-task "agenda": copy the one that shows it, or leave shown_by out`,
		"{text: x, shown_by: List the meetings}":                `p:2:31: row "r1" of the request has no owner to show it: name under owner`,
		"{from: x}":                                             `row "r1" of the request has no text`,
		"{text: x, id: a b}":                                    `"a b" cannot be an id`,
		"{text: x, kind: must}":                                 "must be forbids or wish",
		"{text: x, status: met}":                                `there is no key "status"`,
		"[{id: a, text: x}, {id: a, text: y}]":                  `the id "a" is taken by an earlier row`,
	} {
		if got := problemsOf(t, rows, []byte("task: t\nrequest: ["+strings.Trim(rows, "[]")+"]\n"+tail)); !strings.Contains(got, want) {
			t.Errorf("%s:\n%s", rows, got)
		}
	}
}

// askedFor is what the model finds in [longTask].
const askedFor = `{"request":[{"text":"A toggle in the settings","from":"Add a toggle to the settings","kind":"asks"},` +
	`{"text":"Documentation","from":"wire it up … document it.","kind":"asks"},` +
	`{"text":"Never touch vendor/","from":"never touch VENDOR/","kind":"forbids"}],` +
	`"facts":{"given":["a toggle"],"to_find":["where the settings are"],"to_derive":["its default"],"guesses":["no tests"]},` +
	`"reason":"two parts","needs_plan":%s}`

// twoParts splits [longTask], with owners.
func twoParts(owners string) string {
	return `{"goal":"g","reason":"two parts","sub_tasks":[{"id":"toggle","description":"Add it","success_criteria":["It is there"],` +
		`"gates":["true"]},{"id":"docs","description":"Document it","depends_on":["toggle"]}],"owners":[` + owners + `]}`
}

// TestRequestIsOwned: the rows are listed before the split, and each gets an owner, who shows it; else the model is told. What
// still nobody does stays in the plan, without an owner. The plan cannot change the rows.
func TestRequestIsOwned(t *testing.T) {
	t.Parallel()
	req := boulder.PlanRequest{Task: longTask, Constraints: []string{"Never touch vendor/"}}
	const toggle, docs = `{"id":"r1","owner":"toggle","shown_by":"it is  there"}`, `{"id":"R2","owner":"2","shown_by":"Document it"}`
	for name, c := range map[string]struct {
		owners, told string // of the first answer, and what the model is told of it
		again        bool   // it never answers better
		want         []string
	}{
		"all":          {toggle + "," + docs, "", false, []string{"toggle: It is there", "docs: Document it", ": "}},
		"gate":         {`{"id":"r1","owner":"toggle","shown_by":"true"},` + docs, "", false, []string{"toggle: true", "docs: Document it", ": "}},
		"dropped":      {toggle, "nobody does r2 (Documentation)", false, []string{"toggle: It is there", "docs: Document it", ": "}},
		"for ever":     {toggle, "nobody does r2", true, []string{"toggle: It is there", ": ", ": "}},
		"added":        {toggle + "," + docs + `,{"id":"r9","owner":"docs"}`, "", false, []string{"toggle: It is there", "docs: Document it", ": "}},
		"no such":      {toggle + `,{"id":"r2","owner":"manual"}`, `owners: r2: there is no sub-task "manual"`, true, []string{"toggle: It is there", ": ", ": "}},
		"not shown":    {toggle + `,{"id":"r2","owner":"docs","shown_by":"I say so"}`, `"I say so" is no success criterion or gate`, true, []string{"toggle: It is there", "docs: ", ": "}},
		"put off":      {toggle + `,{"id":"r2","deferred":"then wire it up"}`, "", false, []string{"toggle: It is there", "then wire it up", ": "}},
		"by the model": {toggle + `,{"id":"r2","deferred":"can be done later"}`, "which alone can put something off", true, []string{"toggle: It is there", ": ", ": "}},
		"also forbids": {toggle + "," + docs + `,{"id":"r3","owner":"docs","shown_by":""}`, "", false, []string{"toggle: It is there", "docs: Document it", "docs: "}},
	} {
		better := toggle + "," + docs
		if c.again {
			better = c.owners
		}
		m := answers(fmt.Sprintf(askedFor, "true"), twoParts(c.owners), twoParts(better), twoParts(better))
		p, _ := plan(t, m, req)
		var got []string
		for _, o := range p.Request {
			if o.Deferred != "" {
				got = append(got, o.Deferred)
				continue
			}
			got = append(got, o.Owner+": "+o.ShownBy)
		}
		if !slices.Equal(got, c.want) || p.Request[1].Text != "Documentation" || p.Origin() != boulder.OriginModel {
			t.Errorf("%s: %q", name, got)
		}
		calls := 2
		if c.told != "" {
			calls++
		}
		if c.again {
			calls++
		}
		if len(m.Asked) != calls {
			t.Errorf("%s: %d calls", name, len(m.Asked))
		}
		if last := m.Asked[min(2, len(m.Asked)-1)].Messages; c.told != "" && !strings.Contains(last[len(last)-1].Text, c.told) {
			t.Errorf("%s: the model was told %q", name, last[len(last)-1].Text)
		}
	}
}

// TestRequestIsOfTheTask: a row that nothing in the task asks for goes back.
func TestRequestIsOfTheTask(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		`{"request":[{"text":"Tests","from":"with tests"}]}`:                                                        `row 1: "with tests" is not in the task`,
		`{"request":[{"text":"Tests","from":""}]}`:                                                                  `row 1: "" is not in the task`,
		`{"request":[{"text":" ","from":"a toggle"}]}`:                                                              `row 1 has no text`,
		`{"request":[` + strings.Repeat(`{"text":"x","from":"a toggle"},`, 20) + `{"text":"x","from":"a toggle"}]}`: `give at most 20`,
	} {
		m := answers(said, `{"needs_plan":false,"reason":"small"}`)
		plan(t, m, boulder.PlanRequest{Task: longTask})
		if told := m.Asked[1].Messages; !strings.Contains(told[len(told)-1].Text, want) {
			t.Errorf("%s: the model was told %q", said, told[len(told)-1].Text)
		}
	}
}

// TestWholeTaskIsJudgedByItsRows: where no plan is needed, what the task demands are the criteria of the only sub-task.
func TestWholeTaskIsJudgedByItsRows(t *testing.T) {
	t.Parallel()
	p, usage := plan(t, answers(fmt.Sprintf(askedFor, "false")), boulder.PlanRequest{Task: longTask, Constraints: []string{"never touch vendor/"}})
	want := []string{"A toggle in the settings", "Documentation", "Never touch vendor/"}
	if !slices.Equal(p.SubTasks[0].SuccessCriteria, want) || p.Request[1].Owner != "1" || p.Reason != "two parts" || usage.Calls != 1 {
		t.Errorf("%+v", p)
	}
}
