package scriptmodel_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

func parse(t *testing.T, script string) *scriptmodel.Script {
	t.Helper()
	s, err := scriptmodel.ParseScript([]byte(script))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// conversation is an agent's request with user messages; "<" stands for an assistant message.
func conversation(messages ...string) scriptmodel.Request {
	r := scriptmodel.Request{Model: "agent", SessionID: "ses_1", Tools: []string{"write"}}
	for _, text := range messages {
		role := "user"
		if text == "<" {
			role = "assistant"
		}
		r.Messages = append(r.Messages, scriptmodel.Message{Role: role, Text: text})
	}
	return r
}

func reply(t *testing.T, s *scriptmodel.Script, req scriptmodel.Request) string {
	t.Helper()
	r := s.Reply(t.Context(), req)
	if r.Status != 0 {
		return fmt.Sprint(r.Status)
	}
	return r.Text
}

func TestAgentStepsAreCountedFromTheConversation(t *testing.T) {
	t.Parallel()
	s := parse(t, `
rules:
  - when: {last_user: [go, on]}
    replies: [{text: more}, {text: even more}]
  - when: {first_user: looping}
    repeat: true
    replies: [{text: start}, {text: again}]
  - when: {first_user: task}
    replies: [{text: one}, {text: two}]
`)
	const nothing = "There is nothing more to do."
	for _, test := range []struct {
		messages []string
		want     string
	}{
		{[]string{"task"}, "one"},
		{[]string{"task"}, "one"}, // the script keeps no count
		{[]string{"task", "<"}, "two"},
		{[]string{"task", "<", "<"}, nothing},
		{[]string{"task", "<", "<", "go on"}, "more"},
		{[]string{"task", "<", "<", "go on", "<"}, "even more"},
		{[]string{"task", "<", "go"}, "two"}, // a list of texts needs all of them
		{[]string{"looping"}, "start"},
		{[]string{"looping", "<", "<", "<"}, "again"},
	} {
		if got := reply(t, s, conversation(test.messages...)); got != test.want {
			t.Errorf("%q: %q, want %q", test.messages, got, test.want)
		}
	}
}

func TestFaultsAreGivenTheirTimesInEachSession(t *testing.T) {
	t.Parallel()
	s := parse(t, `
rules:
  - when: {kind: agent}
    replies: [{status: 429, times: 2}, {text: one}, {status: 503}, {text: two}, {status: 500}]
`)
	first, second := conversation("task"), conversation("task", "<")
	other := conversation("task")
	other.SessionID = "ses_2"
	done := conversation("task", "<", "<")
	for i, step := range []struct {
		req  scriptmodel.Request
		want string
	}{
		{first, "429"}, {first, "429"}, {first, "one"}, {other, "429"}, {second, "503"}, {second, "two"}, {second, "two"},
		{done, "500"}, {done, "There is nothing more to do."},
	} {
		if got := reply(t, s, step.req); got != step.want {
			t.Errorf("request %d: %q, want %q", i, got, step.want)
		}
	}
}

func TestStructuredAnswersAreCountedPerRule(t *testing.T) {
	t.Parallel()
	s := parse(t, `
rules:
  - when: {kind: structured, model: ledger, any: judge a}
    replies: [{text: a1}, {status: 500}, {text: a2}]
  - when: {kind: structured}
    replies: [{text: b1}]
`)
	a := conversation("judge a")
	a.Model = "ledger"
	// The mark of a structured request is unexported: make one as a client does.
	a, b := structured(t, a), structured(t, conversation("judge a"))
	for i, step := range []struct {
		req  scriptmodel.Request
		want string
	}{
		{a, "a1"}, {b, "b1"}, {a, "500"}, {a, "a2"}, {b, "b1"}, {a, "a2"},
	} {
		if got := reply(t, s, step.req); got != step.want {
			t.Errorf("request %d: %q, want %q", i, got, step.want)
		}
	}
}

func TestTitleAndUnmatchedRequests(t *testing.T) {
	t.Parallel()
	s := parse(t, `
rules:
  - when: {system: special}
    replies: [{text: matched}]
`)
	title := scriptmodel.Request{System: "You are a title generator. special", Messages: conversation("x").Messages}
	if got := reply(t, s, title); got != "Scripted session" {
		t.Errorf("title request: %q", got)
	}
	long := strings.Repeat("ü", 500)
	got := s.Reply(t.Context(), conversation(long))
	if got.Status != http.StatusBadRequest {
		t.Fatalf("unmatched request: %+v", got)
	}
	for _, want := range []string{"no rule of the script matches", "kind agent", strings.Repeat("ü", 200) + "…"} {
		if !strings.Contains(got.Body, want) {
			t.Errorf("%q is not in %s", want, got.Body)
		}
	}
	if strings.Contains(got.Body, strings.Repeat("ü", 201)) {
		t.Error("more than 200 characters are shown")
	}

	named := parse(t, `{rules: [{when: {kind: title}, replies: [{text: A name}]}]}`)
	if got := reply(t, named, title); got != "A name" {
		t.Errorf("title request with a rule: %q", got)
	}
}

func TestBrokenScriptsAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ script, want string }{
		"empty":         {``, "no documents"},
		"no rules":      {`rules: []`, "no rules"},
		"unknown key":   {"rules:\n  - wen: {}\n", "line 2: field wen not found"},
		"unknown kind":  {`rules: [{name: x, when: {kind: agents}, replies: [{text: a}]}]`, `rule 1 "x": kind "agents"`},
		"no replies":    {`rules: [{when: {}}]`, "no replies"},
		"idle times":    {`rules: [{replies: [{text: a, times: 2}]}]`, "faults"},
		"minus times":   {`rules: [{replies: [{cut: true, times: -1}]}]`, "negative"},
		"status 200":    {`rules: [{replies: [{text: a}, {status: 200}]}]`, "reply 2: status 200"},
		"nameless tool": {`rules: [{replies: [{tool_calls: [{args: {}}]}]}]`, "no name"},
		"not a text":    {`rules: [{when: {any: {a: b}}, replies: [{text: a}]}]`, "cannot construct !!map"},
	} {
		_, err := scriptmodel.ParseScript([]byte(test.script))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v does not contain %q", name, err, test.want)
		}
	}
}
