package view

import (
	"fmt"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// StoppingText answers the first Ctrl-C.
const StoppingText = "Finishing the running turns; Ctrl-C again aborts them."

// printSummary tells on stdout how a run ended. took is how long it ran, 0 if that is not known.
func printSummary(p Out, id string, end boulder.TaskComplete, took time.Duration) {
	line := p.status(end.Status) + " · " + UsageText(end.Usage)
	if took > 0 {
		line += " · " + text.Elapsed(took)
	}
	fmt.Fprintf(p, "%s\n\n%s · %s\n", text.Safe(end.Summary), p.Bold(id), line)
}
