package statedir

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Writable tries to write to a directory, and leaves nothing behind.
func Writable(dir string) error {
	f, err := os.CreateTemp(dir, ".manager-doctor-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Free returns the free space of a directory's file system for this user, in bytes.
func Free(dir string) (uint64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, err
	}
	return fs.Bavail * uint64(fs.Bsize), nil
}
