package executor

import (
	"encoding/json"
	"time"

	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
)

// line is one line of a transcript: what was said or done, in order.
type line struct {
	Time   time.Time       `json:"time"`
	Type   string          `json:"type"` // prompt | text | reasoning | tool | end
	Text   string          `json:"text,omitempty"`
	Tool   string          `json:"tool,omitempty"`
	CallID string          `json:"call_id,omitempty"`
	State  string          `json:"state,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"`
	Output string          `json:"output,omitempty"`
	Finish string          `json:"finish,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// toolOutputKept bounds one tool's output in a transcript, in characters.
const toolOutputKept = 64 << 10

func linesOf(m opencode.Message) []line {
	var lines []line
	for _, p := range m.Parts {
		l := line{Time: m.Info.Created, Text: p.Text}
		switch {
		case p.Tool != nil:
			l.Type, l.Tool, l.CallID, l.State = "tool", p.Tool.Tool, p.Tool.CallID, string(p.Tool.State)
			l.Error, l.Input = p.Tool.Error, p.Tool.Input
			l.Output = text.Excerpt(p.Tool.Output, toolOutputKept, text.Start)
		case p.Type == opencode.PartReasoning:
			l.Type = "reasoning"
		case p.Type != opencode.PartText:
			continue
		case m.Info.Role == opencode.RoleUser:
			l.Type = "prompt"
		default:
			l.Type = "text"
		}
		lines = append(lines, l)
	}
	if m.Info.Role == opencode.RoleAssistant && (m.Info.Finish != "" || m.Info.Error != nil) {
		end := line{Time: m.Info.Completed, Type: "end", Finish: m.Info.Finish}
		if e := m.Info.Error; e != nil {
			end.Error = e.Name + ": " + e.Message
		}
		lines = append(lines, end)
	}
	return lines
}
