package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
)

// ErrMoved is returned by [DB.Commit] when the file is not at its place any more: it was deleted, moved or replaced while it
// was open, by `git clean -fdx` for one. Nothing is written then, as nobody would find it. What was stored until then is
// written back beside or at that place, as far as the disk allows; the error says where it is.
var ErrMoved = errors.New("the database was deleted, moved or replaced while it was in use")

// checkPlace fails if the path does not lead to the open file any more, and saves what is in it; or if the file was cut, which
// writing into the journal would not notice.
func (db *DB) checkPlace() error {
	info, err := os.Lstat(db.path)
	if err == nil && os.SameFile(info, db.place) {
		if info.Size() < db.least {
			db.end(&CorruptError{Bucket: "the file", Key: "page", Err: fmt.Errorf("it was cut to %d bytes", info.Size())})
		}
		return db.whyEnded()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return explain(err)
	}
	err = db.rescue(err == nil)
	db.end(err)
	return err
}

// rescue writes a copy of the open file, which has lost its name, to the old place, or beside it if something else is there.
func (db *DB) rescue(taken bool) error {
	path := db.path
	if taken {
		path += ".rescued-" + stamp(time.Now())
	}
	dir := filepath.Dir(path)
	err := makePrivateDir(dir)
	if err == nil && filepath.Base(dir) == DirName {
		err = ignoreInGit(filepath.Join(dir, ".gitignore"))
	}
	if err == nil {
		err = db.view(context.Background(), func(s *snapshot) error { return copyTo(s.Tx, path) })
	}
	if err != nil {
		return fmt.Errorf("%w, and could not be written back: %w", ErrMoved, explain(err))
	}
	db.log.Warn("store written back", "path", path)
	return fmt.Errorf("%w; everything that was stored until then is in %s now: go on with `manager resume`", ErrMoved, path)
}

// copyTo writes a snapshot of the whole database to a file that is not there yet, for its owner only. It appears under its
// name when it is complete and on disk.
func copyTo(tx *bolt.Tx, path string) (err error) {
	partial := path + ".tmp-" + stamp(time.Now())
	f, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(partial))
		}
	}()
	_, err = tx.WriteTo(f)
	if err := errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close()); err != nil {
		return err
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%s is there already", path), err)
	}
	if err := os.Rename(partial, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// stamp makes the name of a file unique: a backup never replaces another one.
func stamp(now time.Time) string { return now.UTC().Format("20060102T150405.000000000Z") }
