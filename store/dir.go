package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bouldermgr/manager/internal/boltfile"
	"github.com/bouldermgr/manager/internal/statedir"
)

const (
	DirName  = ".manager"   // the directory of a project that holds manager's state
	FileName = "manager.db" // the database in it
)

// EnsureDir makes the directory .manager in a project, for its owner only whatever the umask and kept out of git, and
// returns its path. It may be called again. A symbolic link is refused: the project's files may come from
// anybody, and must not choose where state is written.
func EnsureDir(project string) (string, error) {
	path := filepath.Join(project, DirName)
	explain := func(err error) error {
		if err != nil {
			err = fmt.Errorf("state directory %s: %w (manager keeps its state in the project: make it writable, "+
				"or choose another with -C)", path, boltfile.Explain(err))
		}
		return err
	}
	dir, err := statedir.Open(project, DirName)
	if err != nil {
		return "", explain(err)
	}
	dir.Close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		if err := os.Chmod(path, 0o700); err != nil {
			return "", explain(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(path, ".gitignore")); !errors.Is(err, fs.ErrNotExist) {
		return path, explain(err) // what the user wrote into it stays
	}
	return path, explain(statedir.Write(project, []string{DirName}, ".gitignore", []byte("*\n")))
}
