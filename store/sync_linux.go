package store

import (
	"errors"
	"os"
	"syscall"
)

// syncData waits until the bytes of a file are on disk. Its times need not be.
func syncData(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
