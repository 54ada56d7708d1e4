package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bouldermgr/manager/internal/text"
)

// maxFile is the largest file whose content is recorded, in bytes. Compressing an untracked data set or disk image
// would take minutes and gigabytes at each snapshot.
const maxFile = 64 << 20

const addTimeout = 10 * time.Minute // of storing new content

// indexPrefix begins the names of the temporary directories of indexes.
const indexPrefix = "manager-index-"

// Snapshot records the state of the project and returns its id, a git tree; empty outside of a git work tree. Snapshots
// may be taken concurrently. A file that changes meanwhile is recorded as it was at some moment.
//
// It takes some 10 ms in a small repository, and two to three times as long as `git status` in any. New content is
// stored in the repository, compressed; of files above 64 MiB, only size and time of change. What git cannot convert is
// stored as it is on disk. A slot stores large files too, up to 512 MiB of them; if it lacks a file, or has one as it is
// on disk, a [boulder.UnstoredError] comes with the id.
func (w *Workspace) Snapshot(ctx context.Context) (id string, err error) {
	if w.reason != "" {
		return "", nil
	}
	dir, err := os.MkdirTemp("", indexPrefix)
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
		err = fmt.Errorf("snapshot of %s: %w", w.git.dir, err)
	}
	return id, err
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
		if _, err := w.top().despiteFilters(ctx, paths, "update-index", bit, "-z", "--stdin"); err != nil {
			return err
		}
	}
	return nil
}

// changed lists what is new, changed, deleted, or in conflict. Embedded repositories that count by their files are listed
// by file; the others, and those without a file, end with a slash. stuck are those whose files git cannot store.
func (w *Workspace) changed(ctx context.Context) (paths, stuck []string, err error) {
	empty := map[string]bool{}
	for {
		if paths, err = w.list(ctx); err != nil {
			return nil, nil, err
		}
		entered := false
		for _, path := range paths {
			dir, repository := strings.CutSuffix(path, "/")
			if !repository && w.slot { // of a file that became a repository git says only that it is gone
				if info, err := os.Lstat(filepath.Join(w.git.dir, path)); err == nil && info.IsDir() {
					path, repository = path+"/", true
				}
			}
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
				return nil, nil, err
			}
			empty[path] = true
			if file == "" {
				continue
			}
			// Git looks into a directory with a file in the index, repository or not. Git add then reads the file.
			done, err := w.touch(ctx, file)
			if err != nil {
				return nil, nil, err
			}
			if entered = entered || done; !done {
				stuck = append(stuck, path)
			}
		}
		if !entered {
			return paths, stuck, nil
		}
	}
}

// touch adds a file without content to the index, and reports whether git accepts its name.
func (w *Workspace) touch(ctx context.Context, path string) (done bool, err error) {
	blob, err := w.git.feed(ctx, "", "hash-object", "-w", "--stdin")
	if err != nil {
		return false, err
	}
	entry := fmt.Sprintf("100644 %s\t%s\x00", strings.TrimSpace(blob), w.prefix+path)
	if _, err = w.git.despiteFilters(ctx, entry, "update-index", "--add", "--replace", "-z", "--index-info"); err != nil {
		return false, err
	}
	out, err := w.git.output(ctx, "ls-files", "--", ":(literal)"+path)
	return out != "", err
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

// record updates the index with the files and writes its tree. In a slot, the error may be a [boulder.UnstoredError].
func (w *Workspace) record(ctx context.Context) (string, error) {
	said := &text.LastBytes{Limit: maxStderr}
	if w.slot {
		w.git.said = said
	}
	paths, stuck, err := w.changed(ctx)
	if err != nil {
		return "", err
	}
	r := recording{Workspace: w, excluded: map[string]bool{}}
	r.takeUnread(said.String())
	if len(paths) == 0 && r.unstored.None() {
		return w.writeTree(ctx)
	}
	r.specs.WriteString(strings.Join(w.scope, "\x00") + "\x00")
	for _, path := range stuck {
		r.unstored.Lacks = append(r.unstored.Lacks, path+" (a repository with a name that git does not accept)")
	}
	for _, path := range paths {
		if dir, repository := strings.CutSuffix(path, "/"); repository && w.slot {
			r.exclude(dir) // without a file
			continue
		}
		info, err := os.Lstat(filepath.Join(w.git.dir, path))
		if err != nil || !info.Mode().IsRegular() || info.Size() <= maxFile {
			continue
		}
		if err := r.takeLarge(ctx, path, info); err != nil {
			return "", err
		}
	}
	began := time.Now()
	err = r.add(ctx, w.git)
	for again := 1; changedMeanwhile(err) && again <= readAgain; again++ {
		if again == readAgain {
			if err := r.takeChanging(ctx, paths, began); err != nil {
				return "", err
			}
		}
		err = r.add(ctx, w.git)
	}
	if exitCode(err) == exitFatal {
		if err = r.takeConverted(ctx, paths); err == nil {
			plain, configErr := w.git.withoutFilters(ctx)
			if err = configErr; err == nil {
				err = r.add(ctx, plain)
			}
		}
	}
	if exitCode(err) == 1 { // unreadable files, impossible names, embedded repositories without a commit; the rest is added
		err = r.takeRefused(ctx)
	}
	if err == nil && r.entries.Len() > 0 {
		_, err = w.git.despiteFilters(ctx, r.entries.String(), "update-index", "-z", "--index-info")
	}
	if err != nil {
		return "", err
	}
	tree, err := w.writeTree(ctx)
	if err == nil && w.slot && !r.unstored.None() {
		err = &r.unstored
	}
	return tree, err
}

// readAgain is how often files are read again that change while git reads them. Before the last time those are left out.
const readAgain = 3

// changedMeanwhile reports whether git gave up because a file changed between two of its looks at it.
func changedMeanwhile(err error) bool {
	return err != nil && strings.Contains(err.Error(), "unstable object source data")
}

func (r *recording) add(ctx context.Context, g git) error {
	args := []string{"add", "-A", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul"}
	if r.sparse {
		args = append(args, "--sparse") // also what is outside of the checked out part, but there
	}
	g.timeout = addTimeout
	_, err := g.feed(ctx, r.specs.String(), args...)
	return err
}

// writeTree writes the tree. Git refuses unresolved conflicts: those left are outside of the project, and are dropped.
func (w *Workspace) writeTree(ctx context.Context) (string, error) {
	out, err := w.git.despiteFilters(ctx, "", "write-tree", "--missing-ok")
	if exitCode(err) == exitFatal {
		if dropErr := w.dropConflicts(ctx); dropErr != nil {
			return "", errors.Join(err, dropErr)
		}
		out, err = w.git.despiteFilters(ctx, "", "write-tree", "--missing-ok")
	}
	return strings.TrimSpace(out), err
}

// dropConflicts removes entries with several sides outside of the project; record resolved those inside.
func (w *Workspace) dropConflicts(ctx context.Context) error {
	list, err := w.top().output(ctx, "diff-files", "--name-only", "-z", "--diff-filter=U", "--ignore-submodules=all")
	if err != nil {
		return err
	}
	_, err = w.top().despiteFilters(ctx, list, "update-index", "--force-remove", "-z", "--stdin")
	return err
}
