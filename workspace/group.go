package workspace

import (
	"os/exec"
	"syscall"
)

// ownGroup puts a command into a process group of its own: Ctrl-C on the terminal asks the manager to stop in an
// orderly way, and must not end the git commands that this takes. Cancelling ends the whole group.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
