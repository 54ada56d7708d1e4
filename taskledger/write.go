package taskledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bouldermgr/manager/boulder"
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
	if err := replace(target, data, mode); err != nil {
		return fmt.Errorf("write the plan to %s: %w", path, err)
	}
	return nil
}

// replaceable gives the file that a path stands for, which need not exist, and the mode it shall have.
func replaceable(path string) (target string, mode fs.FileMode, err error) {
	target, err = filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return missing(path)
	}
	if err != nil {
		return "", 0, err
	}
	info, err := os.Stat(target)
	switch {
	case err != nil:
		return "", 0, err
	case info.IsDir():
		return "", 0, fmt.Errorf("%s is a directory: name a file in it", path)
	case !info.Mode().IsRegular():
		return "", 0, fmt.Errorf("%s is not a regular file: name another one", path)
	}
	return target, info.Mode().Perm(), nil
}

func missing(path string) (target string, mode fs.FileMode, err error) {
	if _, err := os.Lstat(path); err == nil {
		return "", 0, fmt.Errorf("%s is a link that leads nowhere: remove it or name another file", path)
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return "", 0, fmt.Errorf("there is no directory %s: create it or name another file", dir)
	}
	return path, 0o600, nil
}

// replace puts data under a name by way of a temporary file beside it.
func replace(path string, data []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".plan-*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(dir)
}

// syncDir makes a rename survive a power failure.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
