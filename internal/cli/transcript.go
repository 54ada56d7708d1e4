package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bouldermgr/manager/internal/view"
)

// runsDir is where the transcripts are, relative to the project.
const runsDir = ".manager/runs"

// readTranscript reads the transcript that a record names by its path relative to the project. A record is not trusted
// to name a file elsewhere: what is not below .manager/runs, also by way of a symbolic link, is not opened. A
// transcript that is gone is empty; lines that cannot be read are left out.
func readTranscript(project, name string) ([]view.TranscriptLine, error) {
	rel, err := filepath.Rel(runsDir, filepath.FromSlash(name))
	if err != nil || !filepath.IsLocal(rel) {
		return nil, fmt.Errorf("transcript %q is not below %s and was not read", name, runsDir)
	}
	root, err := os.OpenRoot(filepath.Join(project, runsDir))
	var f *os.File
	if err == nil {
		defer root.Close()
		f, err = root.Open(rel)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("transcript: %w", err)
	}
	defer f.Close()
	lines, err := view.ParseTranscript(f)
	if err != nil {
		return lines, fmt.Errorf("transcript %s: %w", name, err)
	}
	return lines, nil
}
