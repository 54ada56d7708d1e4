// Package orphan kills the processes that a dead manager left behind. It supports Linux and macOS.
//
// Before a manager starts any process it registers: it creates an empty, locked record file in its state directory, and
// marks everything it starts with an environment variable. On a normal exit it kills what still has the mark. If it was
// killed, the next command in the project finds the record unlocked, and does so in its place.
//
// Killed are processes of the same user with the mark, their children, and all members of a session or process group
// that one of them leads, since only descendants get there. So a program that clears its environment is found while its
// parent or leader runs. A process escapes if its mark cannot be read (cleared, overwritten by a process title, or
// hidden by a set-user-id program), it is in its own session and group, and its parent has ended. This process and its
// ancestors, other users' processes and those with another manager's mark are never killed.
package orphan

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bouldermgr/manager/internal/statedir"
)

const (
	// DirName is the directory of records, in the state directory.
	DirName = "processes"
	// Variable is the environment variable of the mark.
	Variable = "MANAGER_PROCESS"
)

// Registration is the record of this process: an open, locked file. It is safe for concurrent use.
//
// The lock shows that the owner lives: the kernel releases it when the process ends, however it ends, and a reused
// process id does not restore it. The database uses locks of the same kind.
type Registration struct {
	records *os.Root
	mark    string // also the name of the file
	file    *os.File
	release func() error
}

// Register creates this process's record in a state directory. Call it before starting any process that needs the mark.
// The record is not synced: after a crash of the machine no processes are left.
func Register(dir string) (*Registration, error) {
	records, err := openRecords(dir)
	if err == nil {
		var r *Registration
		if r, err = create(records); err == nil {
			return r, nil
		}
		records.Close()
	}
	return nil, fmt.Errorf("record that processes will be started, in %s: %w (manager keeps its state in the project: "+
		"make it writable, or choose another with -C)", dir, err)
}

// Env returns the variable "NAME=value" that every process started here needs in its environment.
func (r *Registration) Env() string { return Variable + "=" + r.mark }

// Release kills everything with the mark, and removes the record unless it failed: then [Sweep] retries. Idempotent.
func (r *Registration) Release() error { return r.release() }

// Swept is the result of [Sweep].
type Swept struct {
	Managers  int // that died without cleaning up
	Processes int // of theirs that were killed
}

// Sweep kills what dead managers left behind in a state directory, and removes their records. It may be called at any
// time and concurrently in several processes; running managers are left alone. A missing directory counts as empty.
// Entries that are not records of this user are ignored.
//
// After an error the rest was still done; the next Sweep retries what failed.
func Sweep(dir string) (total Swept, err error) {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() { // a link may lead to another project's
		return total, nil
	}
	if _, err := os.Lstat(filepath.Join(dir, DirName)); errors.Is(err, fs.ErrNotExist) {
		return total, nil
	}
	records, err := openRecords(dir)
	if err != nil {
		return total, fmt.Errorf("look for processes that a dead manager left: %w", err)
	}
	defer records.Close()
	// A nested manager, started by an agent of another one, is killed with it and leaves a record too: hence the loop.
	for before := -1; before < total.Processes; {
		before = total.Processes
		entries, err := fs.ReadDir(records.FS(), ".")
		for _, e := range entries {
			if r := takeOver(records, e.Name()); r != nil {
				n, endErr := r.finish()
				total.Managers++
				total.Processes += n
				err = errors.Join(err, endErr)
			}
		}
		if err != nil {
			return total, fmt.Errorf("end what a dead manager left, by the records in %s: %w", filepath.Join(dir, DirName), err)
		}
	}
	return total, nil
}

// openRecords opens or creates the directory of records. It follows no links, since the project's files are untrusted.
func openRecords(dir string) (*os.Root, error) {
	return statedir.Open(filepath.Dir(dir), filepath.Base(dir), DirName)
}

// isMark reports whether a name looks like one of [rand.Text]: 26 letters and digits of base32.
func isMark(name string) bool {
	const length, alphabet = 26, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	return len(name) == length && strings.Trim(name, alphabet) == ""
}

// create creates the record of this process. A concurrent Sweep may remove it before it is locked: then it tries again.
func create(records *os.Root) (*Registration, error) {
	for range 10 {
		r := &Registration{records: records, mark: rand.Text()}
		var err error
		if r.file, err = records.OpenFile(r.mark, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return nil, err
		}
		if !r.lock() {
			continue
		}
		if err := r.file.Chmod(0o600); err != nil { // a umask may have taken the owner's rights
			return nil, errors.Join(err, r.remove())
		}
		r.release = sync.OnceValue(func() error {
			defer records.Close()
			_, err := r.finish()
			return err
		})
		return r, nil
	}
	return nil, errors.New("the record could not be locked: is something else at work in there?")
}

