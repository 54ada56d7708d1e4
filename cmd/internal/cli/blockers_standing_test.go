package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
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
			"blockers":      {"2 hard blockers wait for an answer · 1 choice and 1 refused permission can still be changed · blockers.md", "B1", "B2"},
			"blockers list": {"B1", "B4", "can still be changed:\nB2", "B3", "!obsolete"},
			"status": {
				"1 hard blocker waits for an answer · 1 choice and 1 refused permission can still be changed:\n  manager blockers clarify\n",
				"Answer first, then continue with: manager resume " + sampleID,
			},
			"status --json": {
				`"waiting_blockers":{"hard":1,"asks":0,"soft":2,"refused":1}`, `"blockers":[{"id":"B1","attempt":1,"blocks_progress":true,`,
			},
			"show": {
				"  blocker: B1 (hard): Which key signs the theme?\n",
				"  blocker: B2 (soft): Variables or classes?; chosen for now: CSS variables\n",
			},
			"show --why theme": {"hard blocker B1 (security)", "answer with: manager blockers clarify; no process runs it"},
			"report":           {"answer what is waited for: 1 question", "look at 1 choice that agents made where they could not ask and 1 refused permission"},
		}},
		{[]string{"pause"}, map[string][]string{
			"wait":               {"Answer with: manager blockers clarify; then continue with: manager resume " + sampleID},
			"wait --for blocked": {`Blocked: "theme"`},
		}},
		{[]string{"skip", "theme"}, map[string][]string{
			"blockers": {
				"1 hard blocker waits for an answer · 1 refused permission can still be changed · 2 obsolete", "!B1", "B3",
			},
			"blockers list":          {"B4", "!B1", "!B2", "B3"},
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
			"report":                  {"manager blockers list --all -b " + sampleID + ": look at 1 choice that agents made where they could not ask and 1 refused permission"},
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

// Sessions held at an ask come first, the one with the least time first.
func TestHeldSessionsComeFirst(t *testing.T) {
	t.Parallel()
	now := time.Now()
	held := func(id string, d time.Duration) boulder.Blocker {
		return boulder.Blocker{
			ID: id, CreatedAt: now, Until: now.Add(d), Status: boulder.BlockerPending,
			Ask: &boulder.Ask{Reply: boulder.ReplyWaiting},
		}
	}
	a, _, _ := testApp(t, t.TempDir())
	got := ""
	for _, b := range a.Placed(t.Context(), []boulder.Blocker{
		{ID: "B1", Status: boulder.BlockerSkipped}, {ID: "B2", Status: boulder.BlockerPending},
		{ID: "B3", Status: boulder.BlockerPending, Hard: true},
		held("B4", time.Hour), held("B5", time.Minute), held("B6", -time.Minute),
	}) {
		got += b.ID + " "
	}
	if want := "B5 B4 B3 B2 B6 B1 "; got != want {
		t.Errorf("order %s, want %s", got, want)
	}
}

// Whatever ends a run, its end says how to answer what its sub-tasks wait for.
func TestEndedNamesClarify(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	db := openState(t, project)
	for _, err := range []error{orchestrator.ErrWaiting, orchestrator.ErrStopped, errInterrupted, errors.New("no disk")} {
		want := "Answer with: manager blockers clarify; then continue with: manager resume " + sampleID
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
	if a.warnOfUnwritten(t.Context()); stderr.Len() > 0 {
		t.Errorf("it warns of nothing: %s", stderr)
	}
	list := filepath.Join(project, blockers.DefaultFile)
	if err := os.Remove(list); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(list, 0o755); err != nil {
		t.Fatal(err)
	}
	skip := blockers.Settlement{Status: boulder.BlockerSkipped}
	if _, err := registerOfProject(t, project).Settle(t.Context(), "B1", skip); err != nil {
		t.Fatal(err)
	}
	a.warnOfUnwritten(t.Context())
	got := stderr.String()
	if !strings.Contains(got, "in blockers.md yet: "+list+" is not a regular file") || strings.Count(got, "\n") != 1 ||
		strings.Contains(got, blockers.FileName) {
		t.Errorf("%s", got)
	}
}
