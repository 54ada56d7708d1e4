package blockers

import (
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// Patterns mean the same as in OpenCode's configuration (packages/opencode/src/util/wildcard.ts, 1.18.33).
func TestWildcards(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true}, {"*", "a\nb", true}, {"bash", "bash", true}, {"bash", "Bash", false}, {"bash", "bashful", false},
		{"git push *", "git push", true}, {"git push *", "git push origin main", true}, {"git push *", "git pushd", false},
		{"git push*", "git pushd", true}, {"* *", "ls", true}, {"ls ?", "ls a", true}, {"ls ?", "ls", false},
		{"ls ?", "ls ab", false}, {"*.env", "a/b/.env", true}, {"*.env", "a/xenv", false}, {"a+(b)", "a+(b)", true},
		{`C:\src\*`, "C:/src/a", true}, {"/etc/*", `\etc\passwd`, true}, {"[a]", "a", false}, {"a|b", "a", false},
		{"^a$", "a", false}, {"", "", true}, {"", "a", false},
	} {
		if got := fits(c.pattern, c.text); got != c.want {
			t.Errorf("%q, %q: %v", c.pattern, c.text, got)
		}
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	rules := Policy{Wait: time.Minute, Questions: AskMe, Permissions: []Rule{
		{Permission: "bash", Pattern: "git *", Action: Allow},
		{Permission: "bash", Pattern: "git push *", Action: AskMe},
		{Permission: "bash", Pattern: "git push --force*", Action: Deny},
		{Permission: "web*", Action: AskMe, Wait: 10 * time.Second},
		{Permission: "read", Action: Allow},
	}}
	for name, c := range map[string]struct {
		policy     Policy
		permission string
		patterns   []string
		action     Action
		wait       time.Duration
	}{
		"nothing said":                  {Policy{}, "bash", []string{"ls"}, Deny, 0},
		"nothing said of a loop":        {Policy{}, "doom_loop", []string{"bash"}, Allow, 0},
		"none fits":                     {rules, "edit", []string{"a.go"}, Deny, 0},
		"one fits":                      {rules, "bash", []string{"git status"}, Allow, 0},
		"the last decides":              {rules, "bash", []string{"git push origin"}, AskMe, time.Minute},
		"the very last":                 {rules, "bash", []string{"git push --force"}, Deny, 0},
		"the strictest of several":      {rules, "bash", []string{"git add", "git push --force", "git push"}, Deny, 0},
		"ask before allow":              {rules, "bash", []string{"git push", "git add"}, AskMe, time.Minute},
		"one of several without a rule": {rules, "bash", []string{"git add", "rm -r x"}, Deny, 0},
		"a wait of its own":             {rules, "webfetch", []string{"https://example.org"}, AskMe, 10 * time.Second},
		"no pattern, a rule for all":    {rules, "read", nil, Allow, 0},
		"no pattern, rules for some":    {rules, "bash", nil, Deny, 0},
		"a loop, with a rule for everything": {
			Policy{Permissions: []Rule{{Permission: "*", Action: Deny}}}, "doom_loop", []string{"bash"}, Allow, 0,
		},
		"a loop that is named": {
			Policy{Permissions: []Rule{{Permission: "doom_loop", Action: Deny}, {Permission: "*", Action: Allow}}},
			"doom_loop", []string{"bash"}, Deny, 0,
		},
		"a wait that nobody gave": {
			Policy{Permissions: []Rule{{Permission: "*", Action: AskMe}}}, "bash", []string{"ls"}, AskMe, DefaultWait,
		},
	} {
		ask := boulder.Ask{Kind: boulder.AskPermission, Permission: c.permission, Patterns: c.patterns}
		if action, wait := c.policy.decide(&ask); action != c.action || wait != c.wait {
			t.Errorf("%s: %s for %s", name, action, wait)
		}
	}
	for want, p := range map[Action]Policy{Deny: {}, AskMe: rules} {
		if got, _ := p.decide(&boulder.Ask{Kind: boulder.AskQuestion}); got != want {
			t.Errorf("a question: %s", got)
		}
	}
}

func TestValidatePolicy(t *testing.T) {
	t.Parallel()
	err := Policy{Questions: Allow, Wait: -1, Permissions: []Rule{
		{Permission: "bash", Action: "alow"}, {Action: Deny}, {Permission: "a", Action: Deny, Wait: 1},
		{Permission: "a", Action: AskMe, Wait: -1},
	}}.Validate()
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	want := strings.Join([]string{
		`questions: "allow" is none of deny, ask (a question cannot be allowed)`, "wait: -1ns is below zero",
		`permissions[0]: action "alow" is none of allow, deny, ask`, "permissions[1]: it names no permission (* for all)",
		"permissions[2]: only an ask waits", "permissions[3]: wait: -1ns is below zero",
	}, "\n")
	if err.Error() != want {
		t.Errorf("%v", err)
	}
	if err := (Policy{}).Validate(); err != nil {
		t.Error(err)
	}
}
