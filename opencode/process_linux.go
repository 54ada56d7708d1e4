package opencode

import "syscall"

// processAttributes puts the server into its own group and makes the kernel kill it when this program dies without
// being able to clean up.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
