package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// lockOwner says which process has locked a file, as far as the kernel tells: it is asked where a process does not
// answer for itself. It is empty if that cannot be found out.
func lockOwner(path string) string {
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
		text := ": process " + f[4]
		if line, err := os.ReadFile("/proc/" + f[4] + "/cmdline"); err == nil {
			text += fmt.Sprintf(", `%s`", clipText(string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})), 200))
		}
		return text
	}
	return ""
}
