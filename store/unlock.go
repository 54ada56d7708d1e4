package store

import (
	"os"
	"syscall"
)

// unlock gives up the lock of a file that bbolt panicked over. Closing the file does not: the mapping that bbolt left
// behind keeps it open.
func unlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
