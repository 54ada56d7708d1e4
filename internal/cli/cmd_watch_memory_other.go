//go:build !linux

package cli

// releaseProgram is of Linux only: elsewhere the system takes back by itself what is not used.
func releaseProgram() error { return nil }
