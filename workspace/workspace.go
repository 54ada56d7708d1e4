// Package workspace is where a sub-task works: in the directory that the user named, or in a slot, a clone of it. It
// records the state of that directory before and after, says what changed, and integrates results ([Slots]).
//
// A state is a git tree ([Workspace.Snapshot]) of all files that git tracks or would track, committed or not. Taking
// one leaves the user's index, HEAD, refs, stash and files alone: it works on a copy of the index, so it knows
// unchanged files and no lock matters. It adds objects that nothing refers to. Git removes them when they are two weeks
// old (gc.pruneExpire), or earlier with `git gc --prune=now`; a diff against them says so then.
//
// Outside of a git work tree everything works, without diffs; [Workspace.Reason] says why.
//
// A submodule counts by its commit, and so does an embedded repository in the directory that the user named;
// uncommitted changes inside are not seen. In a slot, or without a commit, an embedded repository counts by its files. Not
// seen are files that git ignores, cannot read, or leaves out of a sparse checkout. The bits skip-worktree and
// assume-unchanged hide nothing.
package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// stateDir is the manager's own directory. Snapshots leave it out, whether or not git ignores it.
const stateDir = ".manager"

// Workspace is one project directory. Its methods may be called concurrently, also from several processes.
type Workspace struct {
	git    git
	root   string   // top of the work tree
	prefix string   // of the directory in the work tree, "" or ending with a slash
	index  string   // the user's index file, or that of a slot
	gitDir string   // of the repository, absolute
	reason string   // why there is no git work tree
	scope  []string // pathspecs of what snapshots hold
	large  largeFiles
	sparse bool // files may be missing because of a sparse checkout
	slot   bool // embedded repositories count by their files
}

// largeFiles says what a snapshot has of a file above maxFile.
type largeFiles int

const (
	markLarge     largeFiles = iota // its size and time of change: enough for a diff
	leaveOutLarge                   // what the index has
	keepLarge                       // its content
)

// Open opens a directory, in a git work tree or not ([Workspace.Reason]). No snapshot or diff has leaveOut,
// slash-separated paths relative to it: the manager writes there. Open blocks for some milliseconds.
func Open(ctx context.Context, dir string, leaveOut ...string) (*Workspace, error) {
	scope := []string{".", ":(exclude)" + stateDir}
	for _, path := range leaveOut {
		scope = append(scope, ":(exclude,literal)"+path)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	switch info, err := os.Stat(dir); {
	case err != nil:
		return nil, fmt.Errorf("open workspace: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("open workspace: %s is not a directory; name the directory of the project", dir)
	}
	w := &Workspace{git: git{dir: dir}, scope: scope}
	if err := w.locate(ctx); err != nil {
		return nil, fmt.Errorf("open workspace %s: %w", dir, err)
	}
	return w, nil
}

// locate finds the work tree around the directory, or the reason why there is none.
func (w *Workspace) locate(ctx context.Context) error {
	out, err := w.git.output(ctx, "rev-parse", "--is-inside-work-tree", "--show-toplevel", "--show-prefix",
		"--git-path", "index", "--absolute-git-dir")
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		w.reason = "git is not installed"
		return nil
	case failed && strings.HasPrefix(out, "false\n"):
		w.reason = "not a git work tree, but the inside of a repository"
		return nil
	case failed && strings.Contains(string(exit.Stderr), "git config --global --add safe.directory"):
		said, command, _ := strings.Cut(strings.TrimPrefix(string(exit.Stderr), "fatal: "), "\n")
		_, command, _ = strings.Cut(command, "\tgit config")
		command, _, _ = strings.Cut(command, "\n")
		w.reason = fmt.Sprintf("%s; if you trust it: git config%s", said, command)
		return nil
	case failed && exit.ExitCode() == exitFatal: // git's first line, without its advice
		line, _, _ := strings.Cut(string(exit.Stderr), "\n")
		line, _, _ = strings.Cut(strings.TrimPrefix(line, "fatal: "), " (")
		w.reason = cmp.Or(line, "git refuses to work there")
		return nil
	case err != nil:
		return err
	}
	// rev-parse has no -z: a path with a line break cannot be told from two paths.
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) != 5 {
		w.reason = "the path of the repository contains a line break"
		return nil
	}
	w.root, w.prefix, w.index, w.gitDir = lines[1], lines[2], lines[3], lines[4]
	if !filepath.IsAbs(w.index) {
		w.index = filepath.Join(w.git.dir, w.index)
	}
	sparse, err := w.git.query(ctx, "config", "--type=bool", "core.sparseCheckout")
	w.sparse = sparse == "true"
	return err
}

// Root returns the top of the git work tree, absolute and without symbolic links; empty if there is none.
func (w *Workspace) Root() string { return w.root }

// Reason says why there is no git work tree ("not a git repository", "git is not installed"); empty if there is one.
func (w *Workspace) Reason() string { return w.reason }

// Head returns the commit that is checked out; empty if there is none yet, and outside of git.
func (w *Workspace) Head(ctx context.Context) (commit string, err error) {
	if w.reason != "" {
		return "", nil
	}
	return w.git.resolve(ctx, "HEAD^{commit}")
}

func (w *Workspace) top() git {
	g := w.git
	g.dir = w.root
	return g
}
