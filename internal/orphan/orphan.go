// Package orphan ends the processes that a dead manager left behind.
//
// A manager that starts anything first registers: it makes a record in its state directory, an empty file, keeps it
// locked, and gives everything that it starts a mark in the environment. When it ends in good order it ends what still
// carries the mark. When it was killed, the next command in the same project finds a record without an owner, and does
// that for it.
//
// What is ended: processes of the same user that carry the mark; their children; and whoever is in a session or a
// process group that one of them leads, since nobody gets there but by being started there. So a program that scrubs
// its environment is found as long as its parent or its leader still runs. What escapes: one that has no mark to be
// read (scrubbed, overwritten as some servers do to show a title, or hidden by a set-user-id program), and that is
// in a session and group of its own, and whose parent has ended. What is never ended: this process and those that it
// comes from, another user's, and one that carries another manager's mark.
//
// Linux and macOS.
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
	// DirName is the directory of records in the state directory.
	DirName = "processes"
	// Variable is the name of the mark in the environment.
	Variable = "MANAGER_PROCESS"
)

// Registration is this process's promise to leave nothing behind: an open, locked file. Its methods may be called from any
// goroutine.
//
// The lock is what says that the owner lives: the kernel gives it up with the process, whatever ends it, and a process
// id that was used again does not bring it back. The database beside it stands on locks of the same kind.
type Registration struct {
	records *os.Root
	mark    string // the name of the file
	file    *os.File
	release func() error
}

// Register makes this process's record in a state directory. Call it before anything is started that is to carry the mark.
//
// The record is not synced: it has to survive this process, not the machine, with which all processes end.
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

// Env is what the environment of everything that this process starts has to hold: "NAME=value".
func (r *Registration) Env() string { return Variable + "=" + r.mark }

// Release ends what still carries the mark, and removes the record. It may be called again, and does nothing then. After
// an error something may be left; then the record stays for the next [Sweep].
func (r *Registration) Release() error { return r.release() }

// Swept is what [Sweep] found.
type Swept struct {
	Managers  int // that had died without a chance to clean up
	Processes int // that they had left, and that were ended
}

// Sweep ends what dead managers left behind in a state directory, and removes their records. It may be called at any
// time, by several processes at once, and beside managers that are at work: those are left alone. A directory that
// does not exist is an empty one. Entries that are no records of this user are left as they are.
//
// With an error, everything that could be done is done; what could not, the next Sweep tries again.
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
	// A manager that was started inside of another one, by its agent, is ended with it, and leaves a record too.
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

// openRecords opens the directory of records, and makes it if it is not there. The project's files may come from anybody,
// and must not choose where records are looked for: no link is followed.
func openRecords(dir string) (*os.Root, error) {
	return statedir.Open(filepath.Dir(dir), filepath.Base(dir), DirName)
}

// isMark reports whether a name is one that [rand.Text] makes: 26 letters and digits of base32.
func isMark(name string) bool {
	const length, alphabet = 26, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	return len(name) == length && strings.Trim(name, alphabet) == ""
}

// create makes the record of this process. A Sweep of another process may look at it before it is locked, and then
// takes it away: in that case another one is made.
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

// takeOver opens and locks a record whose owner is dead, so that only one process ends what is left; nil: it is none.
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

// lock takes the record, and closes the file if another process has it or its name leads elsewhere by now. Locks belong to
// the open file, which no child inherits.
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

// finish ends everything that carries the mark and removes the record. If something is left, the record stays, and
// anybody can take it over.
func (r *Registration) finish() (ended int, err error) {
	if ended, err = End(r.Env()); err != nil {
		r.file.Close()
		return ended, err
	}
	return ended, r.remove()
}

func (r *Registration) remove() error {
	err := r.records.Remove(r.mark)
	r.file.Close() // and with it the lock, when nobody can find the record any more
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

const (
	// patience is how long to wait for killed processes to be gone, and recheck the pause between looks at them.
	patience = 5 * time.Second
	recheck  = 2 * time.Millisecond
	// certain is how many looks in a row find nothing after a kill: a process that is just being executed has no
	// environment to be read, for microseconds of its own time, which a busy machine draws out.
	certain = 10
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
	calm := 0
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
		if calm++; len(left) > 0 {
			calm = 0
		} else if len(killed) == 0 || calm == certain {
			return len(killed), nil
		}
		if len(left) > 0 && time.Now().After(deadline) {
			return len(killed), fmt.Errorf("processes of a manager could not be ended within %v, process %d first: end it by hand",
				patience, left[0].pid)
		}
	}
}

// kill ends the very process that was listed, and reports whether it was still there.
func kill(p process) bool {
	handle, _ := os.FindProcess(p.pid)      // it finds any on Unix
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
