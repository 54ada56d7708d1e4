package session

import (
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
)

// MaxWords bounds what is kept of an agent's words in a turn, in characters: of the final message, and of all together.
const MaxWords = 8000

// maxCallsLine bounds the line of the tool calls between two texts, in characters.
const maxCallsLine = 200

// Words collects what an agent says in a turn.
type Words struct {
	parts []string // texts, and between two of them a line of tool calls
	texts int
	since []string // tool calls since the last text
}

// Add adds an answer of the agent: its text first, then its tool calls, as models give them.
func (w *Words) Add(m opencode.Message) {
	if said := strings.TrimSpace(m.Text()); said != "" && !m.Info.Compacted {
		if len(w.parts) > 0 && len(w.since) > 0 {
			line := text.Plural(len(w.since), "tool call") + ": " + strings.Join(w.since, "; ")
			w.parts = append(w.parts, fmt.Sprintf("[%s]", text.Short(line, maxCallsLine)))
		}
		w.parts, w.texts, w.since = append(w.parts, said), w.texts+1, nil
	}
	for _, p := range m.Parts {
		if p.Tool != nil {
			w.since = append(w.since, strings.TrimSpace(p.Tool.Tool+" "+p.Tool.Title))
		}
	}
}

// Text returns all of it, without the middle if it is too long; "" if there is at most one text.
func (w *Words) Text() string {
	if w.texts < 2 {
		return ""
	}
	return text.Excerpt(strings.Join(w.parts, "\n\n"), MaxWords, text.Ends)
}

// Said returns what the assistant said in the newest turn, as [Words.Text].
func (t *Tree) Said() string {
	var w Words
	for _, m := range t.turn() {
		if m.assistant() {
			w.Add(m.Message)
		}
	}
	return w.Text()
}
