package project

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/bouldermgr/manager/internal/text"
)

// LockOwner says which process has locked a file, as far as the kernel tells: it is asked where a process does not
// answer for itself. It is empty if that cannot be found out.
func LockOwner(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	inode := fmt.Sprintf(":%d", info.Sys().(*syscall.Stat_t).Ino)
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return ""
	}
	defer locks.Close()
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		// 1: FLOCK  ADVISORY  WRITE 4711 08:01:393273 0 EOF
		f := strings.Fields(lines.Text())
		if len(f) < 6 || !slices.Contains(f, "FLOCK") || !strings.HasSuffix(f[5], inode) || f[4] == "0" {
			continue
		}
		who := ": process " + f[4]
		if line, err := os.ReadFile("/proc/" + f[4] + "/cmdline"); err == nil {
			who += fmt.Sprintf(", `%s`", text.Clip(string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})), 200))
		}
		return who
	}
	return ""
}
