//go:build unix && !linux

package opencode

import "syscall"

// processAttributes puts the server into its own group. There is no parent death signal here: if this program is
// killed, the server goes on.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// residentMemory is what a process has in memory, which is not looked at here.
func residentMemory(int) int64 { return 0 }
