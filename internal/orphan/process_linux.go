package orphan

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/bouldermgr/manager/internal/statedir"
)

// processes lists the running processes, with their marks from the variable. Zombies are left out.
func processes(variable string) ([]process, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		p, err := stat(pid)
		if err != nil {
			continue // it has ended
		}
		info, err := os.Lstat("/proc/" + name)
		if err != nil || !statedir.Owned(info) {
			p.mark = otherUser
		} else if environ, err := os.ReadFile("/proc/" + name + "/environ"); err == nil {
			p.mark = markOf(environ, variable)
		}
		all = append(all, p)
	}
	return all, nil
}

var errEnded = errors.New("the process has ended")

// stat reads /proc/PID/stat. The start is in clock ticks since boot. The name in parentheses may contain anything.
func stat(pid int) (process, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, err
	}
	return parseStat(pid, data)
}

func parseStat(pid int, data []byte) (process, error) {
	// Indexes of the fields behind the name, from field 3 of proc_pid_stat(5).
	const state, parent, group, session, threads, start = 0, 1, 2, 3, 17, 19
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) <= start {
		return process{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	// A zombie. Its first thread can be one while others still run and hold its files and locks.
	if strings.ContainsAny(fields[state], "ZXx") && (fields[threads] == "1" || fields[threads] == "0") {
		return process{}, errEnded
	}
	p := process{pid: pid}
	var errs [4]error
	p.parent, errs[0] = strconv.Atoi(fields[parent])
	p.group, errs[1] = strconv.Atoi(fields[group])
	p.session, errs[2] = strconv.Atoi(fields[session])
	p.start, errs[3] = strconv.ParseUint(fields[start], 10, 64)
	return p, errors.Join(errs[:]...)
}
