package view

import (
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/workspace"
)

// Land is what `manager land --json` prints: one object.
type Land struct {
	Type      string `json:"type"` // land
	BoulderID string `json:"boulder_id"`
	boulder.Landed
	Files []workspace.Change `json:"files,omitempty"`
	// Details are the conflicts of --merge, and of --undo the files that were edited since.
	Details []workspace.Conflict `json:"conflict_details,omitempty"`
	DryRun  bool                 `json:"dry_run"`
}

// NewLand makes it from an outcome.
func NewLand(l *project.Landing, dryRun bool) Land {
	return Land{Type: "land", BoulderID: l.Of.Boulder.ID, Landed: l.Landed, Files: l.Files, Details: l.Merged, DryRun: dryRun}
}

const (
	hunksShown     = 3  // of a file
	linesShown     = 16 // of a hunk
	conflictsShown = 8
)

// Conflicts quotes what keeps results from landing, with the lines of each side.
func Conflicts(all []workspace.Conflict) string {
	var b strings.Builder
	for i, c := range all {
		if i == conflictsShown {
			fmt.Fprintf(&b, "and %s more\n", text.Plural(len(all)-i, "file"))
			break
		}
		by := text.Prefixed("changed by ", text.OneLine(strings.Join(c.By, ", ")))
		if c.Why != "" {
			fmt.Fprintf(&b, "%s: %s\n", text.OneLine(c.Path), text.JoinedBy("; ", c.Why, by))
			continue
		}
		for j, h := range c.Hunks {
			if j == hunksShown {
				fmt.Fprintf(&b, "%s: and %s more\n", text.OneLine(c.Path), text.Plural(len(c.Hunks)-j, "place"))
				break
			}
			fmt.Fprintf(&b, "%s, line %d; %s:\n", text.OneLine(c.Path), h.Line, by)
			for k, line := range h.Lines {
				if k == linesShown-1 && len(h.Lines) > linesShown {
					fmt.Fprintf(&b, "    … %s\n", text.Plural(len(h.Lines)-k, "more line"))
					break
				}
				fmt.Fprintf(&b, "    %s\n", text.Truncate(text.Safe(line), 200))
			}
		}
	}
	return b.String()
}
