package executor

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/statedir"
)

// runsDir is where transcripts and the files of briefs are, below the project.
const runsDir = ".manager/runs"

// writeRun writes a file there, in place of an earlier one. It returns when that is on disk. Of the way to it only the project
// is trusted: an agent may put links anywhere below.
func (e *Executor) writeRun(name string, data []byte) error {
	return statedir.Write(e.cfg.Project, strings.Split(runsDir, "/"), name, data)
}

// checkIDs refuses ids that cannot be names of directories. Plans and imports are checked where they are read; this is
// for what a program made.
func checkIDs(ids ...string) error {
	for _, id := range ids {
		if id == "" || id == "." || !filepath.IsLocal(id) || strings.ContainsAny(id, "/\\\x00") {
			return fmt.Errorf("%w: the id %q cannot be the name of a directory: use letters, digits, - and _",
				boulder.ErrFatal, id)
		}
	}
	return nil
}

// writeFiles writes the files that the prompt points to.
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
