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
		err = x.showHidden(ctx)
	}
	if err == nil {
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

// showHidden clears the bits of the index with which a user or a tool hides changes from git: assume-unchanged, and
// skip-worktree unless the file is missing because of a sparse checkout.
func (w *Workspace) showHidden(ctx context.Context) error {
	list, err := w.top().output(ctx, "ls-files", "-v", "-z")
	if err != nil {
		return err
	}
	var assumed, skipped strings.Builder
	for _, entry := range records(list) { // a letter, a space, the path
		tag, path := entry[0], entry[2:]
		if tag >= 'a' && tag <= 'z' {
			assumed.WriteString(path + "\x00")
		}
		if tag != 'S' && tag != 's' {
			continue
		}
		if _, err := os.Lstat(filepath.Join(w.root, path)); err == nil || !w.sparse {
			skipped.WriteString(path + "\x00")
		}
	}
	for bit, paths := range map[string]string{"--no-assume-unchanged": assumed.String(), "--no-skip-worktree": skipped.String()} {
		if paths == "" {
			continue
		}
		if _, err := w.top().feed(ctx, paths, "update-index", bit, "-z", "--stdin"); err != nil {
			return err
		}
	}
	return nil
}

// changed lists what is new, changed, deleted, or in conflict. Embedded repositories that count by their files are listed
// by file; the others, and those without a file, end with a slash.
func (w *Workspace) changed(ctx context.Context) (paths []string, err error) {
	empty := map[string]bool{}
	for {
		list, err := w.git.output(ctx,
			append([]string{"ls-files", "-z", "--others", "--modified", "--exclude-standard", "--"}, w.scope...)...)
		if err != nil {
			return nil, err
		}
		paths = slices.Compact(records(list)) // conflicts are listed once per side
		entered := false
		for _, path := range paths {
			dir, repository := strings.CutSuffix(path, "/")
			if !repository || empty[path] {
				continue
			}
			if !w.slot {
				nested := git{dir: filepath.Join(w.git.dir, dir)}
				if head, err := nested.resolve(ctx, "HEAD^{commit}"); err == nil && head != "" {
					continue
				}
			}
			file, err := w.fileIn(ctx, path)
			if err != nil {
				return nil, err
			}
			empty[path], entered = file == "", entered || file != ""
			if file == "" {
				continue
			}
			// Git looks into a directory with a file in the index, repository or not.
			if _, err := w.top().feed(ctx, w.prefix+file+"\x00", "update-index", "--add", "-z", "--stdin"); err != nil {
				return nil, err
			}
		}
		if !entered {
			return paths, nil
		}
	}
}

// fileIn returns a file below an embedded repository, whose path ends with a slash, that nothing ignores; empty if there
// is none.
func (w *Workspace) fileIn(ctx context.Context, repository string) (string, error) {
	dir := filepath.Join(w.git.dir, repository)
	inside := git{dir: dir, index: w.git.index + ".none", env: []string{"GIT_DIR=" + w.gitDir, "GIT_WORK_TREE=" + dir}}
	list, err := inside.output(ctx, "ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return "", err
	}
	var paths []string
	for _, path := range records(list) {
		paths = append(paths, repository+path)
	}
	if len(paths) == 0 {
		return "", nil
	}
	out, err := w.git.feed(ctx, strings.Join(paths, "\x00")+"\x00", "check-ignore", "--no-index", "-z", "--stdin")
	if err != nil && exitCode(err) != 1 { // 1: none is ignored
		return "", err
	}
	ignored := map[string]bool{}
	for _, path := range records(out) {
		ignored[path] = true
	}
	for _, path := range paths {
		if ignored[path] {
			continue
		}
		if !strings.HasSuffix(path, "/") {
			return path, nil
		}
		if file, err := w.fileIn(ctx, path); err != nil || file != "" {
			return file, err
		}
	}
	return "", nil
}

// record updates the index with the files and writes its tree.
func (w *Workspace) record(ctx context.Context) (string, error) {
	paths, err := w.changed(ctx)
	if err != nil {
		return "", err
	}
	if len(paths) == 0 {
		return w.writeTree(ctx)
	}
	specs, entries := strings.Join(w.scope, "\x00")+"\x00", ""
	for _, path := range paths {
		if dir, repository := strings.CutSuffix(path, "/"); repository && w.slot {
			specs += ":(exclude,literal)" + dir + "\x00" // without a file
			continue
		}
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
	add := []string{"add", "-A", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul"}
	if w.sparse {
		add = append(add, "--sparse") // also what is outside of the checked out part, but there
	}
	_, err = w.git.feed(ctx, specs, add...)
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
