package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/internal/text"
)

// Refs returns the refs of the project that are manager's, with the commits that they name.
func (s *Slots) Refs(ctx context.Context) (map[string]string, error) {
	if s.project.reason != "" {
		return nil, nil
	}
	return s.project.git.refs(ctx, "refs/manager/")
}

var (
	ofBoulder = text.Regexp(`^[0-9a-z]{26}$`)
	staged    = text.Regexp(`^` + stagedPrefix + `[0-9]+$`)
)

// agreed are the directories of slots that say themselves that they are this project's: only there may be removed what no
// boulder asks for.
func (s *Slots) agreed() []slotsDir {
	return slices.DeleteFunc(s.dirs(), func(d slotsDir) bool {
		return d.path() != s.inState().path() && ownerOf(d.path()).Project != s.project.git.dir
	})
}

// Directories returns the ids of the boulders that have a directory of slots.
func (s *Slots) Directories() (ids []string) {
	for _, d := range s.agreed() {
		entries, _ := os.ReadDir(d.path()) // none, if it is gone
		for _, entry := range entries {
			if entry.IsDir() && ofBoulder().MatchString(entry.Name()) {
				ids = append(ids, entry.Name())
			}
		}
		for _, l := range d.leases() {
			if l.Boulder != "" {
				ids = append(ids, l.Boulder)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Strays returns what is in directories of slots and is not manager's, and directories that are another project's as well.
func (s *Slots) Strays() (paths []string) {
	agreed := s.agreed()
	for _, d := range s.dirs() {
		if !slices.ContainsFunc(agreed, func(a slotsDir) bool { return a.path() == d.path() }) {
			paths = append(paths, d.path())
			continue
		}
		entries, _ := os.ReadDir(d.path())
		leases := d.leases()
		for _, entry := range entries {
			name := entry.Name()
			_, leased := leases[name]
			file := name == ownerFile || name == poolFile
			if !file && (!entry.IsDir() || !leased && !ofBoulder().MatchString(name) && !staged().MatchString(name)) {
				paths = append(paths, filepath.Join(d.path(), name))
			}
		}
	}
	return paths
}

// Clear removes what killed landings left in directories of slots, and those that have nothing else.
func (s *Slots) Clear() error {
	for _, d := range s.agreed() {
		if err := errors.Join(d.removeStaged(), s.leave(d)); err != nil {
			return err
		}
	}
	return nil
}

// Directory returns where the slots of a boulder are; empty if it has none.
func (s *Slots) Directory(boulderID string) string {
	in, _ := s.dirOf(boulderID)
	return in.path()
}

// Release frees the slots of a boulder that is over, and leaves its refs, to which it adds what is in none yet. What git cannot
// store stays.
func (s *Slots) Release(ctx context.Context, boulderID, base string) error {
	if err := s.captureAll(ctx, boulderID, base); err != nil {
		return err
	}
	return s.freeDirs(ctx, boulderID)
}

// Discard removes the slots of a boulder with all that is in them, except for what git cannot store.
func (s *Slots) Discard(boulderID string) error {
	for _, d := range s.agreed() {
		in, _ := d.ofBoulder(boulderID)
		if in.base == "" {
			continue
		}
		if err := errors.Join(removeTemporary(in.path()), s.removeDir(d, boulderID), s.leave(d)); err != nil {
			return err
		}
	}
	return nil
}

// removeDir removes a boulder's directory in d, except for what has files that are nowhere else.
func (s *Slots) removeDir(d slotsDir, boulderID string) error {
	defer s.lockDirs()()
	all := d.leases()
	if name := all.of(boulderID); name != "" {
		return d.end(all, name)
	}
	return d.removeSlots(boulderID)
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
	add := func(dir, pattern string, ours func(name string) bool) {
		names, _ := fs.Glob(os.DirFS(dir), pattern) // the patterns are valid
		for _, name := range names {
			path := filepath.Join(dir, name)
			info, err := os.Lstat(path)
			if err == nil && info.IsDir() && ours(name) && statedir.Owned(info) && now.Sub(info.ModTime()) > abandoned {
				paths = append(paths, path)
			}
		}
	}
	add(os.TempDir(), indexPrefix+"*", func(string) bool { return true })
	for _, d := range s.agreed() {
		add(d.path(), stagedPrefix+"*", staged().MatchString)
	}
	slices.Sort(paths)
	return paths
}

// HoldsKept reports whether the slots of a boulder have files that are nowhere else, which nothing removes.
func (s *Slots) HoldsKept(boulderID string) bool {
	return slices.ContainsFunc(s.dirs(), func(d slotsDir) bool {
		in, _ := d.ofBoulder(boulderID)
		return in.base != "" && in.holdsKept()
	})
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
