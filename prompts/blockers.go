package prompts

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Answers words the user's answers to blockers of a sub-task, for its next prompt.
func Answers(settled []boulder.Blocker) []string {
	var texts []string
	for _, b := range settled {
		said := fmt.Sprintf("About %s, %q: ", b.ID, text.Short(b.Question, maxItem))
		switch {
		case b.Status == boulder.BlockerSkipped:
			said += "there will be no answer. Do without: leave out what needs it, and say so in the end."
		case b.Allowed && b.Answer == "":
			said += "you may."
		case b.Allowed:
			said += "you may. " + clean(b.Answer)
		default:
			said += clean(b.Answer)
		}
		texts = append(texts, said)
	}
	return texts
}

// PlanAnswers words the user's answers to questions of the planner.
func PlanAnswers(questions []boulder.Question) []string {
	var texts []string
	for _, q := range questions {
		if q.By == boulder.ByUser {
			texts = append(texts, fmt.Sprintf("About %s, %q: %s", q.ID, text.Short(q.Question, maxItem), clean(q.Answer)))
		}
	}
	return texts
}

// triage explains the tool with which agents report blockers (seed 003, FR-011, FR-026).
func triage(d boulder.Diversion) string {
	if d.Tool == "" {
		return ""
	}
	return "The user does not read along. Never wait for an answer, and never end with a question: call the tool `" + d.Tool + "`, once for " +
		"each thing, and go on.\n\n" +
		"- A soft blocker (`blocks_progress: false`) is a choice that can be changed later: " + strings.Join(d.Soft, ", ") + ". " +
		"Look into three `options`, take one, say which (`chosen_option`) and why (`chosen_reasoning`), and go " +
		"on with it.\n" +
		"- A hard blocker (`blocks_progress: true`) is what you must not decide: architecture that much depends on, " +
		"security, secrets, money, deleting or publishing something, or a refused permission that the work cannot do " +
		"without. Do not get around it. Do everything that does not depend on it; when nothing is left, write " + d.Marker +
		" on a line of its own, outside of code blocks, and end your turn: the answer comes later.\n\n" +
		"`question` is for the user, who has not seen your work; `context` says what the user has to know: files, findings, what " +
		"follows from each answer. A permission that was refused is on record already: do not ask for it again, and report it " +
		"with the tool only where it is a hard blocker."
}

const triageHeading = "## When you need the user"

// Questions words blockers that have no answer yet, for the prompt of the agent that raised them.
func Questions(awaited []boulder.Blocker) []string {
	var texts []string
	for _, b := range awaited {
		texts = append(texts, fmt.Sprintf("%s: %s", b.ID, text.Short(b.Question, maxItem)))
	}
	return texts
}

// aside tells an agent to go on without the answers to its questions, and when it may end (seed 003, US2, US4).
func (p *prompt) aside(questions []string, d boulder.Diversion) {
	if len(questions) == 0 {
		return
	}
	p.list("There is no answer yet to what you asked:", questions)
	p.add("Leave aside what needs the answer, and only that: mark such items of your todo list as blocked. Do everything else that was " +
		"asked for, in this session. When nothing is left that can be done without the answer, and only then, write " + d.Word() +
		" on a line of its own, outside of code blocks.")
}

// GoAround writes the prompt after the turn in which a session raised hard blockers: it is to do what does not need the
// answers. The turn is not judged.
func GoAround(t boulder.SubTask, told Extra) string {
	p := prompt{}
	p.add(fmt.Sprintf("[manager] Sub-task %q is not complete yet. Go on with it in this session, as far as you can.", t.ID))
	p.idle(told.Idle)
	p.news(told.News)
	p.aside(told.Aside, told.Diversion)
	return p.String()
}

// interrupted tells what a session did that ended without having failed.
func interrupted(t *boulder.SubTask) string {
	if t.Before == "" {
		return ""
	}
	return "How it ended is below, and was no failure. Find out what is done of it in the files, and go on from there." +
		separator + text.Quote(clean(t.Before))
}

// checkProgress asks an agent where its tasks stand, and says how to end (seed 003, FR-014, FR-015).
func checkProgress(d boulder.Diversion) string {
	if d.Tool == "" {
		return ""
	}
	return "Check where each of your tasks stands. What only the user can decide, report with the tool `" + d.Tool + "`, unless " +
		"you have, and go on with the rest; what you can do, do. When nothing is left to be done, and only then, write " +
		d.Marker + " on a line of its own, outside of code blocks."
}

// News is what the user has said, oldest first.
type News struct {
	Notes   []string
	Answers []string // about blockers, see [Answers]
}

// Addition returns the news to append to a prompt that was not sent at once; empty if there are none.
func (n News) Addition() string {
	p := prompt{}
	p.news(n)
	return p.addition()
}

func (p *prompt) news(n News) {
	p.answers(n.Answers)
	p.notes(n.Notes)
}

const (
	maxAnswers = 12_000 // characters of all answers in one prompt
	minAnswer  = 200    // of each that is given
)

// answers adds the answers since the last prompt: short ones whole, long ones sharing the room, of many the newest.
func (p *prompt) answers(answers []string) {
	if len(answers) == 0 {
		return
	}
	p.add("The user answered what you asked; it takes precedence over the brief:")
	if n := len(answers) - maxAnswers/minAnswer; n > 0 {
		p.add(fmt.Sprintf("[cut: the first %d of %d answers]", n, len(answers)))
		answers = answers[n:]
	}
	var lengths []int
	for _, a := range answers {
		lengths = append(lengths, utf8.RuneCountInString(a))
	}
	level := text.Level(lengths, maxAnswers)
	for _, a := range answers {
		p.add("- " + within(text.Excerpt(a, level, text.Start)))
	}
}
