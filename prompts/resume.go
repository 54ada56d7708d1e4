package prompts

import (
	"cmp"
	"fmt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// ResumeInput is what a resume prompt is made from.
type ResumeInput struct {
	Boulder   boulder.Boulder
	SubTask   boulder.SubTask
	Completed int // sub-tasks of the boulder
	Total     int
	News      // since the turn began
}

// Resume writes the one prompt that a session gets when a crash cut its turn off: where it is (the facts that seed 001
// shows: boulder, sub-task, progress, checkpoint), and how to go on. It has at most some 2,000 characters
// besides the notes and the answers.
func Resume(in ResumeInput) string {
	p := prompt{}
	p.add("[manager] This session was interrupted from outside and is taken up again.")
	progress := "no sub-task is completed"
	if in.Total > 0 {
		progress = fmt.Sprintf("%d/%s completed (%d%%)", in.Completed, text.Plural(in.Total, "sub-task"), 100*in.Completed/in.Total)
	}
	p.add(fmt.Sprintf("Job: %s (boulder %s)\nSub-task: %s (%s)\nProgress: %s",
		text.Short(cmp.Or(in.Boulder.Goal, in.Boulder.Task), maxItem), in.Boulder.ID,
		text.Short(cmp.Or(in.SubTask.ActiveForm, in.SubTask.Subject), maxItem), in.SubTask.ID, progress))
	if c := in.SubTask.Checkpoint; c != nil {
		p.add(fmt.Sprintf("Last edit:\n  File: %s\n  Line: %d\n  Context: %s",
			text.Short(c.File, maxItem), c.Line, text.Short(c.Context, maxItem)))
	}
	p.news(in.News)
	p.add("A command or an edit may have been cut off half way. Look at the files first: keep what is done, repair what " +
		"is half done, and then go on with what your brief says is missing.")
	return p.String()
}
