package schedule

import (
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// A gate that names a program that is not there is no fault of the agent's: no judge, no try, no replan, but a person.
func TestGateThatCannotRun(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		gate boulder.Gate
		want string
	}{
		"not there":                {boulder.Gate{Command: "nosuch -v", ExitCode: 127, NotFound: "nosuch"}, "park"},
		"not there before, either": {boulder.Gate{Command: "nosuch -v", ExitCode: 127, NotFound: "nosuch", NoWorse: "as before"}, "judge"},
		"a script of the project":  {boulder.Gate{Command: "./check", ExitCode: 127}, "judge"},
	} {
		o := &boulder.Open{
			SubTask: &boulder.SubTask{ID: "a"}, Attempt: &boulder.Attempt{Status: boulder.AttemptMonitoring},
			Turn: &boulder.Turn{Evidence: &boulder.Evidence{Gates: []boulder.Gate{test.gate}}},
		}
		a := computingFor(DefaultLimits()).next(o)
		if got := kindOf(a); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		if p, ok := a.(Park); ok && !strings.Contains(p.Reason, "the gate `nosuch -v` cannot run: nosuch is not found") {
			t.Errorf("%s: %s", name, p.Reason)
		}
	}
}
