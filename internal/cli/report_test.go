package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	morning "github.com/bouldermgr/manager/internal/report"
)

// reportSample is the sample with a choice that an agent made where it could not ask. It returns the project.
func reportSample(t *testing.T) string {
	t.Helper()
	s := newSample(t)
	s.Play()
	s.Apply(boulder.BlockerRaised{
		AttemptRef: boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}, Blocker: boulder.Blocker{
			ID: "B1", Question: "Which \x1b[31mgreen?\n# Not a heading", ChosenOption: "#00ff00", Status: boulder.BlockerPending,
		},
	})
	return s.store()
}

func TestReport(t *testing.T) {
	t.Parallel()
	project := reportSample(t)
	checkLooks(t, project, map[string][]string{
		"report.txt": {"report"}, "report.md": {"report", "01k3", "--format", "markdown"},
	})
	// The goldens of package report have the JSON form; here it has the time at which it was made.
	for _, args := range [][]string{{"report", "--json"}, {"report", "--format", "json"}} {
		stdout, _ := expect(t, project, exitOK, args, `{"type":"report"`)
		var made morning.Report
		if err := json.Unmarshal([]byte(stdout), &made); err != nil || strings.Count(stdout, "\n") != 1 || made.Running ||
			made.BoulderID != sampleID || made.MadeAt.IsZero() ||
			len(made.SubTasks) != 6 || len(made.Blockers) != 1 || len(made.Next) == 0 {
			t.Errorf("%v: %s", err, stdout)
		}
	}
}

func TestReportIntoAFile(t *testing.T) {
	t.Parallel()
	project := reportSample(t)
	for name, begins := range map[string]string{
		"r.md": "# Boulder ", "r.json": `{"type":"report"`, "r.txt": "Boulder ", "r": "Boulder ",
	} {
		stdout, _ := expect(t, project, exitOK, []string{"report", "-o", name}, "Wrote ")
		got, err := os.ReadFile(filepath.Join(project, name))
		if err != nil || stdout != "" || !strings.HasPrefix(string(got), begins) {
			t.Errorf("%s begins with %.40q, %v; stdout %q", name, got, err, stdout)
		}
	}
}
