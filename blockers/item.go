package blockers

import (
	"fmt"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// item is a piece of blockers.md that is ours. It is written in one go, and never changed again.
type item struct {
	Section string `json:"section"` // the heading that it belongs under
	// Head and Tail are how its first and last line are recognised, see marks. Both are needed: a full disk cuts the tail
	// off, and an editor that writes at the same time overwrites the head.
	Head string `json:"head"`
	Tail string `json:"tail"`
	Text string `json:"text"` // whole lines
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

// The last lines of items begin with these.
const (
	recorded = "Recorded: "
	settled  = "Settled: "
	itemTime = "2006-01-02 15:04:05 UTC"
)

// raisedItem is the entry of a new blocker (seed 003, FR-027).
func raisedItem(b *boulder.Blocker) item {
	i := item{Section: sectionSoft, Head: b.ID, Tail: recorded + b.CreatedAt.UTC().Format(itemTime)}
	impact := "soft: the agent goes on"
	if b.Hard {
		i.Section, impact = sectionHard, "hard: work on it waits for the answer"
	}
	var s strings.Builder
	fmt.Fprintf(&s, "- [ ] **%s** %s\n", i.Head, inline(b.Question))
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
	fmt.Fprintf(&s, "  - %s\n", i.Tail)
	i.Text = s.String()
	return i
}

// settledItem is the entry of an answer.
func settledItem(b *boulder.Blocker) item {
	i := item{Section: sectionAnswers, Tail: settled + b.SettledAt.UTC().Format(itemTime)}
	said := b.Answer
	switch {
	case b.Status == boulder.BlockerSkipped:
		i.Head, said = b.ID+" skipped", "No answer: the work goes on without it."
	case b.Allowed:
		i.Head, said = b.ID+" allowed", strings.TrimSpace("You may. "+said)
	default:
		i.Head = b.ID + " answered"
	}
	var s strings.Builder
	fmt.Fprintf(&s, "- **%s** %s\n", i.Head, inline(said))
	field(&s, "Question", text.Cut(text.Fold(b.Question), maxOption))
	fmt.Fprintf(&s, "  - %s\n", i.Tail)
	i.Text = s.String()
	return i
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

// marks is what is found in blockers.md, whoever wrote it.
type marks struct {
	section string // the last heading; empty: none, or the file ends within a block of code
	whole   map[string]bool
	open    bool // the last line has no end
	empty   bool
}

// has reports whether an item is there from its head to its tail. What people did to it in between, and to the checkbox,
// does not matter.
func (m marks) has(i item) bool { return m.whole[i.Head+"\n"+i.Tail] }

// scan reads the file. It never fails: what is not ours is people's.
func scan(text string) marks {
	m := marks{whole: map[string]bool{}, open: text != "" && !strings.HasSuffix(text, "\n"), empty: text == ""}
	head, fence := "", ""
	for line := range strings.Lines(text) {
		indented := strings.TrimRight(line, " \t\r\n")
		line := strings.TrimLeft(indented, " \t")
		switch {
		case fence != "":
			if strings.HasPrefix(line, fence) && strings.Trim(line, fence[:1]) == "" {
				fence = ""
			}
		case strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~"):
			fence = line[:len(line)-len(strings.TrimLeft(line, line[:1]))]
		case strings.HasPrefix(line, "#") && len(indented)-len(line) < 4:
			title := strings.TrimLeft(line, "#")
			if title == "" || title[0] == ' ' || title[0] == '\t' {
				m.section = strings.TrimSpace(strings.TrimRight(title, "# \t"))
			}
		}
		// Items are looked for within code as well: where people leave a block of code open, they are all in it.
		if found := headOf(line); found != "" {
			head = found
		} else if head != "" && line != "" && strings.IndexByte(bullets, line[0]) >= 0 {
			if tail := strings.TrimLeft(line[1:], " \t"); strings.HasPrefix(tail, recorded) || strings.HasPrefix(tail, settled) {
				m.whole[head+"\n"+tail] = true
			}
		}
	}
	if fence != "" {
		m.section = ""
	}
	return m
}

// bullets begin the entries of a list.
const bullets = "-*+"

// headOf is what a line has in bold where an item begins, behind a bullet and perhaps a checkbox.
func headOf(line string) string {
	if len(line) < 2 || strings.IndexByte(bullets, line[0]) < 0 {
		return ""
	}
	line = strings.TrimLeft(line[1:], " \t")
	if len(line) >= 3 && line[0] == '[' && line[2] == ']' {
		line = strings.TrimLeft(line[3:], " \t")
	}
	bold, ok := strings.CutPrefix(line, "**B")
	head, _, closed := strings.Cut(bold, "**")
	if !ok || !closed {
		return ""
	}
	return "B" + head
}

// compose is what has to be appended to a file for it to have the items, each under its heading.
func compose(m marks, items []item) string {
	var s strings.Builder
	switch {
	case m.empty:
		s.WriteString(preamble)
	case m.open:
		s.WriteString("\n")
	}
	section := m.section
	for _, i := range items {
		if i.Section != section {
			section = i.Section
			fmt.Fprintf(&s, "\n## %s\n\n", section)
		}
		s.WriteString(i.Text)
	}
	return s.String()
}

// queued is an item in the outbox.
type queued struct {
	item
	number  uint64
	Written time.Time `json:"written,omitzero"` // it was seen in the file then; zero: never
}
