package opencode

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// processAttributes puts the server into its own group and makes the kernel kill
// it when this program dies without being able to clean up.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// markedPasses bounds the search for processes that were forked while it went on.
const markedPasses = 5

// killMarked kills every process that has the mark in its environment. OpenCode
// starts each tool in a session of its own; when the server dies, these live on,
// outside its group and with no parent to find them by.
func killMarked(mark string) {
	needle := []byte("\x00" + mark + "\x00")
	for range markedPasses {
		found := false
		environments, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, path := range environments {
			data, err := os.ReadFile(path)
			if err != nil || !bytes.Contains(append([]byte{0}, data...), needle) {
				continue // another user's, or gone
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				found = syscall.Kill(pid, syscall.SIGKILL) == nil || found
			}
		}
		if !found {
			return
		}
	}
}
