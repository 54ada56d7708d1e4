package view

import (
	"cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
)

// GC is what `manager gc --json` and `manager uninstall --json` print: one object.
type GC struct {
	Type   string         `json:"type"` // gc or uninstall
	DryRun bool           `json:"dry_run"`
	Bytes  int64          `json:"bytes"` // of what was, or would be, removed
	Found  []project.Left `json:"found"`
}

// NewGC reports what was found, and the bytes of what does not stay.
func NewGC(kind string, dry bool, found []project.Left) *GC {
	g := &GC{Type: kind, DryRun: dry, Found: found}
	for _, l := range found {
		if l.Stays == "" {
			g.Bytes += l.Bytes
		}
	}
	return g
}

// Print lists what goes, then what stays and why.
func (g *GC) Print(o page.Out) {
	goes := 0
	for _, l := range g.Found {
		if l.Stays == "" {
			o.Say("  " + leftover(l))
			goes++
		}
	}
	size := text.If(g.Bytes > 0, ": "+text.Bytes(g.Bytes))
	switch {
	case goes == 0:
		o.Say("There is nothing to remove.")
	case g.DryRun:
		o.Say("Would be removed" + size + ".")
	default:
		o.Say("Removed" + size + ".")
	}
	for _, l := range g.Found {
		if l.Stays != "" {
			o.Say("  stays: " + leftover(l) + ": " + l.Stays)
		}
	}
}

func leftover(l project.Left) string {
	what := map[string]string{
		"slots": "copies of the project", "pool": "copies for the next run", "temporary": "temporary directory", "state": "state and transcripts", "file": "file",
		"setting": "setting in",
	}[l.Kind]
	switch l.Kind {
	case "refs":
		what = text.Plural(l.Count, "ref")
	case "sessions":
		what = text.Plural(l.Count, "OpenCode session")
	}
	said := what + " " + cmp.Or(l.Path, "of boulder "+boulder.ShortID(l.BoulderID))
	return text.OneLine(said) + text.If(l.Bytes > 0, ", "+text.Bytes(l.Bytes))
}
