package schedule

import (
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// A gate whose program is missing goes to the user, without a judge, a used-up attempt or a replan.
func TestGateThatCannotRun(t *testing.T) {
	t.Parallel()
	noScript := boulder.Gate{Command: "npm run nosuch", ExitCode: 1, NotFound: "nosuch", NotIn: "package.json"}
	for name, test := range map[string]struct {
		gate boulder.Gate
		want string
		told bool
		file string // changed by the sub-task
	}{
		"not there":                   {boulder.Gate{Command: "nosuch -v", ExitCode: 127, NotFound: "nosuch"}, "park", false, ""},
		"not there before, either":    {boulder.Gate{Command: "nosuch -v", ExitCode: 127, NotFound: "nosuch", NoWorse: "as before"}, "judge", false, ""},
		"a script of the project":     {boulder.Gate{Command: "./check", ExitCode: 127}, "judge", false, ""},
		"a missing script, told once": {noScript, "park", true, "src/a.js"},
		"a missing script, not told":  {noScript, "judge", false, ""},
		"a script that is being made": {noScript, "judge", true, "web/package.json"},
	} {
		o := &boulder.Open{
			SubTask: &boulder.SubTask{ID: "a"}, Attempt: &boulder.Attempt{Status: boulder.AttemptMonitoring},
			Turn: &boulder.Turn{Evidence: &boulder.Evidence{Gates: []boulder.Gate{test.gate}}},
		}
		if test.told {
			o.Turn.Kind = boulder.TurnContinuation
		}
		if test.file != "" {
			o.SubTask.Files = []string{test.file}
		}
		a := computingFor(DefaultLimits()).next(o)
		if got := kindOf(a); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		if p, ok := bodyOf(a).(boulder.Parked); ok && !strings.Contains(p.Reason, "` cannot run: nosuch is not ") {
			t.Errorf("%s: %s", name, p.Reason)
		}
	}
}
