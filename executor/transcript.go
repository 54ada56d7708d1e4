package executor

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/bouldermgr/manager/internal/statedir"
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

// transcript is a transcript that is being written, beside an earlier one whose place it takes when it is saved.
type transcript struct {
	name string // in the directory of all
	runs *statedir.Dir
	file *statedir.File
	w    *bufio.Writer
	enc  *json.Encoder
}

func (e *Executor) newTranscript(name string) (*transcript, error) {
	runs, err := e.openRuns()
	if err != nil {
		return nil, err
	}
	f, err := runs.Create(name)
	if err != nil {
		runs.Close()
		return nil, err
	}
	t := &transcript{name: name, runs: runs, file: f, w: bufio.NewWriterSize(f, 64<<10)}
	t.enc = json.NewEncoder(redacting{t.w, e.cfg.Redact.JSON})
	t.enc.SetEscapeHTML(false) // people read it
	return t, nil
}

// redacting writes what an encoder gives it, one value at a time, without secrets.
type redacting struct {
	w      io.Writer
	redact func([]byte) []byte
}

func (r redacting) Write(p []byte) (int, error) {
	if _, err := r.w.Write(r.redact(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (t *transcript) add(m opencode.Message) error {
	for _, l := range linesOf(m) {
		if err := t.enc.Encode(l); err != nil {
			return fmt.Errorf("message %s: %w", m.Info.ID, err)
		}
	}
	return nil
}

// save returns when the file is on disk. Whatever it returns, nothing else is left behind.
func (t *transcript) save() error {
	defer t.runs.Close()
	err := t.w.Flush()
	if err == nil {
		err = t.file.Sync()
	}
	if err != nil {
		t.file.Discard()
		return err
	}
	return t.file.Publish()
}

func (t *transcript) discard() {
	t.file.Discard()
	t.runs.Close()
}

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
