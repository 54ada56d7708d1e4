package taskledger_test

import (
	"strings"
	"testing"

	"github.com/bouldermgr/manager/taskledger"
)

// TestRequestInAFile: rows need a text and an owner that exists; ids are filled in; what nobody does is known.
func TestRequestInAFile(t *testing.T) {
	t.Parallel()
	const tail = "sub_tasks:\n  - {id: agenda, description: List the meetings}\n"
	plan, err := taskledger.Parse("p", []byte(`task: Agenda and mail, no vendor changes, clean code
request:
  - {text: Agenda, owner: agenda, shown_by: whatever the user says}
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
		"{text: x, owner: agneda}":             `p:2:28: row "r1" of the request is owned by "agneda", which is not in the plan: name the sub-task that does it, or leave owner out: nobody does it then (did you mean "agenda"?)`,
		"{from: x}":                            `row "r1" of the request has no text`,
		"{text: x, id: a b}":                   `"a b" cannot be an id`,
		"{text: x, kind: must}":                "must be forbids or wish",
		"{text: x, status: met}":               `there is no key "status"`,
		"[{id: a, text: x}, {id: a, text: y}]": `the id "a" is taken by an earlier row`,
	} {
		if got := problemsOf(t, rows, []byte("task: t\nrequest: ["+strings.Trim(rows, "[]")+"]\n"+tail)); !strings.Contains(got, want) {
			t.Errorf("%s:\n%s", rows, got)
		}
	}
}
