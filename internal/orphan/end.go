package orphan

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

const (
	// patience is how long to wait for killed processes to be gone, and recheck the pause between looks at them.
	patience = 5 * time.Second
	recheck  = 2 * time.Millisecond
	// others stands for the mark of a process that is another user's: it is nobody's to end. No real mark looks like it.
	others = "-"
)

// process is a running process of this user, as the system lists it.
type process struct {
	pid, parent, group, session int
	start                       uint64 // in the system's own units: tells a process from a later one with the id
	mark                        string // its value of the variable; empty: it has none, or it cannot be read
}

// End kills every process that carries a mark, "NAME=value", in its environment, and those that belong to them (see the
// package's comment), and returns when they are gone. It is an error if some are not after a while: they hang in the kernel,
// or are made faster than they are ended.
func End(mark string) (ended int, err error) {
	type identity struct { // tells a process from a later one with the same id
		pid   int
		start uint64
	}
	name, value, _ := strings.Cut(mark, "=")
	killed := map[identity]bool{}
	pause := time.NewTicker(recheck)
	defer pause.Stop()
	for deadline := time.Now().Add(patience); ; <-pause.C {
		all, err := processes(name)
		if err != nil {
			return len(killed), fmt.Errorf("list processes: %w", err)
		}
		left := pick(all, value, os.Getpid())
		for _, p := range left {
			if kill(p) {
				killed[identity{p.pid, p.start}] = true
			}
		}
		// A process that is ending has lost its environment already, and can no longer be picked.
		for _, p := range all {
			if killed[identity{p.pid, p.start}] {
				left = append(left, p)
			}
		}
		if len(left) == 0 {
			return len(killed), nil
		}
		if time.Now().After(deadline) {
			return len(killed), fmt.Errorf("processes of a manager could not be ended within %v, process %d first: end it by hand",
				patience, left[0].pid)
		}
	}
}

// kill ends the very process that was listed, and reports whether it was still there.
func kill(p process) bool {
	handle, err := os.FindProcess(p.pid)
	if err != nil {
		return false
	}
	defer func() { _ = handle.Release() }() // it fails only if it was released before
	// The handle stands for one process, on Linux also after its end. If that is the listed one, it was so when its
	// environment was read.
	if now, err := stat(p.pid); err != nil || now.start != p.start {
		return false
	}
	return handle.Signal(syscall.SIGKILL) == nil
}

// pick finds the processes to end: those that carry the mark, and those without any mark that are children of one to
// end, or are in a session or group that one to end leads. self and those that it comes from are never among them: a
// person may sit in a terminal that an agent has opened.
func pick(all []process, mark string, self int) []process {
	spared := lineage(all, self)
	taken := map[int]bool{}
	var picked []process
	for changed := true; changed; {
		changed = false
		for _, p := range all {
			if taken[p.pid] || spared[p.pid] {
				continue
			}
			// taken[p.session] asks for the leader: a session and a group have the id of the process that began them, and
			// the system does not give it to another one while they exist.
			if p.mark == mark || p.mark == "" && (taken[p.parent] || taken[p.session] || taken[p.group]) {
				taken[p.pid], changed = true, true
				picked = append(picked, p)
			}
		}
	}
	return picked
}

// lineage is a process with its parent, and so on, and the first process of the system.
func lineage(all []process, pid int) map[int]bool {
	parents := map[int]int{}
	for _, p := range all {
		parents[p.pid] = p.parent
	}
	line := map[int]bool{0: true, 1: true}
	for !line[pid] {
		line[pid] = true
		pid = parents[pid]
	}
	return line
}

// markOf finds the value of a variable in an environment as the kernel keeps it: "NAME=value" entries that end with
// a zero byte. The first entry of a name counts, as for getenv(3).
func markOf(environ []byte, name string) string {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(name+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// Running reports whether a process exists and is not just waiting to be reaped.
func Running(pid int) bool { _, err := stat(pid); return err == nil }
