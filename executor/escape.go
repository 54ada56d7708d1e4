package executor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/bouldermgr/manager/internal/scope"
)

// escaped returns the project files that successful edits of a turn in a slot wrote, also through links.
func (t *turn) escaped() (escaped []string) {
	if t.place.slot == nil {
		return nil
	}
	resolved := func(path string) string {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			return target
		}
		return path
	}
	project, slot := resolved(t.cfg.Project), resolved(t.place.slot.Root())
	for file := range t.seen.touched {
		if !filepath.IsAbs(file) {
			file = filepath.Join(t.path, file)
		}
		file = resolved(file)
		if in, err := filepath.Rel(slot, file); err == nil && filepath.IsLocal(in) {
			continue
		}
		name, err := filepath.Rel(project, file)
		if name = filepath.ToSlash(name); err == nil && filepath.IsLocal(name) && !slices.Contains(t.cfg.BlockersFiles, name) && !slices.Contains(escaped, name) {
			escaped = append(escaped, name)
		}
	}
	slices.Sort(escaped)
	return escaped
}

// strayed returns the project files that anyone wrote since the turn's prompt and that may be the sub-task's: those
// that it changed in its slot or may write by the plan. If it changed nothing and the plan names none, any file may be.
func (t *turn) strayed(ctx context.Context, own []string) (strayed []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, workspaceTimeout)
	defer cancel()
	base, err := t.cfg.Slots.Tree(ctx, t.job.Trunk.Base)
	if err != nil {
		return nil, err
	}
	now, err := t.cfg.Workspace.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at the project after the turn: %w", err)
	}
	d, err := t.cfg.Workspace.Diff(ctx, base, now, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	may := t.job.SubTask.Writes
	for _, file := range paths(d.Files) {
		info, err := os.Lstat(filepath.Join(t.cfg.Project, filepath.FromSlash(file)))
		claims := slices.Contains(own, file) || len(own)+len(may) == 0 || len(may) > 0 && len(scope.Outside(may, []string{file})) == 0
		if err == nil && claims && info.ModTime().After(t.job.Turn.SentAt) {
			strayed = append(strayed, file)
		}
	}
	return strayed, nil
}
