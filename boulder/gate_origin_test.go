package boulder

import "testing"

// A gate that a replan took over is told as that of the sub-task that the user wrote it for.
func TestGateOrigin(t *testing.T) {
	t.Parallel()
	b := Boulder{Gates: []string{"make lint"}}
	all := []SubTask{
		{ID: "hard", Revision: 1, Status: SubTaskSuperseded, Gates: []string{"make", "make lint"}, NoWorse: []string{"make old"}},
		{ID: "done", Revision: 1, Status: SubTaskCompleted, Gates: []string{"make mine"}},
		{ID: "easier", Revision: 2, Gates: []string{"make", "make lint", "make mine"}, NoWorse: []string{"make old"}},
	}
	for gate, want := range map[string]string{"make": "hard", "make old": "hard", "make lint": "", "make mine": ""} {
		if got := b.GateOrigin(&all[2], all, gate); got != want {
			t.Errorf("%s: %q, want %q", gate, got, want)
		}
	}
	if got := b.GateOrigin(&all[0], all, "make"); got != "" {
		t.Errorf("its own gate is from %q", got)
	}
}
