// Package statedir writes files below a project's .manager, for their owner only whatever the umask, and nowhere else.
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
			return nil, fmt.Errorf("open state directory %s: %w", filepath.Join(base, filepath.Join(names[:i+1]...)), err)
		}
		root = next
	}
	return root, nil
}

// enter opens a directory in another one, and makes it if it is not there.
func enter(in *os.Root, name string) (*os.Root, error) {
	if err := mkdir(in, name); err != nil {
		return nil, err
	}
	info, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, errors.New("it is a link or a file and not a directory: move it away, since state is kept nowhere else")
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

// mkdir makes a directory whose mode no umask has a say in.
func mkdir(in *os.Root, name string) error {
	err := in.Mkdir(name, dirMode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return in.Chmod(name, dirMode)
}

// Write replaces a file in the directory that [Open] opens by base and below, as a whole or not at all, also in a crash; it
// is on disk when Write returns. A link of that name is replaced, and not followed. Directories on the way are made.
func Write(base string, below []string, name string, data []byte) error {
	if !filepath.IsLocal(name) {
		return fmt.Errorf("write in %s: %q leads out of it", filepath.Join(base, filepath.Join(below...)), name)
	}
	root, err := Open(base, below...)
	if err != nil {
		return err
	}
	defer root.Close()
	parent := filepath.Dir(name)
	for i, c := range parent + "/" {
		if c == '/' || c == filepath.Separator {
			if err := mkdir(root, parent[:i]); err != nil {
				return err
			}
		}
	}
	temp := filepath.Join(parent, "."+strings.TrimLeft(filepath.Base(name), ".")+"-"+rand.Text()+".tmp")
	f, err := root.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	err = f.Chmod(fileMode) // a umask may have taken the owner's rights
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		_ = root.Remove(temp)
		return err
	}
	dir, err := root.Open(parent) // a rename survives a power failure only if its directory is synced
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
