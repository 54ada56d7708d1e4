//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package store

import "os"

// unlock has nothing to do where bbolt's lock belongs to the descriptor, and goes when that is closed.
func unlock(*os.File) error { return nil }
