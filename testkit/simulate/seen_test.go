package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// census counts what happened in all worlds. Invariants say nothing about what never happens.
type census struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *census) add(w *world) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts["world "+string(w.sc.class)]++
	c.counts["end "+string(w.disk.Boulder.Status)]++
	c.counts["commits"] += w.commits
	for what, n := range w.seen {
		c.counts[what] += n
	}
	for _, e := range w.events {
		c.counts["event "+boulder.TypeOf(e.Body)]++
	}
	for prompt := range w.prompts {
		if prompt.resume {
			c.counts["resume prompts"]++
		}
	}
}

// check fails the test for each expected event that never happened.
func (c *census) check(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for _, what := range slices.Sorted(maps.Keys(c.counts)) {
		lines = append(lines, fmt.Sprintf("%9d %s", c.counts[what], what))
	}
	t.Log("\n" + strings.Join(lines, "\n"))
	for _, what := range []string{
		"fate crash", "fate full", "fate kill", "fate stop", "fate cancel", "fate abandon", "resume prompts",
		"order pause", "order resume", "order cancel", "order skip", "order retry", "order redo", "order note", "order edit", "an edit refused", "added by an edit", "changed by an edit", "removed by an edit", "clock back",
		"clock forward", "power cut",
		"asked", "a question was left aside", "it went on around a question", "the user was needed for: other", "the user was needed for: merge", "a fast-forward", "a merge",
		"a conflict; in files: true", "a conflict; in files: false", "a gate that needs an ignored file", "a flaky gate; it passed before: true", "a generated file made again", "half a slot",
		"results tested together", "one of several was to blame", "a result was left out",
		"a crash between the event and the tip", "the tip was moved", "the last judged turn",
		"a default was taken", "the user was asked before the split", "a session at work was told of an answer to the plan", "answered twice", "order settle", "a waiting session got its answer", "a prompt runs again on OpenCode 1", "a prompt runs again on OpenCode 2",
		"a model was out", "a model went out", "a ledger was out", "a switch; probe: false, ledgers: false, back: false", "a switch; probe: true, ledgers: false, back: true",
		"a switch; probe: false, ledgers: false, back: true", "a switch; probe: false, ledgers: true, back: false",
		"a look for: ", "a look for: replan", "a look for: review", "a look at the tip", "a look that was found by its tag", "a look that was resumed", "a void look", "an extension", "a request unchecked", "missing in the end", "end completed", "end partial", "end failed", "end cancelled",
	} {
		if c.counts[what] == 0 {
			t.Errorf("it never came to: %s", what)
		}
	}
	for _, b := range bodies {
		if c.counts["event "+boulder.TypeOf(b)] == 0 {
			t.Errorf("there never was an event %s", boulder.TypeOf(b))
		}
	}
}

var bodies = []boulder.Body{
	boulder.Created{}, boulder.Prepared{}, boulder.LookStarted{}, boulder.LookSession{}, boulder.Looked{}, boulder.Planned{}, boulder.Decomposed{}, boulder.StatusChanged{}, boulder.Resumed{},
	boulder.Starting{}, boulder.SubTaskStart{}, boulder.TurnSent{}, boulder.EffortMissing{}, boulder.Nudged{}, boulder.SubTaskProgress{},
	boulder.TurnEnded{}, boulder.GateRun{}, boulder.Judged{}, boulder.Continuation{}, boulder.Retry{}, boulder.Trouble{},
	boulder.Cooled{}, boulder.ReplanStarted{}, boulder.PlanTrouble{}, boulder.ReplanProposed{}, boulder.RevisionAsked{}, boulder.RevisionRefused{}, boulder.Replanned{}, boulder.ReplanRefused{}, boulder.RequestChecked{},
	boulder.BudgetSet{}, boulder.BudgetWarning{}, boulder.Parked{}, boulder.Unparked{}, boulder.Noted{},
	boulder.Reopened{}, boulder.BlockerRaised{}, boulder.BlockerSettled{}, boulder.WaitEnded{},
	boulder.UsageReport{}, boulder.SubTaskDone{}, boulder.TaskComplete{},
	boulder.PlanEdited{}, boulder.ModelSet{}, boulder.Switched{},
	boulder.Integrating{}, boulder.Integrated{}, boulder.Conflict{}, boulder.Landed{},
}
