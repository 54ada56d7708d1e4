package orphan

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// record is an open, locked record: that of this process, or one that was taken over from a dead one.
//
// The lock is what says that the owner lives: the kernel gives it up with the process, whatever ends it, and a process
// id that was used again does not bring it back. The content says the same in another way, for file systems on which a
// lock can get lost. Only if both agree is an owner taken for dead.
type record struct {
	mark  string
	owner owner
	file  *os.File
}

// owner is the content of a record. The zero owner is one that was torn: its process died while it registered, so
// nothing was started under it.
type owner struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // when it was started, in the system's own units: tells a process from a later one
	Boot  string `json:"boot"`  // of the machine
}

// maxRecord bounds what is read of a file that may come from anybody, in bytes.
const maxRecord = 4 << 10

// isMark reports whether a name is one that [rand.Text] makes: 26 letters and digits of base32.
func isMark(name string) bool {
	const length, alphabet = 26, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	return len(name) == length && strings.Trim(name, alphabet) == ""
}

// openRecords opens the directory of records. The state directory itself must be a real one: the project's files may
// come from anybody, and must not choose where records are looked for.
func openRecords(dir string) (*os.Root, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s: %w", dir, fs.ErrNotExist)
	}
	info, err = os.Lstat(filepath.Join(dir, DirName))
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory; move it away", filepath.Join(dir, DirName))
	}
	return os.OpenRoot(filepath.Join(dir, DirName))
}

func makeRecords(dir string) (*os.Root, error) {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a directory", dir)) // nor a link to one
	}
	err := os.Mkdir(filepath.Join(dir, DirName), 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	records, err := openRecords(dir)
	if err != nil {
		return nil, err
	}
	if err := records.Chmod(".", 0o700); err != nil { // whatever the umask
		records.Close()
		return nil, err
	}
	return records, nil
}

// marksIn lists the records by their names.
func marksIn(records *os.Root) ([]string, error) {
	d, err := records.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	marks := names[:0]
	for _, name := range names {
		if isMark(name) {
			marks = append(marks, name)
		}
	}
	return marks, err
}

// create makes the record of this process. A Sweep of another process may look at it before it is locked, and then
// takes it away: in that case another one is made.
func create(records *os.Root) (*record, error) {
	self, err := identify(os.Getpid())
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(self)
	if err != nil {
		return nil, err
	}
	for range 10 {
		r := &record{mark: rand.Text(), owner: self}
		r.file, err = records.OpenFile(r.mark, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		if !r.lock() || !r.inPlace(records) {
			r.file.Close()
			continue
		}
		_, err = r.file.Write(data)
		if err = errors.Join(err, r.file.Chmod(0o600)); err != nil {
			return nil, errors.Join(err, r.remove(records))
		}
		return r, nil
	}
	return nil, errors.New("the record could not be locked: is something else at work in there?")
}

// takeOver opens a record, and reports whether its owner is dead. Then it is locked, so that only one process ends
// what is left.
func takeOver(records *os.Root, mark string) (*record, bool) {
	info, err := records.Lstat(mark)
	if err != nil || !info.Mode().IsRegular() || !mine(info) {
		return nil, false
	}
	file, err := records.OpenFile(mark, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false
	}
	r := &record{mark: mark, file: file}
	if !r.lock() || !r.inPlace(records) {
		file.Close()
		return nil, false
	}
	data, err := io.ReadAll(io.LimitReader(file, maxRecord))
	if json.Unmarshal(data, &r.owner) != nil || r.owner.PID <= 0 {
		r.owner = owner{} // of a process that died while it wrote
	}
	if err != nil || r.owner.alive() {
		file.Close()
		return nil, false
	}
	return r, true
}

// alive reports whether the process that wrote this still runs.
func (o owner) alive() bool {
	now, err := identify(o.PID)
	return err == nil && now == o
}

// lock takes the record; it fails if another process has it. Locks belong to the open file, which no child inherits.
func (r *record) lock() bool {
	return syscall.Flock(int(r.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// inPlace reports whether the name still leads to the open file.
func (r *record) inPlace(records *os.Root) bool {
	open, err := r.file.Stat()
	if err != nil {
		return false
	}
	named, err := records.Lstat(r.mark)
	return err == nil && os.SameFile(open, named)
}

// finish ends everything that carries the mark and removes the record. If something is left, the record stays, and
// anybody can take it over.
func (r *record) finish(records *os.Root) (ended int, err error) {
	// What ran before the machine was started is gone.
	if boot, err := bootID(); err != nil || r.owner.Boot == "" || r.owner.Boot == boot {
		if ended, err = End(Variable + "=" + r.mark); err != nil {
			r.file.Close()
			return ended, err
		}
	}
	return ended, r.remove(records)
}

func (r *record) remove(records *os.Root) error {
	err := records.Remove(r.mark)
	r.file.Close() // and with it the lock, when nobody can find the record any more
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// mine reports whether a file belongs to the user of this process.
func mine(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
