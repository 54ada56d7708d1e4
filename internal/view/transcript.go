package view

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// LongestLine bounds one line of a transcript file, in bytes. A tool's output has 64 Ki characters at most there; what
// an agent wrote is not cut.
const LongestLine = 16 << 20

// lineTooLong is the type of what stands for a line that is longer.
const lineTooLong = "too-long"

// TranscriptLine is one line of a transcript file; package executor writes and documents them.
type TranscriptLine struct {
	Time   time.Time       `json:"time"`
	Type   string          `json:"type"` // prompt | text | reasoning | tool | end
	Text   string          `json:"text"`
	Tool   string          `json:"tool"`
	State  string          `json:"state"`
	Input  json.RawMessage `json:"input"`
	Output string          `json:"output"`
	Finish string          `json:"finish"`
	Error  string          `json:"error"`

	Raw json.RawMessage `json:"-"` // as it is in the file
}

// ParseTranscript reads the lines that can be read; one that is too long to be is told in its place.
func ParseTranscript(r io.Reader) ([]TranscriptLine, error) {
	var lines []TranscriptLine
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		data, size, err := readLine(in)
		var l TranscriptLine
		switch {
		case size > LongestLine:
			l = TranscriptLine{Type: lineTooLong, Text: fmt.Sprintf("a line of %d bytes is not shown", size)}
			l.Raw, _ = json.Marshal(map[string]any{"type": l.Type, "bytes": size})
			if n := len(lines); n > 0 {
				l.Time = lines[n-1].Time
			}
			lines = append(lines, l)
		case json.Unmarshal(data, &l) == nil && l.Type != "":
			l.Raw = data
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
		if size <= LongestLine {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, size, err
		}
	}
}
