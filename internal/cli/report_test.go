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
	stdout, _, code := command(project, "report", "--json")
	var made morning.Report
	if err := json.Unmarshal([]byte(stdout), &made); err != nil || code != exitOK || strings.Count(stdout, "\n") != 1 {
		t.Fatalf("%v, exit code %d: %s", err, code, stdout)
	}
	if made.Type != "report" || made.BoulderID != sampleID || made.Running || made.MadeAt.IsZero() ||
		len(made.SubTasks) != 6 || len(made.Blockers) != 1 || len(made.Next) == 0 {
		t.Errorf("%+v", made)
	}
	if again, _, _ := command(project, "report", "--format", "json"); !strings.HasPrefix(again, `{"type":"report"`) {
		t.Errorf("--format json is not --json: %s", again)
	}
}

// While a process runs the boulder the report is the same, but that it is at work, and what to do about that.
func TestReportWhileItRuns(t *testing.T) {
	t.Parallel()
	project := reportSample(t)
	hold(t, project, false)
	stdout, stderr, code := command(project, "report")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	for _, want := range []string{"Boulder " + sampleID + ": running, at work", "manager status " + sampleID, "B1"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in:\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "manager resume") {
		t.Errorf("it says to resume what runs:\n%s", stdout)
	}
}

func TestReportIntoAFile(t *testing.T) {
	t.Parallel()
	project := reportSample(t)
	for name, begins := range map[string]string{
		"r.md": "# Boulder ", "r.json": `{"type":"report"`, "r.txt": "Boulder ", "r": "Boulder ",
	} {
		stdout, stderr, code := command(project, "report", "-o", name)
		got, err := os.ReadFile(filepath.Join(project, name))
		if err != nil || code != exitOK || stdout != "" || !strings.Contains(stderr, "Wrote ") {
			t.Errorf("%s: %v, exit code %d, stdout %q, stderr %q", name, err, code, stdout, stderr)
		}
		if !strings.HasPrefix(string(got), begins) {
			t.Errorf("%s begins with %.40q", name, got)
		}
	}
}

func TestReportRefuses(t *testing.T) {
	t.Parallel()
	checkRefusals(t, reportSample(t), []refusedLine{
		{[]string{"report", "nosuch"}, `no such boulder: "nosuch"`},
		{[]string{"report", "a", "b"}, "takes one BOULDER, not 2"},
		{[]string{"report", "--format", "html"}, `there is no format "html": it is text, markdown or json`},
		{[]string{"report", "--json", "--format", "text"}, "--json and --format contradict each other"},
	})
	checkRefusals(t, t.TempDir(), []refusedLine{{[]string{"report"}, "nothing has been run here yet"}})
}
