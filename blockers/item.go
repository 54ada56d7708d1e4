package blockers

import (
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// item is a piece of blockers.md that is ours. It is written in one go, and never changed again.
type item struct {
	Section string // the heading that it belongs under
	Text    string // whole lines
}

// The sections.
const (
	sectionHard    = "Hard blockers"
	sectionSoft    = "Soft blockers"
	sectionAnswers = "Answers"
)

// preamble is what a new file begins with.
const preamble = `# Blockers

What only a person can decide, as it came up. Tick, change and add what you like: manager only ever appends to this file.
An answer reaches the agents with ` + "`manager blockers answer ID \"…\"`" + ` or ` + "`manager blockers clarify`" + `.
`

const itemTime = "2006-01-02 15:04:05 UTC"

// raisedItem is the entry of a new blocker (seed 003, FR-027).
func raisedItem(b *boulder.Blocker) item {
	section, impact := sectionSoft, "soft: the agent goes on"
	if b.Hard {
		section, impact = sectionHard, "hard: work on it waits for the answer"
	}
	var s strings.Builder
	fmt.Fprintf(&s, "- [ ] **%s** %s\n", b.ID, inline(b.Question))
	field(&s, "Category", string(b.Category)+" ("+impact+")")
	field(&s, "Context", b.Context)
	if a := b.Ask; a != nil {
		if a.Kind == boulder.AskPermission && !strings.Contains(b.Question, wanted(a)) {
			field(&s, "Permission", wanted(a))
		}
		field(&s, "Tool", a.Tool)
		field(&s, "Arguments", text.Cut(text.Fold(a.Arguments), maxOption))
	}
	for n, o := range b.Options {
		field(&s, fmt.Sprintf("Option %d", n+1), o)
	}
	field(&s, "Chosen", b.ChosenOption)
	field(&s, "Because", b.ChosenReasoning)
	if !b.Until.IsZero() {
		field(&s, "Waits for a person", "until "+b.Until.UTC().Format(itemTime)+", then it is refused")
	}
	if b.BoulderID != "" {
		field(&s, "Sub-task", fmt.Sprintf("%s, attempt %d, boulder %s", b.SubTaskID, b.Attempt, b.BoulderID))
	}
	field(&s, "Session", b.SessionID)
	field(&s, "Recorded", b.CreatedAt.UTC().Format(itemTime))
	return item{section, s.String()}
}

// settledItem is the entry of an answer.
func settledItem(b *boulder.Blocker) item {
	word, said := "answered", b.Answer
	switch {
	case b.Status == boulder.BlockerSkipped:
		word, said = "skipped", "No answer: the work goes on without it."
	case b.Allowed:
		word, said = "allowed", strings.TrimSpace("You may. "+said)
	}
	var s strings.Builder
	fmt.Fprintf(&s, "- **%s %s** %s\n", b.ID, word, inline(said))
	field(&s, "Question", text.Cut(text.Fold(b.Question), maxOption))
	field(&s, "Settled", b.SettledAt.UTC().Format(itemTime))
	return item{sectionAnswers, s.String()}
}

func field(s *strings.Builder, name, value string) {
	if value = inline(value); value != "" {
		fmt.Fprintf(s, "  - %s: %s\n", name, value)
	}
}

// inlineEscapes take from text what could become a link, a picture, HTML or a checkbox. What makes headings, lists and
// quotes does so at the beginning of a line only, where no such text is.
var inlineEscapes = strings.NewReplacer(`\`, `\\`, `<`, `\<`, `[`, `\[`)

// inline makes one line of a text that is nothing but text.
func inline(s string) string { return inlineEscapes.Replace(text.Fold(clean(s))) }
