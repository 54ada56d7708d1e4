// Package orphan ends the processes that a dead manager left behind.
//
// A manager that starts anything first registers: it writes a record into its state directory, keeps it locked, and
// gives everything that it starts a mark in the environment. When it ends in good order it ends what still carries
// the mark. When it was killed, the next command in the same project finds a record without an owner, and does that
// for it.
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
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	// DirName is the directory of records in the state directory.
	DirName = "processes"
	// Variable is the name of the mark in the environment.
	Variable = "MANAGER_PROCESS"
	// patience is how long to wait for killed processes to be gone.
	patience = 5 * time.Second
)

// ErrAlive says that processes could not be ended: they hang in the kernel, or are made faster than they are ended.
var ErrAlive = errors.New("processes of a manager could not be ended")

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
func Sweep(dir string) (Swept, error) {
	records, err := openRecords(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Swept{}, nil
	}
	if err != nil {
		return Swept{}, fmt.Errorf("look for processes that a dead manager left: %w", err)
	}
	defer records.Close()
	var total Swept
	for {
		// A manager that was started inside of another one, by its agent, is ended with it, and leaves a record too.
		round, err := sweepOnce(records)
		total.Managers += round.Managers
		total.Processes += round.Processes
		if err != nil {
			return total, fmt.Errorf("end what a dead manager left, by the records in %s: %w",
				filepath.Join(dir, DirName), err)
		}
		if round.Processes == 0 {
			return total, nil
		}
	}
}

func sweepOnce(records *os.Root) (Swept, error) {
	marks, err := marksIn(records)
	var swept Swept
	for _, mark := range marks {
		file, dead := takeOver(records, mark)
		if !dead {
			continue
		}
		n, endErr := file.finish(records)
		swept.Managers++
		swept.Processes += n
		err = errors.Join(err, endErr)
	}
	return swept, err
}
