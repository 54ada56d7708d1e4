package boulder

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// giveBaseline tells a sub-task how its commands of no_worse went at best in this run: what others broke is no excuse.
func (s *State) giveBaseline(t *SubTask) {
	for _, command := range slices.Concat(t.NoWorse, t.Lint) {
		if g := GateOf(s.Boulder.Baseline, command); g != nil {
			addGate(&t.Baseline, *g)
		}
	}
}

// addGate adds the run of a command of which a list has none yet.
func addGate(list *[]Gate, g Gate) {
	if GateOf(*list, g.Command) == nil {
		*list = append(slices.Clip(*list), g)
	}
}

// measured takes in how commands of no_worse went that were not known yet.
func (s *State) measured(t *SubTask, gates []Gate) {
	for _, g := range gates {
		if len(g.Failing) > 0 {
			g.Output = "" // the names are compared
		}
		addGate(&t.Baseline, g)
		addGate(&s.Boulder.Baseline, g)
	}
}

// improved raises the bar to what a completed sub-task reached.
func (s *State) improved(t *SubTask, e *Evidence) {
	s.Boulder.Baseline = slices.Clone(s.Boulder.Baseline)
	for _, g := range e.Gates {
		if best := GateOf(s.Boulder.Baseline, g.Command); best != nil && t.MayStayRed(g.Command) && better(g, *best) {
			g.Output, g.NoWorse = "", ""
			*best = g
		}
	}
}

// better reports whether fewer tests fail now, and none that did not before.
func better(now, before Gate) bool {
	if now.Green() || before.Green() {
		return now.Green() && !before.Green()
	}
	return len(now.Failing) > 0 && len(now.Failing) < len(before.Failing) && len(without(now.Failing, before.Failing)) == 0
}

// GateOf is the run of a command, or nil.
func GateOf(gates []Gate, command string) *Gate {
	if i := slices.IndexFunc(gates, func(g Gate) bool { return g.Command == command }); i >= 0 {
		return &gates[i]
	}
	return nil
}

// WasAsked reports whether the attempt's last continuation said this.
func (a *Attempt) WasAsked(prompt string) bool { return prompt != "" && hashOf(prompt) == a.Asked }

// resultOf names the diff and the failing gates of a turn; empty if no gate failed, or if the diff is not known.
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
