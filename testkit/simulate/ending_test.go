package simulate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

// ending is what interruptions of a run must not change.
type ending struct {
	Status   boulder.Status
	Plan     string
	Replans  int
	SubTasks []string
	Prompts  []string
	Agents   boulder.Usage
	Tip      files
}

func (w *world) ending() ending {
	b := w.disk.Boulder
	e := ending{Status: b.Status, Replans: b.Replans, Tip: w.repo.files(b.Trunk.Tip)}
	for _, t := range w.disk.SubTasks {
		hard := 0
		for _, b := range t.Blockers {
			if b.Hard {
				hard++
			}
		}
		e.SubTasks = append(e.SubTasks, fmt.Sprintf(
			"%s: %s, %d tries, %d attempts, %d lost, %d stalls, %d failures, %d hard blockers, %q, for %q",
			t.ID, t.Status, t.Tries, t.Attempts, t.Lost, t.Stalls, len(t.Failures), hard, t.Output, t.Replaces))
	}
	if w.disk.Revision != nil {
		e.Plan = fmt.Sprintf("revision %d, %s", w.disk.Revision.Number, w.disk.Revision.Plan.Goal)
	}
	for prompt := range w.prompts {
		if !prompt.resume {
			e.Prompts = append(e.Prompts, fmt.Sprint(prompt))
		}
	}
	slices.Sort(e.Prompts)
	// A fault while a turn waits for an answer leaves only the usage reported until then.
	if !w.inexact && (w.sc.asks == 0 || w.sc.trouble == 0) {
		e.Agents = b.TurnUsage
	}
	return e
}

func lines(w *world) []string { return strings.Split(w.log.String(), "\n") }
