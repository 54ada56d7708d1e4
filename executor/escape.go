package executor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/bouldermgr/manager/internal/scope"
)

// escaped are the files of the project that the turn's editing calls wrote although it works in a slot, also by a link that
// leads there. What OpenCode refused was not written.
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
	project := resolved(t.cfg.Project)
	slot := filepath.Join(project, ".manager", "slots", t.job.BoulderID, strconv.Itoa(t.job.SubTask.Slot))
	for file := range t.seen.touched {
		if !filepath.IsAbs(file) {
			file = filepath.Join(t.path, file)
		}
		file = resolved(file)
		if in, err := filepath.Rel(slot, file); err == nil && filepath.IsLocal(in) {
			continue
		}
		name, err := filepath.Rel(project, file)
		if name = filepath.ToSlash(name); err == nil && filepath.IsLocal(name) && name != t.cfg.BlockersFile && !slices.Contains(escaped, name) {
			escaped = append(escaped, name)
		}
	}
	slices.Sort(escaped)
	return escaped
}

// strayed are files of the project that were written since the turn's prompt, by whomever, and that the sub-task claims: it
// changed them in its slot, or may write them by the plan; any, if it has changed nothing and the plan does not say.
func (t *turn) strayed(ctx context.Context, own []string) (strayed []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, workspaceTimeout)
	defer cancel()
	base, err := t.cfg.Slots.Tree(ctx, t.job.Line.Base)
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
