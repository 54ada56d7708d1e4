package prompts

import (
	"strings"
	"testing"

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
