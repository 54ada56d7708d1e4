// Package statedir writes files below a project's directory, mostly in its .manager, for their owner only whatever the
// umask, and nowhere else; and with [Replace] those that the user names, whose links are theirs.
//
// What lies in a project may come from anybody: a repository can bring a .manager along, and an agent that works in
// the project can put symbolic links there while a run goes on. So no path is followed by name: each directory down
// to the one that is written to is opened in the one above it and must be a directory, and everything below that is
// reached through an [os.Root], which does not leave it by links, "..", or absolute names.
package statedir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	dirMode  = 0o700
	fileMode = 0o600
)

// Open opens the directory that is reached from base, which must exist and is trusted, by way of names; what is not
// there is made. A name that is there and is no directory, or is a symbolic link, is an error. The caller closes it.
func Open(base string, names ...string) (*os.Root, error) {
	root, err := os.OpenRoot(base)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		next, err := enter(root, name)
		root.Close()
		if err != nil {
			return nil, fmt.Errorf("open directory %s: %w", filepath.Join(base, filepath.Join(names[:i+1]...)), err)
		}
		root = next
	}
	return root, nil
}

// enter opens a directory in another one, and makes it if it is not there, with a mode that no umask has a say in.
func enter(in *os.Root, name string) (*os.Root, error) {
	err := in.Mkdir(name, dirMode)
	if err == nil {
		err = in.Chmod(name, dirMode)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	info, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, errors.New("it is a link or a file and not a directory: move it away")
	}
	root, err := in.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	// A link that was put there since is followed by OpenRoot; what was opened must be what was looked at.
	opened, err := root.Stat(".")
	if err == nil && !os.SameFile(info, opened) {
		err = errors.New("it was replaced while it was being opened")
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// Owned reports whether a file is the user's own.
func Owned(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// Write replaces the file that is reached from base by a path with slashes, as a whole or not at all, also in a crash;
// it is on disk when Write returns. The directories on the way are opened as [Open] does it. A link with the file's
// name is replaced, and not followed.
func Write(base, path string, data []byte) error {
	names := strings.Split(path, "/")
	below, name := names[:len(names)-1], names[len(names)-1]
	root, err := Open(base, below...)
	if err != nil {
		return err
	}
	defer root.Close()
	temp := "." + strings.TrimLeft(name, ".") + "-" + rand.Text() + ".tmp"
	f, err := root.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(f.Chmod(fileMode), err, f.Sync(), f.Close()) // a umask may have taken the owner's rights
	if err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		_ = root.Remove(temp)
		return err
	}
	dir, err := root.Open(".") // a rename survives a power failure only if its directory is synced
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// ErrIrregular refuses a path at which there is something else than a file, such as a pipe.
var ErrIrregular = errors.New("not a regular file: name another one")

// Replaceable gives the file that a path of the user's stands for, which need not exist, and the mode that it shall have: an
// old one keeps its own. The error says why there can be none.
func Replaceable(path string, ifNew fs.FileMode) (target string, mode fs.FileMode, err error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return "", 0, fmt.Errorf("%s is a directory: name a file in it", path)
	case err == nil && !info.Mode().IsRegular():
		return "", 0, fmt.Errorf("%s is %w", path, ErrIrregular)
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
	return path, ifNew, nil
}

// Replace writes the file of [Replaceable] as [Write] does. A symbolic link stays, and what it points to is replaced.
func Replace(path string, data []byte, ifNew fs.FileMode) error {
	target, mode, err := Replaceable(path, ifNew)
	if err == nil {
		err = Write(filepath.Dir(target), filepath.Base(target), data)
	}
	if err == nil {
		err = os.Chmod(target, mode)
	}
	return err
}
