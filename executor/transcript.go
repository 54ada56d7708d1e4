package executor

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

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

// saveTranscript replaces the file with the session as it is now. It returns when the file is on disk.
func saveTranscript(path string, messages []opencode.Message) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".transcript-*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	for _, m := range messages {
		for _, l := range linesOf(m) {
			if err := enc.Encode(l); err != nil {
				return fmt.Errorf("message %s: %w", m.Info.ID, err)
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func linesOf(m opencode.Message) []line {
	var lines []line
	for _, p := range m.Parts {
		l := line{Time: m.Info.Created, Text: p.Text}
		switch {
		case p.Tool != nil:
			l.Type, l.Tool, l.CallID, l.State = "tool", p.Tool.Tool, p.Tool.CallID, string(p.Tool.State)
			l.Output, l.Error = head(p.Tool.Output, toolOutputKept), p.Tool.Error
			if json.Valid(p.Tool.Input) {
				l.Input = p.Tool.Input
			}
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
