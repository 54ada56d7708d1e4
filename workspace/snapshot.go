package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Snapshot records the state of the project and returns its id, a git tree. It is empty outside of a git work tree.
// Snapshots may be taken at the same time, and while files change: a file that changes meanwhile is recorded as it was
// at some moment.
//
// It takes some 10 ms in a small repository, and two to three times as long as `git status` in any. New content is stored in the repository, compressed; of files above 64 MiB only size and time of change
// are.
func (w *Workspace) Snapshot(ctx context.Context) (id string, err error) {
	if w.reason != "" {
		return "", nil
	}
	x, err := w.copyIndex()
	if err != nil {
		return "", fmt.Errorf("snapshot of %s: %w", w.git.dir, err)
	}
	defer func() { err = errors.Join(err, x.remove()) }()
	if id, err = x.record(ctx); err != nil {
		return "", fmt.Errorf("snapshot of %s: %w", w.git.dir, err)
	}
	return id, nil
}

// index is a workspace whose git works on a private copy of the user's index.
type index struct{ Workspace }

// copyIndex copies the user's index with its time of change. Git compares that time with the times of files: to an
// entry that is not older it does not trust its stat data. A younger copy would hide changes made right after git
// wrote the original.
func (w *Workspace) copyIndex() (*index, error) {
	dir, err := os.MkdirTemp("", "manager-index-")
	if err != nil {
		return nil, err
	}
	x := &index{*w}
	x.git.index = filepath.Join(dir, "index")
	info, err := os.Stat(w.index) // before it is read: of a file that is replaced in between, the older time is the safe one
	if errors.Is(err, fs.ErrNotExist) {
		return x, nil
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(w.index)
	}
	if err == nil {
		err = os.WriteFile(x.git.index, data, 0o600)
	}
	if err == nil {
		err = os.Chtimes(x.git.index, info.ModTime(), info.ModTime())
	}
	if err != nil {
		return nil, errors.Join(err, x.remove())
	}
	return x, nil
}

func (x *index) remove() error { return os.RemoveAll(filepath.Dir(x.git.index)) }

// record brings the copy up to date with the files and writes its tree.
func (x *index) record(ctx context.Context) (string, error) {
	changed, err := x.changed(ctx)
	if err != nil {
		return "", err
	}
	if len(changed) > 0 {
		large := x.large(changed)
		if err := x.add(ctx, large); err != nil {
			return "", err
		}
		if err := x.standIn(ctx, large); err != nil {
			return "", err
		}
	}
	return x.writeTree(ctx)
}

// add takes in everything that changed. Files that cannot be read, and embedded repositories without a commit, make git
// exit with 1 after it has taken in the others.
func (x *index) add(ctx context.Context, large map[string]fs.FileInfo) error {
	specs := strings.Join(x.scope, "\x00") + "\x00"
	for path := range large {
		specs += ":(exclude,literal)" + path + "\x00"
	}
	err := x.git.run(ctx, strings.NewReader(specs), io.Discard,
		"add", "-A", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul")
	if failure, ok := errors.AsType[*Error](err); ok && failure.Code == 1 {
		return nil
	}
	return err
}

// writeTree writes the tree. Conflicts that are not resolved are files like any other within the project; those
// outside of it would make git refuse, and do not matter.
func (x *index) writeTree(ctx context.Context) (string, error) {
	out, err := x.git.output(ctx, "write-tree", "--missing-ok")
	if failure, ok := errors.AsType[*Error](err); ok && failure.Code == exitFatal {
		if err := x.dropConflicts(ctx); err != nil {
			return "", errors.Join(failure, err)
		}
		out, err = x.git.output(ctx, "write-tree", "--missing-ok")
	}
	return strings.TrimSpace(out), err
}

// dropConflicts takes out the entries with more than one side. It works from the top of the work tree: they are outside
// of the project, the others are resolved by [index.add].
func (x *index) dropConflicts(ctx context.Context) error {
	top := git{dir: x.root, index: x.git.index}
	list, err := top.output(ctx, "diff-files", "--name-only", "-z", "--diff-filter=U", "--ignore-submodules=all")
	if err != nil {
		return err
	}
	return top.run(ctx, strings.NewReader(list), io.Discard, "update-index", "--force-remove", "-z", "--stdin")
}
