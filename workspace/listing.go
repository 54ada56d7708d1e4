package workspace

import (
	"context"
	"fmt"
	"strings"
)

// Files returns the paths of the files that git tracks or would track, relative to the directory, in the order of their
// names. Some may be gone from the disk. Nothing outside of a git work tree.
func (w *Workspace) Files(ctx context.Context) ([]string, error) {
	if w.reason != "" {
		return nil, nil
	}
	args := []string{"ls-files", "-z", "--deduplicate", "--cached", "--others", "--exclude-standard", "--"}
	out, err := w.git.output(ctx, append(args, w.scope...)...)
	if err != nil {
		return nil, fmt.Errorf("list the files of %s: %w", w.git.dir, err)
	}
	return records(out), nil
}

// Uncommitted returns what differs from HEAD in the directory: a line for each file, as git status prints it.
func (w *Workspace) Uncommitted(ctx context.Context) ([]string, error) {
	if w.reason != "" {
		return nil, nil
	}
	args := []string{"status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=dirty", "--"}
	out, err := w.git.output(ctx, append(args, w.scope...)...)
	if err != nil {
		return nil, fmt.Errorf("status of %s: %w", w.git.dir, err)
	}
	return records(out), nil
}

// PastCommit is a commit's first line, and the files that it changed, relative to the directory.
type PastCommit struct {
	Subject string
	Files   []string
}

// History returns the newest commits below HEAD that are no merges and changed something in the directory, newest first.
// Nothing without a commit, and outside of a git work tree.
func (w *Workspace) History(ctx context.Context, most int) (commits []PastCommit, err error) {
	head, err := w.Head(ctx)
	if err != nil || head == "" {
		return nil, err
	}
	args := []string{"log", "-z", "--no-merges", "--no-renames", "--relative", "--name-only", "--no-show-signature", "--no-color",
		"--no-ext-diff", "--diff-merges=off", "--format=%x01%s", fmt.Sprint("--max-count=", most), head, "--"}
	out, err := w.git.output(ctx, append(args, w.scope...)...)
	if err != nil {
		return nil, fmt.Errorf("read the history of %s: %w", w.git.dir, err)
	}
	for _, about := range strings.Split(out, "\x01")[1:] {
		subject, files, _ := strings.Cut(about, "\x00")
		commits = append(commits, PastCommit{subject, records(strings.TrimLeft(files, "\n\x00"))})
	}
	return commits, nil
}
