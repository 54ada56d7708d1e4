package opencode

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// processAttributes puts the server into its own group and has the kernel kill it if this program dies uncleanly.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// residentMemory returns the bytes that a process has in memory, or 0 if unknown.
func residentMemory(pid int) int64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(data), "VmRSS:")
	number, _, _ := strings.Cut(strings.TrimSpace(rest), " kB")
	kilobytes, _ := strconv.ParseInt(number, 10, 64)
	return kilobytes << 10
}