// takeOver opens and locks the record of a dead owner, so that one process cleans up; nil if it is not such a record.
func takeOver(records *os.Root, mark string) *Registration {
	info, err := records.Lstat(mark)
	if err != nil || !isMark(mark) || !info.Mode().IsRegular() || !statedir.Owned(info) {
		return nil
	}
	r := &Registration{records: records, mark: mark}
	if r.file, err = records.OpenFile(mark, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0); err != nil || !r.lock() {
		return nil
	}
	return r
}

// lock locks the record. If another process has it, or its name leads to another file by now, it closes the file. The
// lock belongs to the open file, which no child inherits.
func (r *Registration) lock() bool {
	err := syscall.Flock(int(r.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	open, openErr := r.file.Stat()
	named, namedErr := r.records.Lstat(r.mark)
	if errors.Join(err, openErr, namedErr) == nil && os.SameFile(open, named) {
		return true
	}
	r.file.Close()
	return false
}

// finish kills everything with the mark and removes the record. If something is left, the record stays, unlocked.
func (r *Registration) finish() (ended int, err error) {
	if ended, err = End(r.Env()); err != nil {
		r.file.Close()
		return ended, err
	}
	return ended, r.remove()
}

func (r *Registration) remove() error {
	err := r.records.Remove(r.mark)
	r.file.Close() // unlocks it, now that it cannot be found any more
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

const (
	// patience is how long to wait for killed processes to end; recheck is the pause between checks.
	patience = 5 * time.Second
	recheck  = 2 * time.Millisecond
	// quietChecks is how many checks in a row must find nothing after a kill: a process in execve has no readable
	// environment for microseconds of CPU time, which can be long on a busy machine.
	quietChecks = 10
	// otherUser stands for the mark of another user's process, which is never killed. No real mark looks like it.
	otherUser = "-"
)

// process is a running process, as the system lists it.
type process struct {
	pid, parent, group, session int
	start                       uint64 // in the system's units; distinguishes processes that reuse an id
	mark                        string // empty: none, or unreadable
}

// End kills every process with a mark, "NAME=value", in its environment and those that belong to it (see the package
// comment), and returns when they have ended. It fails if some are left after five seconds: they hang in the kernel, or
// new ones start faster than they are killed.
func End(mark string) (ended int, err error) {
	type identity struct { // unique, unlike a process id
		pid   int
		start uint64
	}
	name, value, _ := strings.Cut(mark, "=")
	killed := map[identity]bool{}
	pause := time.NewTicker(recheck)
	defer pause.Stop()
	quiet := 0
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
		// A process that is ending has no environment, and is not picked any more.
		for _, p := range all {
			if killed[identity{p.pid, p.start}] {
				left = append(left, p)
			}
		}
		if quiet++; len(left) > 0 {
			quiet = 0
		} else if len(killed) == 0 || quiet == quietChecks {
			return len(killed), nil
		}
		if len(left) > 0 && time.Now().After(deadline) {
			return len(killed), fmt.Errorf("processes of a manager could not be ended within %v, process %d first: end it by hand",
				patience, left[0].pid)
		}
	}
}

// kill kills the listed process, not a later one with its id, and reports whether it still existed.
func kill(p process) bool {
	handle, _ := os.FindProcess(p.pid)      // never fails on Unix
	defer func() { _ = handle.Release() }() // fails only after a release
	// On Linux the handle stays with one process. If the start matches now, it did when the environment was read.
	if now, err := stat(p.pid); err != nil || now.start != p.start {
		return false
	}
	return handle.Signal(syscall.SIGKILL) == nil
}

// pick returns the processes to kill: those with the mark, and unmarked ones that are their children or in a session or
// group that they lead. It spares self and its ancestors: an agent may have opened the user's terminal.
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
			// A session or group has the id of its leader, which the system does not reuse while the group exists.
			if p.mark == mark || p.mark == "" && (taken[p.parent] || taken[p.session] || taken[p.group]) {
				taken[p.pid], changed = true, true
				picked = append(picked, p)
			}
		}
	}
	return picked
}

// lineage returns a process with all its ancestors, and the ids 0 and 1.
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

// markOf returns a variable from an environment of zero-terminated "NAME=value" entries: the first, as getenv(3).
func markOf(environ []byte, name string) string {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(name+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// Running reports whether a process exists and is not a zombie.
func Running(pid int) bool { _, err := stat(pid); return err == nil }
