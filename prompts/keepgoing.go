package prompts

import (
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Unfinished is a session that was left before its work was done, as its agent has to be told.
type Unfinished struct {
	Unmet       []string       // what is missing besides the items, one line for each criterion
	Items       []string       // of the agent's todo list that are open
	Broken      string         // the error with which the turn ended; empty: none
	Gates       []boulder.Gate // commands that were run and failed
	Compacted   bool           // the conversation was replaced by a summary; the items are the manager's own record
	Idle        int            // turns in a row without a tool call, once these are too many; 0: they are not
	Promise     bool           // is asked for, [boulder.Promise]
	Answers     []string       // of a person about blockers of the session, see [Answers]
	BlockerTool string         // as in [Input]
	Continuous  bool           // everything holds, and the agent is to go on improving
}

// Mark begins every prompt of the manager, so that people and agents can tell it from one of a person.
const Mark = "[manager]"

// KeepGoing writes the prompt that sends an idle session back to work without anybody's verdict: what is unmet, the open
// items, and how to end. Lists and outputs are bounded: it stays below 45,000 characters besides the commands
// themselves.
func KeepGoing(u Unfinished) string {
	p := prompt{}
	switch {
	case u.Continuous:
		p.add(Mark + " Everything that was asked for holds. Go on improving it: look at what you made as its strictest reviewer " +
			"would, take the most useful thing that is still wrong, missing or untested, write it on your todo list, do it, " +
			"and check it. Stay within what was asked for.")
	case u.Compacted:
		p.add(Mark + " The conversation was shortened to a summary, and the work is not complete. Go on with it. Look at the " +
			"files first: what the summary leaves out is there.")
	default:
		p.add(Mark + " The work is not complete. Go on with it, without asking whether you should.")
	}
	p.idle(u.Idle)
	if u.Broken != "" {
		p.add("The turn before ended with an error: " + text.Short(u.Broken, maxItem))
	}
	p.answers(u.Answers)
	p.list("Not met yet:", u.Unmet)
	if u.Compacted {
		p.list("These items were on your todo list and are open, as far as is known. Put those that the list has lost "+
			"back on it, or say that they are done by listing them as completed:", u.Items)
	} else {
		p.list("Open items of your todo list:", u.Items)
	}
	p.gates("These commands were run and failed:", u.Gates, maxGateOutput/max(1, min(len(u.Gates), maxUnmet)))
	p.add(checkProgress(u.BlockerTool))
	// How the agent gets out: a prompt that demands the impossible would be answered for ever.
	ending := "Mark each item as completed when it is done and checked. Items that are not needed may be cancelled; one that " +
		"only a person can do is marked as blocked, with the reason in your last message."
	if u.Promise {
		ending += " When everything is done, and only then, end your last message with this line, as plain text:\n\n" +
			boulder.Promise
	}
	p.add(ending)
	return p.String()
}
