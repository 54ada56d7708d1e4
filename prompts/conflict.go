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

// Resolve writes the prompt that asks a session to make its result fit the results of others. After a turn that was
// asked to and did not, it says what is missing.
func Resolve(t boulder.SubTask, turn boulder.Turn, c *Conflict, told Extra) string {
	p := prompt{}
	why := "but does not fit what others have done meanwhile."
	if len(c.With) == 0 {
		why = "but its commands fail in a clean copy of its files."
	}
	p.add(fmt.Sprintf("[manager] Sub-task %q is complete by itself, %s", t.ID, why))
	p.news(told.News)
	if again := *c; turn.Conflict == nil {
		p.add(text.Excerpt(clean(turn.Verdict.ContinuationPrompt), maxTargeted, text.Start))
		p.list("Not met yet:", unmet(turn.Verdict))
		if red := turn.Evidence.Red(); len(red) > 0 {
			again.Red = red
		}
		p.add(again.text())
	} else {
		p.add(c.text())
	}
	p.add(checkProgress(told.Diversion))
	return p.String()
}

func (c *Conflict) text() string {
	if c == nil {
		return ""
	}
	p := prompt{}
	where := "in a clean copy of your files"
	if len(c.With) > 0 {
		where = "on the combined files"
		p.add("Your directory now holds the results of the others as the commit HEAD, with your changes merged onto them, not " +
			"committed. `git diff HEAD` shows yours, `git log -p` theirs.")
	}
	if len(c.Files) > 0 {
		files := c.Files[:min(len(c.Files), maxConflicting)]
		p.add("These files conflict. Resolve every conflict and leave no marker (<<<<<<<, >>>>>>>) behind:" + separator + bullets(names(files)))
	}
	p.gates("These commands fail "+where+", and must exit 0:", c.Red, maxGateOutput/max(1, len(c.Red)))
	if len(c.Since) > 0 {
		p.add("They do so without your changes already, since the result of " + strings.Join(names(c.Since), ", ") + ": mend that.")
	}
	if len(c.Red) > 0 && len(c.Ignored) > 0 {
		p.add("They ran in a clean copy: the files that git tracks or would track, and what set-up makes. Your directory had more," +
			" which git ignores, so that it is not part of your result. If a command needs it, have the command make it, or stop" +
			" ignoring it:" + separator + bullets(names(c.Ignored)))
	}
	if len(c.Others) == 0 {
		return strings.TrimSpace(p.String())
	}
	p.add("Keep what both sides were meant to do; do not undo the work of the others. They had to do this:")
	for _, t := range c.Others[:min(len(c.Others), maxOthers)] {
		p.add("### " + t.ID + ": " + text.Short(t.Subject, 200) + separator +
			text.Quote(text.Excerpt(clean(t.Description), maxOther, text.Start)))
	}
	return strings.TrimSpace(p.String())
}
