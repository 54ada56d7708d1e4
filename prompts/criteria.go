package prompts

import (
	"fmt"

	"github.com/bouldermgr/manager/boulder"
)

// listed tells an agent what is looked for on its todo list, where that counts.
func listed(t *boulder.SubTask) (heading, text string) {
	if !t.DoneNeeds(boulder.DoneTodos) {
		return "", ""
	}
	return "### Todo list", "No item may be open on your todo list in the end. Cancel those that are not needed, and mark " +
		"as blocked those that only somebody else can close."
}

// promised tells an agent about the promise, where its sub-task is not done without it.
func promised(t *boulder.SubTask) (heading, text string) {
	if !t.DoneNeeds(boulder.DonePromise) {
		return "", ""
	}
	return "### The promise", fmt.Sprintf("When, and only when, all of this is done and checked, write %s on a line of "+
		"its own in your last message, outside of code blocks. Never write it for any other reason: it is compared with "+
		"what is there.", boulder.Promise)
}

// promiseAgain is what a continuation says about it.
func promiseAgain(t boulder.SubTask, e *boulder.Evidence) string {
	switch {
	case !t.DoneNeeds(boulder.DonePromise):
		return ""
	case e.Promised:
		return fmt.Sprintf("You wrote %s, and yet this is not done. There is no need to write it again: finish the work.",
			boulder.Promise)
	}
	return fmt.Sprintf("You have not written %s. When, and only when, all that your brief asks for is done and checked, "+
		"write it on a line of its own, outside of code blocks.", boulder.Promise)
}

// diagnosed tells an agent what its changes must not break.
func diagnosed(t *boulder.SubTask) (heading, text string) {
	if !t.DoneNeeds(boulder.DoneDiagnostics) {
		return "", ""
	}
	text = "The language server must find no error in the files that you change."
	if len(t.Lint) > 0 {
		text += " If none runs, these commands are run instead; what failed in them before you began may still fail, " +
			"nothing else may:" + separator + commands(t.Lint)
	}
	return "### Diagnostics", text
}

// Forgotten adds to a continuation the items of the manager's own record that the agent's todo list has lost when the
// conversation was replaced by a summary; nothing, if there are none.
func Forgotten(items []string) string {
	p := prompt{}
	p.list("These items were open on your todo list before the conversation was summarised, and it has lost them. Put back "+
		"those that are still to be done:", items)
	if len(p.paragraphs) == 0 {
		return ""
	}
	return "\n" + p.String()
}
