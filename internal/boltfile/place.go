package boltfile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
)

// write creates a file under a temporary name, so that a full disk, a crash or a power cut leaves no partial file at
// path. fill must leave it on disk; name gives it its name.
func write(path string, name func(temp, path string) error, fill func(temp string) error) error {
	temp := tempName(path)
	defer func() { _ = os.Remove(temp) }()
	if err := fill(temp); err != nil {
		return err
	}
	if err := name(temp, path); err != nil {
		return err
	}
	return SyncDir(path)
}

func fillWith(opts Options, fill func(*bolt.Tx) error) func(string) error {
	return func(temp string) error {
		db, err := openBolt(temp, opts)
		if err != nil {
			return err
		}
		return errors.Join(db.bolt.Update(fill), db.file.Chmod(0o600), db.release()) // despite the umask
	}
}

// publish gives a complete file its name, unless another process was faster.
func publish(temp, path string) error {
	err := os.Link(temp, path)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.EPERM): // the file system has no hard links
		return os.Rename(temp, path)
	}
	return err
}

// tempName returns a new hidden name in the directory of path.
func tempName(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"-"+rand.Text()+".tmp")
}

// SyncDir makes a file's name durable: syncing the file keeps only its content.
func SyncDir(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

var errReplaced = errors.New("the file was deleted or replaced while it was being opened")

func (db *DB) inPlace() error {
	opened, err := db.file.Stat()
	if err != nil {
		return err
	}
	info, err := os.Lstat(db.path)
	if err == nil && !os.SameFile(info, opened) {
		return errReplaced
	}
	return err
}

// rescueIfMoved fails if the file was moved, and then copies it to its old path, or next to a file that is there now.
func (db *DB) rescueIfMoved() error {
	lost, path := db.inPlace(), db.path
	switch {
	case errors.Is(lost, errReplaced):
		path += ".rescued-" + timestamp()
	case !errors.Is(lost, fs.ErrNotExist):
		return Explain(lost)
	}
	if dir := filepath.Dir(path); os.Mkdir(dir, 0o700) == nil {
		_ = os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*\n"), 0o600)
	}
	err := db.View(context.Background(), func(tx *bolt.Tx) error {
		return write(path, publish, func(temp string) error {
			f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			_, err = tx.WriteTo(f)
			return errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close())
		})
	})
	if err != nil {
		return db.failWrites(fmt.Errorf("%w, and could not be written back: %w", ErrMoved, Explain(err)))
	}
	db.opts.Logger.Warn("database written back", "path", path)
	return db.failWrites(fmt.Errorf("%w; everything that was stored until then is in %s now: continue with `manager resume`",
		ErrMoved, path))
}

// timestamp makes file names unique, so that no copy replaces another.
func timestamp() string { return time.Now().UTC().Format("20060102T150405.000000000Z") }
