package workspace

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/internal/statedir"
)

// Refs returns the refs of the project that are manager's, with the commits that they name.
func (s *Slots) Refs(ctx context.Context) (map[string]string, error) {
	if s.project.reason != "" {
		return nil, nil
	}
	return s.project.git.refs(ctx, "refs/manager/")
}

// Directories returns the ids of the boulders that have a directory of slots.
func (s *Slots) Directories() (ids []string) {
	for _, d := range s.dirs() {
		entries, _ := os.ReadDir(d.path()) // none, if it is gone
		for _, entry := range entries {
			if entry.IsDir() && !strings.HasPrefix(entry.Name(), stagedPrefix) {
				ids = append(ids, entry.Name())
			}
		}
	}
	return ids
}

// Directory returns where the slots of a boulder are; empty if it has none.
func (s *Slots) Directory(boulderID string) string { return s.dirOf(boulderID) }

// OnBranch reports whether a branch, a tag or HEAD contains a commit.
func (s *Slots) OnBranch(ctx context.Context, commit string) (bool, error) {
	if head, err := s.project.Head(ctx); err != nil || head == commit {
		return err == nil, err
	}
	found, err := s.project.git.query(ctx, "for-each-ref", "--count=1", "--contains", commit, "refs/heads", "refs/remotes", "refs/tags")
	return found != "", err
}

// Release removes the slots of a boulder that is over, and leaves its refs, to which it adds what is in none yet. What git
// cannot store stays.
func (s *Slots) Release(ctx context.Context, boulderID, base string) error {
	if err := s.captureAll(ctx, boulderID, base); err != nil {
		return err
	}
	return s.removeAll(boulderID)
}

// Discard removes the slots of a boulder with all that is in them, except for what git cannot store.
func (s *Slots) Discard(boulderID string) error {
	if dir := s.dirOf(boulderID); dir != "" {
		slots, _ := fs.Glob(os.DirFS(dir), "*.json") // the pattern is valid
		for _, marker := range slots {
			if err := os.RemoveAll(tempDir(filepath.Join(dir, strings.TrimSuffix(marker, ".json")))); err != nil {
				return err
			}
		}
	}
	return s.removeAll(boulderID)
}

// DropRefs deletes refs of manager's, each if it still names that commit.
func (s *Slots) DropRefs(ctx context.Context, refs map[string]string) error {
	for ref, id := range refs {
		if err := s.moveRef(ctx, ref, id, ""); err != nil {
			return err
		}
	}
	return nil
}

// abandoned is the age from which a temporary file is not in use: git commands take minutes at most.
const abandoned = 24 * time.Hour

// Temporary returns the temporary directories that killed processes of manager left, here or in the system's directory.
func (s *Slots) Temporary(now time.Time) (paths []string) {
	add := func(dir, pattern string) {
		names, _ := fs.Glob(os.DirFS(dir), pattern) // the patterns are valid
		for _, name := range names {
			path := filepath.Join(dir, name)
			info, err := os.Lstat(path)
			if err == nil && info.IsDir() && statedir.Owned(info) && now.Sub(info.ModTime()) > abandoned {
				paths = append(paths, path)
			}
		}
	}
	add(os.TempDir(), indexPrefix+"*")
	for _, d := range s.dirs() {
		add(d.path(), stagedPrefix+"*")
	}
	slices.Sort(paths)
	return paths
}

// HoldsKept reports whether the slots of a boulder have files that are nowhere else, which nothing removes.
func (s *Slots) HoldsKept(boulderID string) bool {
	entries, _ := os.ReadDir(s.dirOf(boulderID))
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), keptPrefix) })
}

// Size returns what a file or directory occupies, in bytes. A file with several names counts once per name.
func Size(path string) (bytes int64) {
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what cannot be read is not counted
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}
