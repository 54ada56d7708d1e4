package orchestrator

import (
	"testing"
	"time"
)

// A wall clock alone cannot tell a jump; with the monotonic one beside it, what they differ by is the jump.
func TestClockMoved(t *testing.T) {
	t.Parallel()
	before := time.Now()
	if moved := clockMoved(before, before.Add(time.Hour)); moved != 0 {
		t.Errorf("an hour that passed moved the clock by %s", moved)
	}
	if moved := clockMoved(time.Time{}, before); moved != 0 {
		t.Errorf("the first look moved the clock by %s", moved)
	}
	// Without a monotonic reading there is nothing to compare.
	if moved := clockMoved(before.Round(0), before.Add(time.Hour).Round(0)); moved != 0 {
		t.Errorf("wall clocks alone say %s", moved)
	}
}
