package workspace

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

// operations are what git can be in the middle of, with the files that say so.
var operations = []struct{ name, file string }{
	{"am", "rebase-apply/applying"},
	{"rebase", "rebase-apply/rebasing"}, {"rebase", "rebase-merge"}, // uses the files below as well
	{"merge", "MERGE_HEAD"}, {"cherry-pick", "CHERRY_PICK_HEAD"}, {"revert", "REVERT_HEAD"}, {"bisect", "BISECT_LOG"},
}

// maxStash bounds the entries of the stash that are looked at. They are stored with each sub-task.
const maxStash = 1000

// Repo returns where the user's git stands, or nil outside of a git work tree.
func (w *Workspace) Repo(ctx context.Context) (*boulder.Repo, error) {
	if w.reason != "" {
		return nil, nil
	}
	r := &boulder.Repo{}
	branch, err := w.git.query(ctx, "symbolic-ref", "--quiet", "--short", "HEAD")
	if err == nil {
		r.Commit, err = w.Head(ctx)
	}
	stash := ""
	if err == nil {
		stash, err = w.git.resolve(ctx, "refs/stash")
	}
	if err == nil && stash != "" {
		stash, err = w.git.line(ctx, "log", "--walk-reflogs", "--format=%H", fmt.Sprint("--max-count=", maxStash), "refs/stash")
	}
	dir := ""
	if err == nil {
		dir, err = w.git.line(ctx, "rev-parse", "--absolute-git-dir")
	}
	if err != nil {
		return nil, fmt.Errorf("look at the repository of %s: %w", w.git.dir, err)
	}
	r.Branch, r.Stash = branch, strings.Fields(stash)
	for _, o := range operations {
		_, err := os.Lstat(filepath.Join(dir, o.file))
		if err == nil && !slices.Contains(r.Open, "rebase") && !slices.Contains(r.Open, o.name) {
			r.Open = append(r.Open, o.name)
		}
	}
	return r, nil
}
