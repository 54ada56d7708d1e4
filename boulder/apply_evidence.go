package boulder

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// giveBaseline copies the best known runs of the sub-task's commands before it begins: of those that may stay red, failures
// that others introduced do not lower the bar. A gate was green before if it is green for a completed sub-task.
func (s *State) giveBaseline(t *SubTask) {
	for _, other := range s.SubTasks {
		for _, g := range other.GateRuns {
			if other.Status == SubTaskCompleted && g.Green() && slices.Contains(t.Gates, g.Command) {
				t.AddBaseline(s.Boulder.Checks, g)
			}
		}
	}
	for _, command := range slices.Concat(t.Gates, t.NoWorse, t.Lint) {
		if g := GateOf(s.Boulder.Baseline, command); g != nil {
			t.AddBaseline(s.Boulder.Checks, *g)
		}
	}
}

// AddBaseline adds runs from before the sub-task began, unless there is one of the command. By default criteria, a red
// command with which nothing can be compared decides nothing; one that was stopped for its time is no gate at all.
func (t *SubTask) AddBaseline(c Checks, gates ...Gate) {
	for _, g := range gates {
		if byDefault := t.DoneDefault && t.MayStayRed(g.Command) && slices.Contains(slices.Concat(c.Tests, c.Lint), g.Command); byDefault {
			switch {
			case g.TimedOut:
				t.NoWorse = without(t.NoWorse, []string{g.Command})
				addGate(&t.NoGates, g)
			case !g.Green() && (!g.Ordinary() || len(g.Failing) == 0):
				g.NoWorse = "red before the work began, in a way that nothing can be compared with"
			}
		}
		addGate(&t.Baseline, g)
	}
}

// GreenBefore reports whether a command is known to have been green before the sub-task began: that it is green now
// proves nothing about the work.
func (t *SubTask) GreenBefore(command string) bool {
	g := GateOf(t.Baseline, command)
	return g != nil && g.Green()
}

func addGate(list *[]Gate, g Gate) {
	if GateOf(*list, g.Command) == nil {
		*list = append(slices.Clip(*list), g)
	}
}

// addBaselines stores runs before the work of the boulder, or of sub-task t, if it is not nil.
func (s *State) addBaselines(t *SubTask, gates []Gate) {
	for _, g := range gates {
		if len(g.Failing) > 0 || g.Green() {
			g.Output = "" // names are compared instead
		}
		addGate(&s.Boulder.Baseline, g)
		if t != nil {
			t.AddBaseline(s.Boulder.Checks, g)
		}
	}
}

func (s *State) raiseBaseline(t *SubTask, e *Evidence) {
	s.Boulder.Baseline = slices.Clone(s.Boulder.Baseline)
	for _, g := range e.Gates {
		if best := GateOf(s.Boulder.Baseline, g.Command); best != nil && t.MayStayRed(g.Command) && better(g, *best) {
			g.Output, g.NoWorse = "", ""
			*best = g
		}
	}
}

// better reports whether fewer tests fail than before, and no new ones.
func better(now, before Gate) bool {
	if now.Green() || before.Green() {
		return now.Green() && !before.Green()
	}
	return len(now.Failing) > 0 && len(now.Failing) < len(before.Failing) && len(without(now.Failing, before.Failing)) == 0
}

// GateOf returns the run of a command, or nil.
func GateOf(gates []Gate, command string) *Gate {
	if i := slices.IndexFunc(gates, func(g Gate) bool { return g.Command == command }); i >= 0 {
		return &gates[i]
	}
	return nil
}

// WasAsked reports whether prompt equals the attempt's last continuation prompt.
func (a *Attempt) WasAsked(prompt string) bool { return prompt != "" && hashOf(prompt) == a.Asked }

// resultOf returns a hash of a turn's diff and failing gates; empty if no gate failed or the diff is unknown.
func resultOf(e *Evidence) string {
	red := e.Red()
	if len(red) == 0 || e.Diff.Unavailable != "" {
		return ""
	}
	parts := []string{e.Diff.Hash}
	for _, g := range red {
		parts = append(parts, g.Command)
		parts = append(parts, g.Failing...)
	}
	return hashOf(strings.Join(parts, "\x00"))
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
