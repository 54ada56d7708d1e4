package executor

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// TranscriptLine is one line of a transcript. Lines are in the order of what was said and done.
type TranscriptLine struct {
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
	Usage  boulder.Usage   `json:"usage,omitzero"` // of the step that ends
}

const (
	toolOutputKept = 64 << 10 // characters of one tool's output
	transcriptKept = 64 << 20 // bytes, as it is held in memory; a session of days has some 10 MiB
)

func linesOf(m opencode.Message) []TranscriptLine {
	var lines []TranscriptLine
	for _, p := range m.Parts {
		l := TranscriptLine{Time: m.Info.Created, Text: p.Text}
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
		end := TranscriptLine{Time: m.Info.Completed, Type: "end", Finish: m.Info.Finish, Usage: session.Usage(m.Info.Tokens, m.Info.Cost)}
		if e := m.Info.Error; e != nil {
			end.Error = e.Name + ": " + e.Message
		}
		lines = append(lines, end)
	}
	return lines
}

const runsDir = ".manager/runs" // transcripts and files of briefs, below the project

// writeRun writes or replaces a file in runsDir, and returns when it is on disk. It trusts no link below the project,
// since an agent may have put it there.
func (e *Executor) writeRun(name string, data []byte) error {
	return statedir.Write(e.cfg.Project, runsDir+"/"+name, data)
}

// checkIDs refuses ids that cannot be directory names. Plans and imports were checked; ids made by a program were not.
func checkIDs(ids ...string) error {
	for _, id := range ids {
		if id == "" || id == "." || !filepath.IsLocal(id) || strings.ContainsAny(id, "/\\\x00") {
			return fmt.Errorf("%w: the id %q cannot be the name of a directory: use letters, digits, - and _",
				boulder.ErrFatal, id)
		}
	}
	return nil
}

func (t *turn) writeFiles() error {
	for _, f := range t.job.Files {
		name, err := filepath.Rel(filepath.Join(t.cfg.Project, runsDir), f.Path)
		if err == nil {
			err = t.writeRun(name, []byte(t.cfg.Redact.Text(f.Text)))
		}
		if err != nil {
			return fmt.Errorf("write what the brief refers to: %w", err)
		}
	}
	return nil
}
