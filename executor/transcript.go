package executor

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
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

// transcript is a transcript that is being written: anew, beside an earlier one whose place it takes when it is saved; or
// the end of one.
type transcript struct {
	name   string // in the directory of all
	size   int64  // bytes, with what is not written yet
	runs   *statedir.Dir
	anew   *statedir.File // nil: it is the end of one
	file   *os.File
	w      *bufio.Writer
	enc    *json.Encoder
	redact func([]byte) []byte
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
	t := e.transcriptIn(runs, name, f.File, 0)
	t.anew = f
	return t, nil
}

// continueTranscript writes over the marked message and what follows it. Most often these are the very bytes that are there
// already, so nothing is cut off before: a crash on the way takes nothing away. It gives nil if the file is not as the mark's turn left it.
func (e *Executor) continueTranscript(m mark) *transcript {
	runs, err := e.openRuns()
	if err != nil {
		return nil // the whole is written anew, and says what is wrong if that fails, too
	}
	f, err := runs.OpenFile(m.name)
	if err != nil {
		runs.Close()
		return nil
	}
	now, err := f.Stat()
	same := err == nil && os.SameFile(now, m.file) && now.Size() == m.file.Size() && now.ModTime().Equal(m.file.ModTime())
	if same {
		_, err = f.Seek(m.lastAt, io.SeekStart)
	}
	if !same || err != nil {
		_ = f.Close()
		runs.Close()
		return nil
	}
	return e.transcriptIn(runs, m.name, f, m.lastAt)
}

func (e *Executor) transcriptIn(runs *statedir.Dir, name string, f *os.File, size int64) *transcript {
	t := &transcript{
		name: name, size: size, runs: runs, file: f, w: bufio.NewWriterSize(f, 64<<10), redact: e.cfg.Redact.JSON,
	}
	t.enc = json.NewEncoder(t)
	t.enc.SetEscapeHTML(false) // people read it
	return t
}

// Write is for the encoder, which gives it one line at a time.
func (t *transcript) Write(p []byte) (int, error) {
	clean := t.redact(p)
	t.size += int64(len(clean))
	if _, err := t.w.Write(clean); err != nil {
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

// save returns when the file is on disk, and says what it is then. Whatever it returns, nothing else is left behind.
func (t *transcript) save() (info fs.FileInfo, err error) {
	defer func() {
		if err != nil {
			t.discard()
		}
	}()
	if err := t.w.Flush(); err != nil {
		return nil, err
	}
	if err := t.file.Truncate(t.size); err != nil {
		return nil, err
	}
	if err := t.file.Sync(); err != nil {
		return nil, err
	}
	if info, err = t.file.Stat(); err != nil {
		return nil, err
	}
	if t.anew != nil {
		err = t.anew.Publish()
	} else {
		err = t.file.Close()
	}
	if err == nil {
		t.runs.Close()
	}
	return info, err
}

func (t *transcript) discard() {
	if t.anew != nil {
		t.anew.Discard()
	} else {
		_ = t.file.Close()
	}
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
