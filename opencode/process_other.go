//go:build unix && !linux

package opencode

import "syscall"

// processAttributes puts the server into its own group. There is no parent death signal here: if this program is
// killed, the server goes on.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
