package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bouldermgr/manager/internal/boltfile"
)

const (
	// DirName is the directory of a project that holds manager's state.
	DirName = ".manager"
	// FileName is the database in it.
	FileName = "manager.db"
)

// EnsureDir makes the directory .manager in a project, for its owner only whatever the umask and kept out of git, and
// returns its path. It may be called again. A symbolic link is refused: the project's files may come from
// anybody, and must not choose where state is written.
func EnsureDir(project string) (string, error) {
	dir := filepath.Join(project, DirName)
	if err := makePrivateDir(dir); err != nil {
		return "", fmt.Errorf("state directory %s: %w (manager keeps its state in the project: make it writable, "+
			"or choose another with -C)", dir, err)
	}
	if err := ignoreInGit(filepath.Join(dir, ".gitignore")); err != nil {
		return "", fmt.Errorf("keep state directory %s out of git: %w", dir, err)
	}
	return dir, nil
}

func makePrivateDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("it exists and is not a directory; move it away")
	}
	if info.Mode().Perm() == 0o700 {
		return nil
	}
	return os.Chmod(dir, 0o700)
}

// ignoreInGit leaves a file that is there as it is.
func ignoreInGit(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString("*\n")
	if err := errors.Join(err, f.Chmod(0o600), f.Close()); err != nil {
		return errors.Join(boltfile.Explain(err), os.Remove(path)) // an empty one would be left as it is, and ignore nothing
	}
	return nil
}
