package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/project/report"
)

func TestReport(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.Play()
	s.Apply(boulder.BlockerRaised{ // a choice of an agent that could not ask
		AttemptRef: boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}, Blocker: boulder.Blocker{
			ID: "B1", Question: "Which \x1b[31mgreen?\n# Not a heading", ChosenOption: "#00ff00", Status: boulder.BlockerPending,
		},
	})
	project := s.store()
	checkLooks(t, project, map[string][]string{
		"report.txt": {"report"}, "report.md": {"report", "01k3", "--format", "markdown"},
	})
	// The goldens of package report have the JSON form; here made_at differs in each run.
	for _, args := range [][]string{{"report", "--json"}, {"report", "--format", "json"}} {
		stdout, _ := expect(t, project, exitOK, args, `{"type":"report"`)
		var made report.Report
		if err := json.Unmarshal([]byte(stdout), &made); err != nil || strings.Count(stdout, "\n") != 1 || made.Running ||
			made.BoulderID != sampleID || made.MadeAt.IsZero() ||
			len(made.SubTasks) != 6 || len(made.Blockers) != 1 || len(made.Next) == 0 {
			t.Errorf("%v: %s", err, stdout)
		}
	}
}
