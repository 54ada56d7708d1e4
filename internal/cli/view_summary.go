package cli

import (
	"fmt"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// stoppingText answers the first Ctrl-C.
const stoppingText = "Finishing the running turns; Ctrl-C again aborts them."

// printSummary tells on stdout how a run ended. took is how long it ran, 0 if that is not known.
func (a *app) printSummary(id string, end boulder.TaskComplete, took time.Duration) {
	p := a.paint(a.Stdout)
	line := p.status(end.Status) + " · " + usageText(end.Usage)
	if took > 0 {
		line += " · " + elapsed(took)
	}
	fmt.Fprintf(a.Stdout, "%s\n\n%s · %s\n", safeText(end.Summary), p.bold(id), line)
}
