package workspace

import (
	"context"
	"os"
	"strings"

	"github.com/bouldermgr/manager/internal/text"
)

// beginsConflict and endsConflict are the markers around what conflicts in a file, as [Slots.MergeFiles] writes them.
var (
	beginsConflict = text.Regexp(`(?m)^<{7,} ` + yours + `\r?$`)
	endsConflict   = text.Regexp(`(?m)^>{7,} .`)
)

// Unresolved returns the files of the user that still have the conflict markers which landings of MergeFiles wrote, by the ids of
// boulders, with paths in the project. Those that landed longer ago than they can be undone are not known any more.
func (s *Slots) Unresolved(ctx context.Context) (map[string][]string, error) {
	refs, err := s.Refs(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	for ref, written := range refs {
		id, merged := strings.CutSuffix(ref, "/"+writtenRef)
		id, aside := strings.CutPrefix(id, dropped)
		if !merged || !aside {
			continue
		}
		changes, err := s.changes(ctx, written+"^", written)
		if err != nil {
			return nil, err
		}
		for _, name := range s.marked(changes) {
			found[id] = append(found[id], strings.TrimPrefix(name, s.project.prefix))
		}
	}
	return found, nil
}

// marked returns those of the changed files that have conflict markers now.
func (s *Slots) marked(changes []Change) (names []string) {
	root, err := os.OpenRoot(s.project.root)
	if err != nil {
		return nil
	}
	defer root.Close()
	for _, c := range changes {
		if info := look(root, c.Path); info == nil || !info.Mode().IsRegular() {
			continue
		}
		content, err := root.ReadFile(c.Path)
		if err == nil && beginsConflict().Match(content) && endsConflict().Match(content) {
			names = append(names, c.Path)
		}
	}
	return names
}
