//go:build unix && !linux

package opencode

import "syscall"

// processAttributes puts the server into its own group. Without a parent death signal it survives a killed parent.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// residentMemory is known on Linux only.
func residentMemory(int) int64 { return 0 }
