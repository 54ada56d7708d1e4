package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bouldermgr/manager/internal/statedir"
)

// Abandoned returns the user's directories of slots below a home whose projects are gone or do not know of them any more, by the
// projects' directories. In doubt, one is not abandoned: its project cannot be read, or is on a disk that is not mounted, or has
// been moved to where the slots that this is called for are.
func (s *Slots) Abandoned(home string) map[string][]string {
	all := map[string][]string{}
	owners, _ := fs.Glob(os.DirFS(home), "*/"+ownerFile) // the pattern is valid
	for _, name := range owners {
		dir := filepath.Join(home, filepath.Dir(name))
		if of := ownerOf(dir); isAbandoned(dir, of) && !s.owns(dir) {
			all[of.Project] = append(all[of.Project], dir)
		}
	}
	return all
}

func isAbandoned(dir string, of owner) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || !statedir.Owned(info) || !filepath.IsAbs(of.Project) {
		return false
	}
	var l list
	err = readJSON(filepath.Join(of.Project, stateDir), slotDirsFile, &l)
	switch {
	case err == nil:
		return of.ID == "" || l.ID != of.ID
	case of.Mount != "" && mountOf(of.Mount) != of.Mount:
		return false
	}
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// mountOf returns where the disk is mounted that a directory is on; empty if it is not there.
func mountOf(dir string) string {
	device := func(path string) (uint64, bool) {
		info, err := os.Stat(path)
		if err != nil {
			return 0, false
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		return uint64(stat.Dev), ok //nolint:gosec,unconvert // its type differs by system
	}
	of, ok := device(dir)
	if !ok {
		return ""
	}
	for up := filepath.Dir(dir); up != dir; up = filepath.Dir(dir) {
		if d, ok := device(up); !ok || d != of {
			break
		}
		dir = up
	}
	return dir
}

// KeepsFiles reports whether a directory of slots has files that git cannot store, and that are nowhere else.
func KeepsFiles(dir string) bool {
	found, _ := fs.Glob(os.DirFS(dir), "*/"+keptPrefix+"*") // the pattern is valid
	return len(found) > 0
}

// UsedLately reports whether something in a directory of slots has changed within a day.
func UsedLately(dir string, now time.Time) bool {
	return filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what cannot be read is not known to be in use
		}
		if info, err := entry.Info(); err == nil && now.Sub(info.ModTime()) < abandoned {
			return fs.ErrExist
		}
		return nil
	}) != nil
}

// RemoveAbandoned removes a directory that [Slots.Abandoned] has returned, with all slots in it and their temporary directories,
// except for what git cannot store. It refuses one that a project uses again.
func RemoveAbandoned(dir string) error {
	if !isAbandoned(dir, ownerOf(dir)) {
		return fmt.Errorf("%s is in use again", dir)
	}
	d := slotsDir{filepath.Dir(dir), []string{filepath.Base(dir)}}
	err := d.removeStaged()
	entries, readErr := os.ReadDir(dir)
	err = errors.Join(err, readErr)
	for _, entry := range entries {
		if name := entry.Name(); ofBoulder().MatchString(name) || leasedName().MatchString(name) {
			err = errors.Join(err, removeTemporary(filepath.Join(dir, name)), d.removeSlots(name))
		}
	}
	if err == nil {
		err = d.setLeases(nil)
	}
	if entries, readErr = os.ReadDir(dir); err != nil || readErr != nil || len(entries) != 1 || entries[0].Name() != ownerFile {
		return errors.Join(err, readErr) // what is left is not of a slot
	}
	return errors.Join(os.Remove(filepath.Join(dir, ownerFile)), os.Remove(dir))
}

// removeTemporary removes the temporary directories of the slots in a directory.
func removeTemporary(dir string) error {
	if !isDir(dir) {
		return nil
	}
	slots, _ := fs.Glob(os.DirFS(dir), "*.json") // the pattern is valid
	for _, marker := range slots {
		if err := os.RemoveAll(tempDir(filepath.Join(dir, strings.TrimSuffix(marker, ".json")))); err != nil {
			return err
		}
	}
	return nil
}
