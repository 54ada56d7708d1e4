package boulder

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// giveBaseline copies the best known runs of no_worse commands: failures that others introduced do not lower the bar.
func (s *State) giveBaseline(t *SubTask) {
	for _, command := range slices.Concat(t.NoWorse, t.Lint) {
		if g := GateOf(s.Boulder.Baseline, command); g != nil {
			addGate(&t.Baseline, *g)
		}
	}
}

func addGate(list *[]Gate, g Gate) {
	if GateOf(*list, g.Command) == nil {
		*list = append(slices.Clip(*list), g)
	}
}

func (s *State) addBaselines(t *SubTask, gates []Gate) {
	for _, g := range gates {
		if len(g.Failing) > 0 {
			g.Output = "" // names are compared instead
		}
		addGate(&t.Baseline, g)
		addGate(&s.Boulder.Baseline, g)
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
