package taskledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/statedir"
)

// WriteFile writes a plan as [Format] does. The file is replaced as a whole or not at all, also in a crash. A new file
// is for its owner only, an old one keeps its mode; a symbolic link stays, and what it points to is replaced. The
// directory must exist.
func WriteFile(path string, plan *boulder.Plan) error {
	data, err := Format(plan)
	if err != nil {
		return err
	}
	target, mode, err := replaceable(path)
	if err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	dir, err := statedir.Open(filepath.Dir(target))
	if err == nil {
		defer dir.Close()
		err = dir.Write(filepath.Base(target), data)
	}
	if err == nil {
		err = os.Chmod(target, mode)
	}
	if err != nil {
		return fmt.Errorf("write the plan to %s: %w", path, err)
	}
	return nil
}

// replaceable gives the file that a path stands for, which need not exist, and the mode it shall have.
func replaceable(path string) (target string, mode fs.FileMode, err error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return "", 0, fmt.Errorf("%s is a directory: name a file in it", path)
	case err == nil && !info.Mode().IsRegular():
		return "", 0, fmt.Errorf("%s is not a regular file: name another one", path)
	case err == nil:
		target, err = filepath.EvalSymlinks(path)
		return target, info.Mode().Perm(), err
	case !errors.Is(err, fs.ErrNotExist):
		return "", 0, err
	}
	if _, err := os.Lstat(path); err == nil {
		return "", 0, fmt.Errorf("%s is a link that leads nowhere: remove it or name another file", path)
	}
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", 0, fmt.Errorf("there is no directory %s: create it or name another file", dir)
	}
	return path, 0o600, nil
}
