package executor

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/providers"
)

// lookAnswer is the answer of a look, as its prompt asks for it.
type lookAnswer struct {
	Findings []struct {
		Question  string `json:"question"` // a number, as is the line, which may also be a range
		Statement string `json:"statement" also:"finding"`
		File      string `json:"file"`
		Line      string `json:"line"`
		Command   string `json:"command"`
		Sure      string `json:"sure"`
	} `json:"findings"`
}

const (
	maxStatement = 500     // characters
	maxLookedAt  = 4 << 20 // bytes of a file whose lines are counted
)

// findings reads the answer of a look at the project in dir, with at most most findings for each question. A finding whose
// place does not exist is refuted.
func findings(dir, answer string, questions, most int) (boulder.Looked, error) {
	said, err := providers.Decode[lookAnswer](answer, func(a *lookAnswer) error {
		if a.Findings == nil {
			return fmt.Errorf("there is no list %q", "findings")
		}
		return nil
	})
	if err != nil {
		return boulder.Looked{}, err
	}
	root, err := os.OpenRoot(dir) // no link leads out of it
	if err != nil {
		return boulder.Looked{}, err
	}
	defer root.Close()
	var end boulder.Looked
	of := map[int]int{}
	for _, f := range said.Findings {
		found := boulder.Finding{
			Statement: text.Short(f.Statement, maxStatement), File: filepath.ToSlash(filepath.Clean(strings.TrimPrefix(f.File, dir+"/"))),
			Line: number(f.Line), Command: text.Short(f.Command, maxStatement), Sure: boulder.Sureness(strings.ToLower(strings.TrimSpace(f.Sure))),
		}
		if strings.TrimSpace(f.File) == "" {
			found.File = ""
		}
		if found.File == "" {
			found.Line = 0
		}
		if !slices.Contains(found.Sure.Words(), string(found.Sure)) {
			found.Sure = ""
		}
		asked := min(max(number(f.Question), 1), questions)
		switch wrong := refuted(root, found); {
		case found.Statement == "" || of[asked] == most:
		case wrong != "":
			end.Refuted = append(end.Refuted, found.Statement+": "+wrong)
		default:
			of[asked]++
			found.ID = fmt.Sprintf("f%d", len(end.Findings)+1)
			end.Findings = append(end.Findings, found)
		}
	}
	end.Refuted = end.Refuted[:min(len(end.Refuted), most)]
	return end, nil
}

// number returns the number that s begins with, or 0.
func number(s string) int {
	s = strings.TrimSpace(s)
	n, err := strconv.Atoi(s[:len(s)-len(strings.TrimLeft(s, "0123456789"))])
	if err != nil {
		return 0
	}
	return n
}

// refuted says why the place of a finding cannot show it, or returns "".
func refuted(root *os.Root, f boulder.Finding) string {
	if f.File == "" {
		return ""
	}
	name := filepath.FromSlash(f.File)
	info, err := root.Stat(name)
	switch {
	case err != nil:
		return text.Name(f.File) + " is not in the project"
	case f.Line == 0 || info.IsDir():
		return ""
	case !info.Mode().IsRegular():
		return text.Name(f.File) + " is no file with lines"
	}
	lines, whole, err := countLines(root, name)
	if err == nil && (!whole || f.Line <= lines) {
		return ""
	}
	return fmt.Sprintf("%s has no line %d", text.Name(f.File), f.Line)
}

// countLines counts the lines of a file, of a large one those of its beginning.
func countLines(root *os.Root, name string) (lines int, whole bool, err error) {
	f, err := root.Open(name)
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxLookedAt))
	lines = bytes.Count(data, []byte("\n"))
	if len(data) > 0 && data[len(data)-1] != '\n' {
		lines++
	}
	return lines, len(data) < maxLookedAt, err
}
