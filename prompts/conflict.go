package prompts

import (
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Conflict says why a sub-task's result could not be integrated, and with which sub-tasks it conflicts.
type Conflict struct {
	boulder.Conflict
	Others []boulder.SubTask
}

const (
	maxOther       = 2_000 // characters of another sub-task's description
	maxOthers      = 5
	maxConflicting = 50 // files
)

// Resolve writes the prompt that asks a session to make its result fit the results of others.
func Resolve(t boulder.SubTask, c *Conflict, told Told) string {
	p := prompt{}
	p.add(fmt.Sprintf("[manager] Sub-task %q is complete by itself, but does not fit what others have done meanwhile.", t.ID))
	p.news(told.News)
	p.add(c.text())
	p.add(checkProgress(told.Diversion))
	return p.String()
}

func (c *Conflict) text() string {
	if c == nil {
		return ""
	}
	p := prompt{}
	p.add("Your directory now holds the results of the others as the commit HEAD, with your changes merged onto them, not " +
		"committed. `git diff HEAD` shows yours, `git log -p` theirs.")
	if len(c.Files) > 0 {
		files := c.Files[:min(len(c.Files), maxConflicting)]
		p.add("These files conflict. Resolve every conflict and leave no marker (<<<<<<<, >>>>>>>) behind:" + separator + bullets(files))
	}
	p.gates("These commands fail on the combined files, and must exit 0:", c.Red, maxGateOutput/max(1, len(c.Red)))
	p.add("Keep what both sides were meant to do; do not undo the work of the others. They had to do this:")
	for _, t := range c.Others[:min(len(c.Others), maxOthers)] {
		p.add("### " + t.ID + ": " + text.Short(t.Subject, 200) + separator +
			quoted(text.Excerpt(clean(t.Description), maxOther, text.Start)))
	}
	return strings.TrimSpace(p.String())
}
