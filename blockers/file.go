package blockers

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/bouldermgr/manager/internal/boltfile"
)

// maxFile is how large blockers.md may get. It is read as a whole with every append; a person would have stopped reading a
// thousand times earlier.
const maxFile = 16 << 20

// list is blockers.md. It is people's file, in a place that agents can write to as well: no link is followed on the way to
// it, nothing but a regular file is opened, and what is in it is never changed, only added to.
type list struct {
	root string // of the project
	name string // relative to it, with slashes
	// failpoint is that of the desk.
	failpoint func(step string)
}

var errReplaced = errors.New("the list was replaced while it was being written")

// append adds the items that the list lacks at its end, and makes the list if it is not there. They are on disk when append
// returns. After an error, some of the text may be there.
func (l list) append(items []item) error {
	root, err := os.OpenRoot(l.root)
	if err != nil {
		return err
	}
	defer root.Close()
	fresh, err := l.prepare(root)
	if err != nil {
		return err
	}
	before, err := l.look(root)
	if err != nil {
		return err
	}
	l.failpoint("looked")
	f, err := root.OpenFile(l.name, os.O_RDWR|os.O_APPEND|syscall.O_NONBLOCK, 0) // opening a pipe would wait
	if err != nil {
		return err
	}
	defer f.Close()
	if opened, err := f.Stat(); err != nil || !os.SameFile(before, opened) { // a link was put there since
		return errors.Join(errReplaced, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return err
	}
	if len(text) > maxFile {
		return fmt.Errorf("%s has more than %d MiB: move it away, and a new one is begun", filepath.Join(l.root, l.name),
			maxFile>>20)
	}
	if _, err := f.WriteString(compose(string(text), items)); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if after, err := l.look(root); err != nil || !os.SameFile(before, after) { // an editor has put another file there
		return errors.Join(errReplaced, err)
	}
	if fresh {
		return boltfile.SyncDir(filepath.Join(l.root, l.name))
	}
	return nil
}

// prepare makes the directories and the file. [os.Root] keeps links from leading out of the project; here links within it
// are refused as well.
func (l list) prepare(root *os.Root) (fresh bool, err error) {
	for i, c := range l.name {
		if c != '/' {
			continue
		}
		dir := l.name[:i]
		if err := root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return false, err
		}
		if info, err := root.Lstat(dir); err != nil || !info.IsDir() {
			return false, errors.Join(fmt.Errorf("%s is a link or a file and not a directory: choose another place for the list",
				filepath.Join(l.root, dir)), err)
		}
	}
	// For its owner, as plans are: what is asked at night may be meant for few.
	f, err := root.OpenFile(l.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
}

// look says which file is there.
func (l list) look(root *os.Root) (os.FileInfo, error) {
	info, err := root.Lstat(l.name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file: nothing is written to it; move it away", filepath.Join(l.root, l.name))
	}
	return info, err
}

// compose is what has to be appended to a text for it to have the items, each under its heading. An item that is there
// word for word was appended before a crash.
func compose(text string, items []item) string {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.Trim(title, "# \t")
		} else if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~") {
			section = "" // another heading, or code, in which ours would be none
		}
	}
	var s strings.Builder
	for _, i := range items {
		if strings.Contains(text, i.Text) {
			continue
		}
		if s.Len() == 0 && text == "" {
			s.WriteString(preamble)
		} else if s.Len() == 0 && !strings.HasSuffix(text, "\n") {
			s.WriteString("\n")
		}
		if i.Section != section {
			section = i.Section
			fmt.Fprintf(&s, "\n## %s\n\n", section)
		}
		s.WriteString(i.Text)
	}
	return s.String()
}
