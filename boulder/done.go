package boulder

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Criteria for `done_when`. Gates always count.
const (
	DoneJudge = "judge" // the Progress Ledger agrees (the default)
	DoneTodos = "todos" // the agent's todo list has no open item
	// DoneDiagnostics: the language server reports no error in changed files. If none runs, [Checks].Lint decides.
	DoneDiagnostics = "diagnostics"
	// DoneTests: the commands of [Checks].Tests pass, or are no worse than before the sub-task began.
	DoneTests = "tests"
	// DonePromise: since the attempt began, the agent wrote [Promise], or [Diversion.Marker] where that counts.
	DonePromise = "promise"
)

// Promise is what an agent writes when everything is done (seed 001: the completion promise of a Ralph loop).
const Promise = "<promise>DONE</promise>"

// DoneMarker is the default of [Diversion.Marker] (seed 003, FR-015).
const DoneMarker = "BLOCKER_DIVERTER_DONE!"

// DoneWhen are criteria of completion as a file names them.
type DoneWhen []string

// Words returns [DoneWords].
func (DoneWhen) Words() []string { return DoneWords() }

// DoneWords lists all criteria in the order in which users see them.
func DoneWords() []string {
	return []string{DoneTodos, DoneDiagnostics, DoneTests, DonePromise, DoneJudge}
}

// IsDoneWord reports whether `done_when` may contain word.
func IsDoneWord(word string) bool { return slices.Contains(DoneWords(), word) }

// DoneNeeds reports whether a completion criterion counts for this sub-task. Without `done_when` only the judge does.
// Default diagnostics rely on lint commands in [SubTask.NoWorse]: the language server's earlier errors were not
// measured, so its errors are left to the judge.
func (t *SubTask) DoneNeeds(criterion string) bool {
	if len(t.DoneWhen) == 0 || t.DoneDefault && criterion == DoneDiagnostics {
		return criterion == DoneJudge
	}
	return slices.Contains(t.DoneWhen, criterion)
}

// DoneNamed returns DoneWhen if the plan or the run named it, else nil.
func (t *SubTask) DoneNamed() []string {
	if t.DoneDefault {
		return nil
	}
	return t.DoneWhen
}

// Checks are the commands behind words of `done_when`. They are stored, so that a resume and a fork check the same.
type Checks struct {
	// Tests are gates of every sub-task that needs [DoneTests]. They may stay as red as they were.
	Tests []string `json:"tests,omitempty"`
	// Lint are the same for [DoneDiagnostics], after turns in which no language server ran.
	Lint []string `json:"lint,omitempty"`
	// Default: the run named no criteria. Then a red command decides nothing if, before the work, it was red and named
	// no failing test. One that was stopped for its time is no gate, see [SubTask.NoGates].
	Default bool `json:"default,omitempty"`
}

// setDone sets a new sub-task's criteria (its own, else its plan's, else the run's) and the commands behind them.
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

func addTo(list *[]string, more ...string) {
	for _, m := range more {
		if !slices.Contains(*list, m) {
			*list = append(slices.Clip(*list), m)
		}
	}
}

func without[T comparable](list, other []T) []T {
	return filter(list, func(x T) bool { return !slices.Contains(other, x) })
}

// MayStayRed reports whether a gate of this sub-task holds if it is as red as before.
func (t *SubTask) MayStayRed(command string) bool {
	return !slices.Contains(t.Gates, command) && (slices.Contains(t.NoWorse, command) || slices.Contains(t.Lint, command))
}

// Loop bounds a boulder of one sub-task that continues until its criteria hold (`manager loop`).
type Loop struct {
	// Iterations limits the prompts, the briefs included, over all sessions; at least 1.
	Iterations int `json:"iterations"`
	// Failures is how many consecutive continuations without progress end the loop. 0: the first one does.
	Failures int `json:"failures"`
	// Cooldown is the wait after a continuation without progress, in nanoseconds. It doubles with each further one.
	Cooldown time.Duration `json:"cooldown" yaml:"cooldown,off"`
}

// Validate refuses bounds that are too low. Nil is valid.
func (l *Loop) Validate() error {
	if l == nil || l.Iterations >= 1 && l.Failures >= 0 && l.Cooldown >= 0 {
		return nil
	}
	return fmt.Errorf("a loop needs at least one iteration, and no bound below zero: %d iterations, %d failures, a "+
		"cool-down of %s", l.Iterations, l.Failures, l.Cooldown)
}
