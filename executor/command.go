package executor

import (
	"context"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// DefaultGateTimeout bounds a gate that is given no other bound.
const DefaultGateTimeout = 10 * time.Minute

// RunCommand runs a shell command in a directory as the gates of a run are run: in its own process group, which ends
// with it or with ctx, and for at most timeout. What of its output is kept goes through redact. nil: the environment is
// that of this process.
func RunCommand(
	ctx context.Context, dir string, env []string, command string, timeout time.Duration, redact func(string) string,
) boulder.Gate {
	return runGate(ctx, dir, env, command, timeout, redact)
}
