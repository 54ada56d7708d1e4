package orphan

import (
	"fmt"
	"os"
	"sync"
)

// Registration is this process's promise to leave nothing behind. Its methods may be called from any goroutine.
type Registration struct {
	records *os.Root
	file    *record
	once    sync.Once
	err     error
}

// Register writes this process's record into a state directory, which must exist. Call it before anything is started
// that is to carry the mark.
//
// The record is not synced: it has to survive this process, not the machine, with which all processes end.
func Register(dir string) (*Registration, error) {
	records, err := makeRecords(dir)
	if err == nil {
		var file *record
		if file, err = create(records); err == nil {
			return &Registration{records: records, file: file}, nil
		}
		records.Close()
	}
	return nil, fmt.Errorf("record that processes will be started, in %s: %w (manager keeps its state in the project: "+
		"make it writable, or choose another with -C)", dir, err)
}

// Env is what the environment of everything that this process starts has to hold: "NAME=value".
func (r *Registration) Env() string { return Variable + "=" + r.file.mark }

// Release ends what still carries the mark, and removes the record. It may be called again, and does nothing then. An
// error matches [ErrAlive] if something is left; then the record stays for the next [Sweep].
func (r *Registration) Release() error {
	r.once.Do(func() {
		_, r.err = r.file.finish(r.records)
		r.records.Close()
	})
	return r.err
}
