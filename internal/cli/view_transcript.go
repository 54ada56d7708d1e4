package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// runsDir is where the transcripts are, relative to the project.
const runsDir = ".manager/runs"

// longestLine bounds one line of a transcript file, in bytes: it has a tool's output of 64 Ki characters at most, and
// what is longer is not of our making.
const longestLine = 8 << 20

// transcriptLine is one line of a transcript file; package executor writes and documents them.
type transcriptLine struct {
	Time   time.Time       `json:"time"`
	Type   string          `json:"type"` // prompt | text | reasoning | tool | end
	Text   string          `json:"text"`
	Tool   string          `json:"tool"`
	State  string          `json:"state"`
	Input  json.RawMessage `json:"input"`
	Output string          `json:"output"`
	Finish string          `json:"finish"`
	Error  string          `json:"error"`

	raw json.RawMessage // as it is in the file
}

// readTranscript reads the transcript that a record names by its path relative to the project. A record is not trusted
// to name a file elsewhere: what is not below .manager/runs, also by way of a symbolic link, is not opened. A
// transcript that is gone is empty; lines that cannot be read are left out.
func readTranscript(project, name string) ([]transcriptLine, error) {
	rel, err := filepath.Rel(runsDir, filepath.FromSlash(name))
	if err != nil || !filepath.IsLocal(rel) {
		return nil, fmt.Errorf("transcript %q is not below %s and was not read", name, runsDir)
	}
	root, err := os.OpenRoot(filepath.Join(project, runsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("transcripts: %w", err)
	}
	defer root.Close()
	f, err := root.Open(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("transcript: %w", err)
	}
	defer f.Close()
	lines, err := parseTranscript(f)
	if err != nil {
		return lines, fmt.Errorf("transcript %s: %w", name, err)
	}
	return lines, nil
}

func parseTranscript(r io.Reader) ([]transcriptLine, error) {
	var lines []transcriptLine
	s := bufio.NewScanner(r)
	s.Buffer(nil, longestLine)
	for s.Scan() {
		var l transcriptLine
		if json.Unmarshal(s.Bytes(), &l) != nil || l.Type == "" {
			continue
		}
		l.raw = append(l.raw, s.Bytes()...)
		lines = append(lines, l)
	}
	return lines, s.Err()
}

// describe is the line as people read it; a prompt or an answer has more than one line.
func (l transcriptLine) describe(verbose bool) string {
	switch l.Type {
	case "prompt", "text", "reasoning":
		return l.Type + ":\n" + indent(strings.TrimSpace(safeText(l.Text)), "    ")
	case "tool":
		return l.describeTool(verbose)
	case "end":
		return "end: " + oneLine(joinedBy(", ", l.Finish, l.Error))
	}
	return oneLine(l.Type + " " + l.Text)
}

// toolShown is how much of a tool's input and error is shown, in columns.
const toolShown = 160

func (l transcriptLine) describeTool(verbose bool) string {
	text := oneLine(fmt.Sprintf("tool %s (%s)", l.Tool, l.State)) + " "
	if !verbose {
		return text + clipText(string(l.Input)+" "+l.Error, toolShown)
	}
	text += oneLine(string(l.Input))
	if out := strings.TrimSpace(safeText(joinedBy("\n", l.Output, l.Error))); out != "" {
		text += "\n" + indent(out, "    ")
	}
	return text
}
