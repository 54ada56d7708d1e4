package cli

import (
	"regexp"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// A sub-task that waits only because another boulder of the server has the slots says so.
func TestStatusBesideOtherBoulders(t *testing.T) {
	t.Parallel()
	const first, second, third = "01kfirst", "01ksecond", "01kthird"
	project := t.TempDir()
	for _, id := range []string{first, second, third} {
		s := newSampleOf(t, id)
		s.Plan()
		if id == first {
			s.Start(boulder.AttemptRef{SubTaskID: "theme", Attempt: 1})
		}
		s.storeIn(project)
	}
	limits := orchestrator.DefaultLimits()
	limits.Models = []orchestrator.ModelLimit{{Pattern: "test/small", Limit: 1}}
	holdAs(t, project, processAt{
		PID: 42, Command: "manager serve", Since: sampleStart, Serves: true, Running: []string{first, second},
		Limits: &limits,
	})
	const inLine = `"waiting":{"sub_task_id":"lang","model":"test/small","position":2,` +
		`"reason":"the one slot of test/small is taken"}`
	expect(t, project, exitOK, []string{"status", "--json", first}, inLine)
	for id, want := range map[string]string{
		first:  "#2 in line: the one slot of test/small is taken",
		second: "#3 in line: the slots are held by " + first,
		third:  "is next", // no process runs it
	} {
		stdout, _ := expect(t, project, exitOK, []string{"status", id})
		if !regexp.MustCompile(" lang .*" + want).MatchString(stdout) {
			t.Errorf("%s: want %q:\n%s", id, want, stdout)
		}
		if regexp.MustCompile(" icons .*in line").MatchString(stdout) {
			t.Errorf("%s: test/large has slots:\n%s", id, stdout)
		}
	}
}
