package session

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
)

// maxFindings is how many errors of language servers are kept.
const maxFindings = 10

// findings are the errors of language servers in the files that a session was seen to edit.
type findings struct {
	edited map[string]bool // absolute paths
	lines  []string        // of the newest editing call, which has the last word
}

// call takes in a tool call. directory is the session's.
func (f *findings) call(c *opencode.ToolCall, directory string) {
	files := c.EditedFiles()
	if len(files) == 0 {
		return
	}
	for _, file := range files {
		if !filepath.IsAbs(file) {
			file = filepath.Join(directory, file)
		}
		if f.edited == nil {
			f.edited = map[string]bool{}
		}
		f.edited[filepath.Clean(file)] = true
	}
	byFile, known := c.LanguageErrors()
	if !known {
		return
	}
	f.lines = nil
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		for _, e := range byFile[file] {
			if f.edited[filepath.Clean(file)] && len(f.lines) < maxFindings {
				f.lines = append(f.lines, fmt.Sprintf("%s:%d: %s", file, e.Line, text.Short(e.Message, 200)))
			}
		}
	}
}
