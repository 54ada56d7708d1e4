package executor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/executor"
)

// Gates run with CI=1 unless the user's environment has CI; commands that may have to write lock files do not.
func TestGatesRunAsInCI(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		env         []string
		gate, other string
	}{
		{[]string{}, "CI=1", "CI="}, {[]string{"CI=true"}, "CI=true", "CI=true"}, {[]string{"CI="}, "CI=", "CI="},
		{[]string{"CIRCLECI=x"}, "CI=1", "CI="},
	} {
		gate := executor.RunGate(t.Context(), t.TempDir(), test.env, "echo CI=$CI", time.Minute, strings.Clone)
		other := executor.RunCommand(t.Context(), t.TempDir(), test.env, "echo CI=$CI", time.Minute, strings.Clone)
		if got := strings.TrimSpace(gate.Output); got != test.gate {
			t.Errorf("%q: a gate has %s, want %s", test.env, got, test.gate)
		}
		if got := strings.TrimSpace(other.Output); got != test.other {
			t.Errorf("%q: a command has %s, want %s", test.env, got, test.other)
		}
	}
	if own := executor.RunGate(t.Context(), "", nil, "test -n \"$CI$PATH\"", time.Minute, strings.Clone); !own.Green() {
		t.Error(own)
	}
}
