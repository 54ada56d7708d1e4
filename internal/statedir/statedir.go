// Package statedir writes files below a project's directory, mostly in .manager, private to their owner whatever the
// umask. [Replace] writes files that the user names, and trusts their links.
//
// Project content is untrusted: a repository may contain a .manager, and an agent may create symbolic links at any
// time. So no path is followed by name. Each directory is opened within its parent and must be a directory, and files
// are reached through an [os.Root], which cannot be left by links, "..", or absolute names.
package statedir

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
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

// Open opens the directory at names below base, and creates missing ones. base must exist and is trusted. A name that
// is a symbolic link or not a directory is an error. The caller closes the root.
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

// enter opens a directory in another one, and creates it if needed, with dirMode whatever the umask.
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
	// OpenRoot follows a link created since: check that it opened the same directory.
	opened, err := root.Stat(".")
	if err == nil && !os.SameFile(info, opened) {
		err = errors.New("it was replaced while it was being opened")
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// Owned reports whether the current user owns a file.
func Owned(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// Write atomically replaces the file at a slash-separated path below base, and returns when it is on disk. Directories
// on the way are opened as by [Open]. A link with the file's name is replaced, not followed.
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
	err = errors.Join(f.Chmod(fileMode), err, f.Sync(), f.Close()) // despite the umask
	if err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		_ = root.Remove(temp)
		return err
	}
	dir, err := root.Open(".") // a rename is durable only after syncing its directory
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Read reads a file of a directory in which others may write, too. A link is not followed out of the directory, and a pipe, which
// would block, is [ErrIrregular].
func Read(in *os.Root, name string) ([]byte, error) {
	f, err := in.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, cmp.Or(err, ErrIrregular)
	}
	return io.ReadAll(f)
}

// ErrIrregular refuses a path of something other than a file, such as a pipe.
var ErrIrregular = errors.New("not a regular file: name another one")

// Replaceable resolves a path of the user to the file to write, which need not exist, and its mode: that of the
// existing file, else ifNew. The error says why the path cannot be written.
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

// Replace writes the file of [Replaceable] like [Write]. A symbolic link stays, and its target is replaced.
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
