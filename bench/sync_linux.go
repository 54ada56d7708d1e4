package main

import (
	"os"
	"syscall"
)

// syncData waits until the bytes of a file are on disk, as bbolt does.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
