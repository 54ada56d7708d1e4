package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/orchestrator"
)

// All commands agree on what waits, what can still be changed, and what is obsolete.
func TestWaitingEverywhere(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	for _, step := range []struct {
		do   []string
		says map[string][]string // by command: what it says, or after a ! what it does not
	}{
		{nil, map[string][]string{
			"blockers":      {"2 hard blockers wait for an answer · 1 choice and 1 refused permission can still be changed · .manager/blockers.md", "B1", "B2"},
			"blockers list": {"B1", "W1", "can still be changed:\nB2", "B3", "!obsolete"},
			"status": {
				"1 hard blocker waits for an answer · 1 choice and 1 refused permission can still be changed:\n  manager blockers clarify\n",
				"Answer first, then continue with: manager resume " + shortID,
			},
			"status --json": {
				`"waiting_blockers":{"hard":1,"asks":0,"soft":2,"refused":1}`, `"blockers":[{"id":"B1","boulder_id":"` + sampleID + `","sub_task_id":"theme","attempt":1,`,
			},
			"show": {
				"  blocker: B1 (hard): Which key signs the theme?\n",
				"  blocker: B2 (soft): Variables or classes?; chosen for now: CSS variables\n",
			},
			"show --why theme": {"hard blocker B1 (security)", "answer with: manager blockers clarify; no process runs it"},
			"report":           {"answer what is waited for: 1 question", "look at 1 choice that agents made where they could not ask and 1 refused permission"},
		}},
		{[]string{"pause"}, map[string][]string{
			"wait":               {"Answer with: manager blockers clarify; then continue with: manager resume " + shortID},
			"wait --for blocked": {`Blocked: "theme"`},
		}},
		{[]string{"skip", "theme"}, map[string][]string{
			"blockers": {
				"1 hard blocker waits for an answer · 1 refused permission can still be changed · 2 obsolete", "!B1", "B3",
			},
			"blockers list":          {"W1", "!B1", "!B2", "B3"},
			"blockers list --all":    {"obsolete:\nB1"},
			"blockers list --json":   {`"standing":"awaited"`, `"standing":"choice"`, `!"standing":"moot"`},
			"blockers status --json": {`"pending":4,"hard":1,"asks":0,"soft":1,"refused":1,"moot":2,`},
			"blockers show B1":       {"Nothing waits for an answer"},
			"status":                 {"1 refused permission can still be changed: manager", "!wait for an answer", "!Answer first"},
			"report":                 {"!answer what is waited for", "the answer is not needed any more"},
		}},
		{[]string{"cancel"}, map[string][]string{
			"blockers":                {"1 hard blocker waits for an answer · 3 obsolete", "!B3"},
			"blockers list -b sample": {"No blocker is of that kind. 3 blockers are obsolete or settled; see: "},
			"status":                  {"!blocker", "!choice"},
			"report":                  {"manager blockers list --all -b " + shortID + ": look at 1 choice that agents made where they could not ask and 1 refused permission"},
		}},
	} {
		if step.do != nil {
			expect(t, project, exitOK, step.do)
		}
		for line, all := range step.says {
			expect(t, project, map[string]int{"wait": exitWaiting}[line], strings.Fields(line), all...)
		}
	}
}

// Whatever ends a run, its end says how to answer what its sub-tasks wait for.
func TestEndedNamesClarify(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	db := openState(t, project)
	for _, err := range []error{orchestrator.ErrWaiting, orchestrator.ErrStopped, errInterrupted, errors.New("no disk")} {
		want := "Answer with: manager blockers clarify; then continue with: manager resume " + shortID
		if got := (&ending{db: db, id: sampleID}).howToContinue(err); !strings.Contains(got.Error(), want) || !errors.Is(got, err) {
			t.Errorf("%v", got)
		}
	}
}

// If blockers.md cannot be written, the end of a run names the file and what to do.
func TestWarnOfUnwritten(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	a, _, stderr := testApp(t, project)
	warn := func() {
		db := openState(t, project)
		a.warnOfUnwritten(t.Context(), db)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if warn(); stderr.Len() > 0 {
		t.Errorf("it warns of nothing: %s", stderr)
	}
	list := filepath.Join(project, blockers.DefaultFile)
	if err := os.Remove(list); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(list, 0o755); err != nil {
		t.Fatal(err)
	}
	expect(t, project, exitOK, []string{"blockers", "skip", "B1"})
	warn()
	got := stderr.String()
	if !strings.Contains(got, "in .manager/blockers.md yet: "+list+" is not a regular file") || strings.Count(got, "\n") != 1 ||
		strings.Contains(got, blockers.FileName) {
		t.Errorf("%s", got)
	}
}
