package enforcer

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// docs/sessions.md has a row for every gate, in the order of the checks, and for every decision.
func TestPageNamesEveryGate(t *testing.T) {
	page, err := os.ReadFile("../docs/sessions.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllSubmatch(page, -1) {
		rows = append(rows, string(m[1]))
	}
	var want []string
	for _, g := range gates {
		want = append(want, string(g.name))
	}
	want = append(want, string(GateOpen))
	for _, k := range []Kind{Wait, Look, Check, Countdown, Send, Fresh, Finish, LetGo} {
		want = append(want, string(k))
	}
	if len(rows) < len(want) || !slices.Equal(rows[:len(want)], want) {
		t.Errorf("the page has rows for\n%q\nand there are\n%q", rows, want)
	}
}
