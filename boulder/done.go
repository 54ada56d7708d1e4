package boulder

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Criteria that `done_when` can name. Gates always count.
const (
	DoneJudge = "judge" // the Progress Ledger agrees (the default)
	DoneTodos = "todos" // the agent's todo list has no open item
	// DoneDiagnostics: the language server finds no error in the files that were changed. Where none runs, the commands of
	// [Checks].Lint stand in for it.
	DoneDiagnostics = "diagnostics"
	// DoneTests: the commands of [Checks].Tests pass, or are no worse than before the sub-task began.
	DoneTests = "tests"
	// DonePromise: the agent's own text has [Promise], or [Diversion.Marker] where that counts, since the attempt began.
	DonePromise = "promise"
)

// Promise is what an agent writes when everything is done (seed 001: the completion promise of a Ralph loop).
const Promise = "<promise>DONE</promise>"

// DoneMarker is the default of [Diversion.Marker] (seed 003, FR-015).
const DoneMarker = "BLOCKER_DIVERTER_DONE!"

// DoneWords are the criteria that there are, in the order in which people are told about them.
func DoneWords() []string {
	return []string{DoneTodos, DoneDiagnostics, DoneTests, DonePromise, DoneJudge}
}

// IsDoneWord reports whether `done_when` can name it.
func IsDoneWord(word string) bool { return slices.Contains(DoneWords(), word) }

// DoneNeeds reports whether a completion criterion counts for this sub-task. With no `done_when` only the judge does.
// Diagnostics that are on by default are what the commands of [SubTask.NoWorse] find: what a language server found before
// the work nobody measured, so its errors are for the judge.
func (t *SubTask) DoneNeeds(criterion string) bool {
	if len(t.DoneWhen) == 0 || t.DoneDefault && criterion == DoneDiagnostics {
		return criterion == DoneJudge
	}
	return slices.Contains(t.DoneWhen, criterion)
}

// DoneNamed is DoneWhen as a plan may name it; nil: it is the default.
func (t *SubTask) DoneNamed() []string {
	if t.DoneDefault {
		return nil
	}
	return t.DoneWhen
}

// Checks are the commands behind words of `done_when`, stored with the boulder: a resume and a fork check the same.
type Checks struct {
	// Tests are gates of every sub-task that is done when tests pass. They may stay as red as they were.
	Tests []string `json:"tests,omitempty"`
	// Lint are the same for diagnostics, after turns in which no language server ran.
	Lint []string `json:"lint,omitempty"`
	// Default: the criteria of the run were not named. A command that was red before the work, and named no test or did not come
	// to its own end, then decides nothing while it is red. One that was stopped for its time is not run again after a turn.
	Default bool `json:"default,omitempty"`
}

// setDone gives a new sub-task its criteria, its own before those of its plan and of the run, and the commands behind them.
func (s *State) setDone(t *SubTask, p *Plan) error {
	t.DoneDefault = s.Boulder.Checks.Default && len(t.DoneWhen)+len(p.DoneWhen) == 0
	for _, words := range [][]string{p.DoneWhen, s.Boulder.DoneWhen} {
		if len(t.DoneWhen) == 0 {
			t.DoneWhen = words
		}
	}
	for _, word := range t.DoneWhen {
		if !IsDoneWord(word) {
			return fmt.Errorf("sub-task %q is done when %q, which is none of %s", t.ID, word,
				strings.Join(DoneWords(), ", "))
		}
	}
	if t.DoneNeeds(DoneTests) {
		if len(s.Boulder.Checks.Tests) == 0 {
			return fmt.Errorf("sub-task %q is done when tests pass, and no command is known that runs them", t.ID)
		}
		addTo(&t.NoWorse, without(s.Boulder.Checks.Tests, t.Gates)...)
	}
	switch {
	case t.DoneDefault:
		addTo(&t.NoWorse, without(s.Boulder.Checks.Lint, t.Gates)...)
	case t.DoneNeeds(DoneDiagnostics):
		addTo(&t.Lint, without(s.Boulder.Checks.Lint, slices.Concat(t.Gates, t.NoWorse))...)
	}
	return nil
}

// addTo adds what a list does not have yet.
func addTo(list *[]string, more ...string) {
	for _, m := range more {
		if !slices.Contains(*list, m) {
			*list = append(slices.Clip(*list), m)
		}
	}
}

// without leaves out what another list has.
func without[T comparable](list, other []T) []T {
	return filter(list, func(x T) bool { return !slices.Contains(other, x) })
}

// MayStayRed reports whether a gate of this sub-task holds if it is as red as before.
func (t *SubTask) MayStayRed(command string) bool {
	return !slices.Contains(t.Gates, command) && (slices.Contains(t.NoWorse, command) || slices.Contains(t.Lint, command))
}

// Loop bounds a boulder that is one session, kept going until its criteria hold (`manager loop`).
type Loop struct {
	// Iterations is how many prompts the sub-task gets, the brief included, over all its sessions; at least 1.
	Iterations int `json:"iterations"`
	// Failures is how many continuations in a row may bring no progress: with that many it ends. 0: the first one does.
	Failures int `json:"failures"`
	// Cooldown is the wait after a continuation that brought no progress, nanoseconds. It doubles with each further one.
	Cooldown time.Duration `json:"cooldown" yaml:"cooldown,off"`
}

// Validate refuses bounds that are below zero. Nil is valid.
func (l *Loop) Validate() error {
	if l == nil || l.Iterations >= 1 && l.Failures >= 0 && l.Cooldown >= 0 {
		return nil
	}
	return fmt.Errorf("a loop needs at least one iteration, and no bound below zero: %d iterations, %d failures, a "+
		"cool-down of %s", l.Iterations, l.Failures, l.Cooldown)
}
