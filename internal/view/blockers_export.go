package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// BlockersMarkdown is blockers as a document: hard ones before soft ones, each with what was answered. Whatever the texts
// hold, they make no headings, items or links of their own.
func BlockersMarkdown(all []BlockerItem, now time.Time) string {
	var s strings.Builder
	pending := 0
	for i := range all {
		if !all[i].Status.Settled() {
			pending++
		}
	}
	fmt.Fprintf(&s, "# Blockers\n\n%s, %d of them without an answer. Exported %s.\n", text.Plural(len(all), "blocker"), pending,
		markdownTime(now))
	for _, section := range []struct {
		title string
		hard  bool
	}{{"Hard blockers", true}, {"Soft blockers", false}} {
		begun := false
		for i := range all {
			if b := &all[i]; b.Hard == section.hard {
				if !begun {
					fmt.Fprintf(&s, "\n## %s\n\n", section.title)
					begun = true
				}
				blockerMarkdown(&s, &b.Blocker)
				if b.Standing == blockers.Moot {
					s.WriteString("  - Nobody waits for an answer any more\n")
				}
			}
		}
	}
	return s.String()
}

func blockerMarkdown(s *strings.Builder, b *boulder.Blocker) {
	box := " "
	if b.Status.Settled() {
		box = "x"
	}
	fmt.Fprintf(s, "- [%s] **%s** %s\n", box, b.ID, inMarkdown(b.Question))
	field := func(name, value string) {
		if value = inMarkdown(value); value != "" {
			fmt.Fprintf(s, "  - %s: %s\n", name, value)
		}
	}
	field("Raised", markdownTime(b.CreatedAt))
	field("Category", string(b.Category))
	if b.BoulderID != "" {
		field("Sub-task", fmt.Sprintf("%s, attempt %d, of boulder %s", b.SubTaskID, b.Attempt, b.BoulderID))
	}
	field("Session", b.SessionID)
	field("Context", b.Context)
	if a := b.Ask; a != nil {
		field("Permission", JoinedBy(": ", a.Permission, strings.Join(a.Patterns, ", ")))
		field("Call", JoinedBy(" ", a.Tool, a.Arguments))
		if a.Reply == boulder.ReplyWaiting {
			field("Reply", "a person may give it until "+markdownTime(b.Until))
		} else {
			field("Reply", replyText(b, b.CreatedAt))
		}
	}
	for i, option := range b.Options {
		field(fmt.Sprintf("Option %d", i+1), option)
	}
	field("Chosen for now", b.ChosenOption)
	field("Because", b.ChosenReasoning)
	switch b.Status {
	case boulder.BlockerSkipped:
		field("Skipped", markdownTime(b.SettledAt))
	case boulder.BlockerAnswered:
		field("Answered", markdownTime(b.SettledAt))
	}
	if b.Allowed {
		field("Allowed", "yes, for the rest of the sub-task")
	}
	field("Answer", b.Answer)
}

func markdownTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// markdownEscapes are for what means something in the middle of a line. Nothing of a text stands at the beginning of one.
var markdownEscapes = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", `*`, `\*`, `[`, `\[`, `]`, `\]`, `<`, `\<`, `|`, `\|`, `~`, `\~`, `&`, `\&`,
)

func inMarkdown(s string) string { return markdownEscapes.Replace(text.OneLine(s)) }
