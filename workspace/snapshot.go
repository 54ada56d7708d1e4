package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxFile is the largest file whose content is recorded, in bytes. Compressing an untracked data set or disk image
// would take minutes and gigabytes at each snapshot.
const maxFile = 64 << 20

// Snapshot records the state of the project and returns its id, a git tree; empty outside of a git work tree. Snapshots
// may be taken concurrently. A file that changes meanwhile is recorded as it was at some moment.
//
// It takes some 10 ms in a small repository, and two to three times as long as `git status` in any. New content is
// stored in the repository, compressed; of files above 64 MiB, only size and time of change.
func (w *Workspace) Snapshot(ctx context.Context) (id string, err error) {
	if w.reason != "" {
		return "", nil
	}
	dir, err := os.MkdirTemp("", "manager-index-")
	if err != nil {
		return "", fmt.Errorf("snapshot of %s: %w", w.git.dir, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	x := *w // with an index of its own
	x.git.index = filepath.Join(dir, "index")
	if err = copyIndex(w.index, x.git.index); err == nil {
		id, err = x.record(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("snapshot of %s: %w", w.git.dir, err)
	}
	return id, nil
}

// copyIndex copies an index, if there is one, with its modification time. Git does not trust the stat data of entries
// that are not older than the index: a younger copy would hide changes made right after git wrote the original.
func copyIndex(from, to string) error {
	info, err := os.Stat(from) // first: if the file is replaced before it is read, the older time is the safe one
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(from)
	}
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err == nil {
		err = os.Chtimes(to, info.ModTime(), info.ModTime())
	}
	return err
}

// record updates the index with the files and writes its tree.
func (w *Workspace) record(ctx context.Context) (string, error) {
	// New, changed, deleted, or in conflict, which are listed once per side.
	list, err := w.git.output(ctx,
		append([]string{"ls-files", "-z", "--others", "--modified", "--exclude-standard", "--"}, w.scope...)...)
	if err != nil {
		return "", err
	}
	if list == "" {
		return w.writeTree(ctx)
	}
	specs, entries := strings.Join(w.scope, "\x00")+"\x00", ""
	for _, path := range slices.Compact(records(list)) {
		info, err := os.Lstat(filepath.Join(w.git.dir, path))
		if err != nil || !info.Mode().IsRegular() || info.Size() <= maxFile || w.large == keepLarge {
			continue
		}
		if w.large == leaveOutLarge {
			specs += ":(exclude,literal)" + path + "\x00"
			continue
		}
		// Record a few bytes that change whenever the file does. With the NUL, a diff shows a binary file.
		content := fmt.Sprintf("\x00%d bytes, changed %d\n", info.Size(), info.ModTime().UnixNano())
		blob, err := w.git.feed(ctx, content, "hash-object", "-w", "--stdin")
		if err != nil {
			return "", err
		}
		specs += ":(exclude,literal)" + path + "\x00"
		// Unlike other commands update-index takes paths from the top of the work tree.
		entries += fmt.Sprintf("100644 %s\t%s\x00", strings.TrimSpace(blob), w.prefix+path)
	}
	_, err = w.git.feed(ctx, specs, "add", "-A", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul")
	// Unreadable files, and embedded repositories without a commit, make git exit with 1 after adding the rest.
	if err != nil && exitCode(err) != 1 {
		return "", err
	}
	if entries != "" {
		if _, err := w.git.feed(ctx, entries, "update-index", "-z", "--index-info"); err != nil {
			return "", err
		}
	}
	return w.writeTree(ctx)
}

// writeTree writes the tree. Git refuses unresolved conflicts: those left are outside of the project, and are dropped.
func (w *Workspace) writeTree(ctx context.Context) (string, error) {
	out, err := w.git.output(ctx, "write-tree", "--missing-ok")
	if exitCode(err) == exitFatal {
		if dropErr := w.dropConflicts(ctx); dropErr != nil {
			return "", errors.Join(err, dropErr)
		}
		out, err = w.git.output(ctx, "write-tree", "--missing-ok")
	}
	return strings.TrimSpace(out), err
}

// dropConflicts removes entries with several sides outside of the project; record resolved those inside.
func (w *Workspace) dropConflicts(ctx context.Context) error {
	list, err := w.top().output(ctx, "diff-files", "--name-only", "-z", "--diff-filter=U", "--ignore-submodules=all")
	if err != nil {
		return err
	}
	_, err = w.top().feed(ctx, list, "update-index", "--force-remove", "-z", "--stdin")
	return err
}
