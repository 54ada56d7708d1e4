package boulder

import "slices"

// giveBaseline tells a sub-task how its commands of no_worse went at their best in this run, as far as that was measured.
// What an earlier sub-task broke is then no excuse for a later one.
func (s *State) giveBaseline(t *SubTask) {
	for _, command := range slices.Concat(t.NoWorse, t.Lint) {
		if g := gateOf(s.Boulder.Baseline, command); g != nil && gateOf(t.Baseline, command) == nil {
			t.Baseline = append(slices.Clip(t.Baseline), *g)
		}
	}
}

// measured takes in how commands of no_worse went that were not known yet.
func (s *State) measured(t *SubTask, gates []Gate) {
	for _, g := range gates {
		if len(g.Failing) > 0 {
			g.Output = "" // the names are compared
		}
		if gateOf(t.Baseline, g.Command) == nil {
			t.Baseline = append(slices.Clip(t.Baseline), g)
		}
		if gateOf(s.Boulder.Baseline, g.Command) == nil {
			s.Boulder.Baseline = append(slices.Clip(s.Boulder.Baseline), g)
		}
	}
}

// improved raises the bar to what a completed sub-task reached.
func (s *State) improved(t *SubTask, e *Evidence) {
	for _, g := range e.Gates {
		i := slices.IndexFunc(s.Boulder.Baseline, func(old Gate) bool { return old.Command == g.Command })
		if i < 0 || !t.MayStayRed(g.Command) || !better(g, s.Boulder.Baseline[i]) {
			continue
		}
		g.Output, g.NoWorse = "", ""
		s.Boulder.Baseline = slices.Clone(s.Boulder.Baseline)
		s.Boulder.Baseline[i] = g
	}
}

// better reports whether fewer tests fail now, and none that did not before.
func better(now, before Gate) bool {
	if now.Green() || before.Green() {
		return now.Green() && !before.Green()
	}
	old := func(name string) bool { return slices.Contains(before.Failing, name) }
	return len(now.Failing) > 0 && len(now.Failing) < len(before.Failing) &&
		!slices.ContainsFunc(now.Failing, func(name string) bool { return !old(name) })
}

func gateOf(gates []Gate, command string) *Gate {
	i := slices.IndexFunc(gates, func(g Gate) bool { return g.Command == command })
	if i < 0 {
		return nil
	}
	return &gates[i]
}
