package prompts

import (
	"fmt"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

const (
	maxTargeted   = 4_000 // of the judge's own prompt
	maxUnmet      = 10    // list items of each kind
	maxItem       = 500   // of one list item
	maxGateOutput = 6_000 // of all red gates together
)

// Told is what a continuation has to say besides what the judge found.
type Told struct {
	Idle        int    // turns in a row without a tool call, once these are too many; 0: they are not
	News               // since the turn began
	BlockerTool string // as in [Input]; where there is one, the agent is asked to check where its tasks stand
}

// Continuation writes the prompt that sends an idle session back to work after a turn that was judged incomplete:
// what the verdict asks for, what is unmet, and the red gates with the tails of their output. Lists and outputs are
// bounded, so that it stays below 60,000 characters besides the commands themselves and the notes. The turn has its evidence
// and its verdict.
func Continuation(t boulder.SubTask, turn boulder.Turn, told Told) string {
	v, e := turn.Verdict, turn.Evidence
	p := prompt{}
	if v.Completed {
		p.add(fmt.Sprintf("[manager] Sub-task %q is complete as far as can be seen, and there is news. Change what does not agree"+
			" with it, in this session.", t.ID))
	} else {
		p.add(fmt.Sprintf("[manager] Sub-task %q is not complete yet. Go on with it in this session.", t.ID))
	}
	if e.Ended.Finish == "length" {
		p.add("You reached the output limit. Work in smaller steps and write shorter messages.")
	}
	p.idle(told.Idle)
	p.news(told.News)
	p.add(text.Excerpt(clean(v.ContinuationPrompt), maxTargeted, text.Start))
	p.list("Not met yet:", unmet(v))
	p.list("Still to do:", v.Remaining)
	if t.DoneNeeds(boulder.DoneTodos) {
		var open []string
		for _, todo := range e.OpenTodos() {
			open = append(open, todo.Content)
		}
		p.list("Open items of your todo list; finish them, or cancel those that are not needed:", open)
	}
	if t.DoneNeeds(boulder.DoneDiagnostics) {
		p.list("Errors that the language server finds in files you changed:", e.Errors())
	}
	switch {
	case !t.DoneNeeds(boulder.DonePromise):
	case e.Promised:
		p.add("You wrote " + boulder.Promise + ", and yet this is not done. There is no need to write it again: finish the work.")
	default:
		p.add("You have not written " + boulder.Promise + ". When, and only when, all that your brief asks for is done and " +
			"checked, write it on a line of its own, outside of code blocks.")
	}
	var red, worse []boulder.Gate
	for _, g := range e.Red() {
		if t.MayStayRed(g.Command) {
			worse = append(worse, g)
		} else {
			red = append(red, g)
		}
	}
	room := maxGateOutput / max(1, min(len(red), maxUnmet)+min(len(worse), maxUnmet))
	p.gates("These commands were run and failed. They must exit 0:", red, room)
	p.gates("These commands were run and fail in more ways than before you began. They may fail as they did, and no more:",
		worse, room)
	p.add(checkProgress(told.BlockerTool))
	return p.String()
}

// unmet lists the criteria that the verdict says are not met, with its reasons.
func unmet(v *boulder.Verdict) []string {
	var items []string
	for _, c := range v.Criteria {
		switch reason := text.Short(c.Evidence, maxItem/2); {
		case c.Met:
		case reason == "":
			items = append(items, c.Criterion)
		default:
			items = append(items, fmt.Sprintf("%s (%s)", c.Criterion, reason))
		}
	}
	return items
}

// prompt collects paragraphs.
type prompt struct{ paragraphs []string }

func (p *prompt) add(text string) {
	if text != "" {
		p.paragraphs = append(p.paragraphs, text)
	}
}

// notes adds what people noted since the last prompt, the newest ones.
func (p *prompt) notes(notes []string) {
	if len(notes) == 0 {
		return
	}
	p.add("The person whose job this is noted meanwhile; it takes precedence over the brief:")
	if n := len(notes) - maxUnmet; n > 0 {
		p.add(fmt.Sprintf("[cut: the first %d of %d notes]", n, len(notes)))
	}
	for _, n := range notes[max(0, len(notes)-maxUnmet):] {
		p.add(clean(n))
	}
}

func (p *prompt) list(heading string, items []string) {
	if len(items) == 0 {
		return
	}
	more := ""
	if n := len(items) - maxUnmet; n > 0 {
		items, more = items[:maxUnmet], fmt.Sprintf("\n[cut: %d of %d items]", n, len(items))
	}
	lines := []string{heading}
	for _, item := range items {
		lines = append(lines, "- "+text.Short(item, maxItem))
	}
	p.add(strings.Join(lines, "\n") + more)
}

// gates shows the end of each output: that is where commands say what failed.
func (p *prompt) gates(heading string, red []boulder.Gate, room int) {
	if len(red) == 0 {
		return
	}
	p.add(heading)
	if n := len(red) - maxUnmet; n > 0 {
		p.add(fmt.Sprintf("[cut: %d of %d commands; they are at the end of the list in your brief]", n, len(red)))
		red = red[:maxUnmet]
	}
	for _, g := range red {
		block := indented(g.Command) + "\n\n" + gateEnd(g)
		if output := clean(g.Output); output != "" {
			block += ":\n" + indented(text.Excerpt(output, room, text.End))
		}
		p.add(block)
	}
}

func gateEnd(g boulder.Gate) string {
	switch {
	case g.TimedOut:
		return fmt.Sprintf("was stopped after %s", g.Duration.Round(time.Second))
	case g.ExitCode < 0:
		return "could not be run"
	}
	return fmt.Sprintf("exit code %d", g.ExitCode)
}

// addition is what is put behind another prompt; nothing, if there is nothing to say.
func (p *prompt) addition() string {
	if len(p.paragraphs) == 0 {
		return ""
	}
	return "\n" + p.String()
}

// Forgotten adds to a continuation the items of the manager's own record that the agent's todo list has lost when the
// conversation was replaced by a summary; nothing, if there are none.
func Forgotten(items []string) string {
	p := prompt{}
	p.list("These items were open on your todo list before the conversation was summarised, and it has lost them. Put back "+
		"those that are still to be done:", items)
	return p.addition()
}

// idle tells an agent that has only talked for some turns to act.
func (p *prompt) idle(turns int) {
	if turns > 0 {
		p.add(fmt.Sprintf("Your last %d turns called no tool, and words alone finish nothing. Act now, with tools. If you "+
			"cannot, say exactly what is in the way.", turns))
	}
}

func (p *prompt) String() string { return strings.Join(p.paragraphs, separator) + "\n" }
