package executor

import (
	"testing"

	"github.com/bouldermgr/manager/blockers"
)

func TestZZ(t *testing.T) {
	t.Parallel()
	var d away
	w := ownWorldWith(t, asker(t), diverting(t, &d, blockers.Policy{}), func(env []string) []string { return append(env, everythingAsks) })
	a := w.newAttempt("x", "PARALLEL")
	e, err := a.run(t.Context(), w)
	t.Logf("%+v %v %q %d", e, err, a.activities(), w.prompts("PARALLEL"))
	a = w.newAttempt("y", "TASK")
	e, err = a.run(t.Context(), w)
	t.Logf("%+v %v %q", e, err, a.activities())
}
