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
func readTranscript(project, name string) (lines []view.TranscriptLine, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("transcript %s: %w", name, err)
		}
	}()
	rel, err := filepath.Rel(runsDir, filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	f, err := os.OpenInRoot(filepath.Join(project, runsDir), rel)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return view.ParseTranscript(f)
}
