package opencode

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// processAttributes puts the server into its own group and makes the kernel kill it when this program dies without
// being able to clean up.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// residentMemory is what a process has in memory, in bytes; 0: not known.
func residentMemory(pid int) int64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(data), "VmRSS:")
	number, _, _ := strings.Cut(strings.TrimSpace(rest), " kB")
	kilobytes, _ := strconv.ParseInt(number, 10, 64)
	return kilobytes << 10
}
