package cli

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// releaseProgram takes the program's own code and constants out of the resident set; what is used again comes back from
// the kernel's cache. A watch runs for days, and needs two thirds of the 22 MB that the start of 250 packages has
// touched: after an hour it has held 27 MB at most, and 35 without this (measured by bench/watch.go). A lower GC percent
// would not do: the heap is 5 MB of it.
//
// Only mappings that nobody can write to, and of which no page differs from the file, are given up: in a program that is
// built to run at any address the loader has written addresses into some of them before they were sealed.
func releaseProgram() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return err
	}
	for _, m := range releasable(string(maps), program) {
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, m.from, m.length, syscall.MADV_DONTNEED); errno != 0 {
			return os.NewSyscallError("madvise", errno)
		}
	}
	return nil
}

type region struct{ from, length uintptr }

// releasable reads /proc/PID/smaps: a line for each mapping, followed by lines about it, of which "Anonymous: 0 kB" says
// that all its pages are the file's.
func releasable(smaps, file string) (all []region) {
	var m region
	ours := false
	for line := range strings.Lines(smaps) {
		switch fields := strings.Fields(line); {
		case len(fields) > 0 && !strings.HasSuffix(fields[0], ":"):
			m.from, m.length, ours = mapping(line, file)
		case ours && len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0":
			all = append(all, m)
		}
	}
	return all
}

// mapping reads the line of a mapping, such as "00400000-012ec000 r-xp 00000000 00:2a 1234  /usr/bin/manager". ours:
// it is a private mapping of the file that cannot be written to.
func mapping(line, file string) (from, length uintptr, ours bool) {
	fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 6)
	if len(fields) < 6 || strings.TrimLeft(fields[5], " ") != file ||
		fields[1] != "r-xp" && fields[1] != "r--p" {
		return 0, 0, false
	}
	first, last, _ := strings.Cut(fields[0], "-")
	begin, beginErr := strconv.ParseUint(first, 16, strconv.IntSize)
	end, endErr := strconv.ParseUint(last, 16, strconv.IntSize)
	if beginErr != nil || endErr != nil || end <= begin {
		return 0, 0, false
	}
	return uintptr(begin), uintptr(end - begin), true
}
