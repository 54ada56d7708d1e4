package blockers

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/bouldermgr/manager/internal/boltfile"
)

// maxFile is how large blockers.md may get. It is read as a whole with every append; a person would have stopped reading a
// thousand times earlier.
const maxFile = 16 << 20

// list is blockers.md. It is people's file, in a place that agents can write to as well: no link is followed on the way to
// it, nothing but a regular file is opened, and what is in it is never changed, only added to.
type list struct {
	root string // of the project
	name string // relative to it
	// failpoint is that of the desk.
	failpoint func(step string)
}

// dir opens the directory that the list is in, and makes it if create is set.
func (l list) dir(create bool) (*os.Root, error) {
	root, err := os.OpenRoot(l.root)
	if err != nil {
		return nil, err
	}
	path, _ := filepath.Split(filepath.ToSlash(l.name))
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if name == "" {
			continue
		}
		next, err := enter(root, name, create)
		root.Close()
		if err != nil {
			return nil, fmt.Errorf("directory %s: %w", filepath.Join(l.root, path), err)
		}
		root = next
	}
	return root, nil
}

func enter(in *os.Root, name string, create bool) (*os.Root, error) {
	if create {
		if err := in.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	info, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, errors.New("it is a link or a file and not a directory: choose another place for the list")
	}
	next, err := in.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	// A link that was put there since is followed by OpenRoot; what was opened must be what was looked at.
	opened, err := next.Stat(".")
	if err == nil && !os.SameFile(info, opened) {
		err = errors.New("it was replaced while it was being opened")
	}
	if err != nil {
		return nil, errors.Join(err, next.Close())
	}
	return next, nil
}

// open opens the list. It is [fs.ErrNotExist] if it is not there, or a directory on the way is not.
func (l list) open(dir *os.Root, flag int) (*os.File, error) {
	base := filepath.Base(l.name)
	before, err := dir.Lstat(base)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: nothing is written to it; move it away",
			filepath.Join(l.root, l.name))
	}
	l.failpoint("looked")
	f, err := dir.OpenFile(base, flag|syscall.O_NONBLOCK, 0) // opening a pipe that was put there since would wait
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	switch {
	case err != nil:
		return nil, errors.Join(err, f.Close())
	case !os.SameFile(before, opened): // an editor has just replaced it, or somebody has put a link there
		return nil, errors.Join(errReplaced, f.Close())
	}
	return f, nil
}

var errReplaced = errors.New("the list was replaced while it was being opened")

// read gives what is in the list; nothing where it is not there.
func (l list) read() (string, error) {
	dir, err := l.dir(false)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer dir.Close()
	f, err := l.open(dir, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s has more than %d MiB: move it away, and a new one is begun", filepath.Join(l.root, l.name),
			maxFile>>20)
	}
	return string(data), err
}

// append adds text at the end of the list, wherever that is by then, and makes the list if it is not there. It is on disk
// when append returns. After an error, some of the text may be there.
func (l list) append(text string) error {
	dir, err := l.dir(true)
	if err != nil {
		return err
	}
	defer dir.Close()
	f, err := l.open(dir, os.O_WRONLY|os.O_APPEND)
	fresh := errors.Is(err, fs.ErrNotExist)
	if fresh {
		// For its owner, as plans are: what is asked at night may be meant for few.
		f, err = dir.OpenFile(filepath.Base(l.name), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil || !fresh {
		return err
	}
	return boltfile.SyncDir(filepath.Join(l.root, l.name))
}
