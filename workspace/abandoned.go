package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bouldermgr/manager/internal/statedir"
)

// KeepsFiles reports whether a directory of slots has files that git cannot store, and that are nowhere else.
func KeepsFiles(dir string) bool {
	found, _ := fs.Glob(os.DirFS(dir), "*/"+keptPrefix+"*") // the pattern is valid
	return len(found) > 0
}

// RemoveAbandoned removes a directory that [Abandoned] has returned, with all slots in it, except for what git cannot store. It
// refuses one that a project uses again.
func RemoveAbandoned(dir string) error {
	d := slotsDir{filepath.Dir(dir), []string{filepath.Base(dir)}}
	info, err := os.Lstat(dir)
	switch of := ownerOf(dir); {
	case err != nil:
		return err
	case !info.IsDir() || !statedir.Owned(info):
		return fmt.Errorf("%s is a link, or somebody else's", dir)
	case !filepath.IsAbs(of.Project) || of.ID != "" && listed(of.Project).ID == of.ID:
		return fmt.Errorf("%s is in use again", dir)
	}
	err = d.removeStaged()
	entries, readErr := os.ReadDir(dir)
	err = errors.Join(err, readErr)
	for _, entry := range entries {
		if name := entry.Name(); ofBoulder().MatchString(name) || leasedName().MatchString(name) {
			err = errors.Join(err, d.removeSlots(name))
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
