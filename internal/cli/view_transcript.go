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
	"time"
)

// runsDir is where the transcripts are, relative to the project.
const runsDir = ".manager/runs"

// longestLine bounds one line of a transcript file, in bytes. A tool's output has 64 Ki characters at most there; what
// an agent wrote is not cut.
const longestLine = 16 << 20

// lineTooLong is the type of what stands for a line that is longer.
const lineTooLong = "too-long"

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

// parseTranscript reads the lines that can be read; one that is too long to be is told in its place.
func parseTranscript(r io.Reader) ([]transcriptLine, error) {
	var lines []transcriptLine
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		data, size, err := readLine(in)
		var l transcriptLine
		switch {
		case size > longestLine:
			l = transcriptLine{Type: lineTooLong, Text: fmt.Sprintf("a line of %d bytes is not shown", size)}
			l.raw, _ = json.Marshal(map[string]any{"type": l.Type, "bytes": size})
			if n := len(lines); n > 0 {
				l.Time = lines[n-1].Time
			}
			lines = append(lines, l)
		case json.Unmarshal(data, &l) == nil && l.Type != "":
			l.raw = data
			lines = append(lines, l)
		}
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
	}
}

// readLine reads up to a line's end, and keeps no more of a line than may be. size is that of the whole line.
func readLine(in *bufio.Reader) (line []byte, size int, err error) {
	for {
		part, err := in.ReadSlice('\n')
		size += len(part)
		if size <= longestLine {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, size, err
		}
	}
}
