package prompts

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/golden"
)

func TestKeepGoing(t *testing.T) {
	red := boulder.Gate{Command: "go test ./...", ExitCode: 1, Output: "--- FAIL: TestToggle\n"}
	for _, test := range []struct {
		name string
		u    Unfinished
	}{
		{"open items", Unfinished{Items: []string{"Write the tests", "Update the docs"}}},
		{"everything", Unfinished{
			Unmet: []string{"The toggle is saved (it is not)"}, Items: []string{"Write the tests"}, Gates: []boulder.Gate{red},
			Broken: "APIError: HTTP 503: overloaded", Idle: 3, Promise: true,
		}},
		{"compacted", Unfinished{Items: []string{"Write the tests"}, Compacted: true}},
		{"continuous", Unfinished{Continuous: true, Promise: true}},
	} {
		golden.Compare(t, "keepgoing_"+strings.ReplaceAll(test.name, " ", "_")+".golden", KeepGoing(test.u))
	}
}

// Cuts are visible, and the prompt is bounded whatever agents and commands write.
func TestKeepGoingIsBounded(t *testing.T) {
	long := strings.Repeat("all of it, and more: ä ", 1000)
	u := Unfinished{Broken: long, Idle: 9, Promise: true}
	for i := range 40 {
		u.Unmet = append(u.Unmet, fmt.Sprint(i, long))
		u.Items = append(u.Items, fmt.Sprint(i, long))
		u.Gates = append(u.Gates, boulder.Gate{Command: "make", ExitCode: 2, Output: long})
	}
	got := KeepGoing(u)
	if n := utf8.RuneCountInString(got); n > 30_000 || !utf8.ValidString(got) {
		t.Errorf("%d characters", n)
	}
	for _, cut := range []string{"[cut: 30 of 40 items]", "[cut: 30 of 40 commands", "…"} {
		if !strings.Contains(got, cut) {
			t.Errorf("there is no %q", cut)
		}
	}
	if !strings.HasPrefix(got, Mark) || !strings.HasSuffix(got, boulder.Promise+"\n") {
		t.Errorf("it begins with %.20q", got)
	}
}
