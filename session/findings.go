package session

import (
	"cmp"
	"path/filepath"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
)

// Bounds of what is kept of the errors of language servers.
const (
	maxFindings = 50
	maxFinding  = 300 // characters
)

// Findings are the errors of language servers in the files that a session was seen to edit.
type Findings struct {
	Edited map[string]bool      // absolute paths
	Errors []boulder.Diagnostic // of the newest editing call, which has the last word; by file and line, at most 50
}

// Take takes in a tool call. directory is the session's.
func (f *Findings) Take(c *opencode.ToolCall, directory string) {
	files := c.EditedFiles()
	if len(files) == 0 {
		return
	}
	if f.Edited == nil {
		f.Edited = map[string]bool{}
	}
	for _, file := range files {
		if !filepath.IsAbs(file) {
			file = filepath.Join(directory, file)
		}
		f.Edited[filepath.Clean(file)] = true
	}
	byFile, known := c.LanguageErrors()
	if !known {
		return
	}
	f.Errors = nil
	for file, found := range byFile {
		for _, e := range found {
			if f.Edited[filepath.Clean(file)] {
				f.Errors = append(f.Errors, boulder.Diagnostic{
					File: file, Line: e.Line, Severity: "error", Message: text.Short(e.Message, maxFinding),
				})
			}
		}
	}
	slices.SortFunc(f.Errors, func(a, b boulder.Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	f.Errors = f.Errors[:min(len(f.Errors), maxFindings)]
}
