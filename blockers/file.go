package blockers

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/bouldermgr/manager/internal/boltfile"
	"github.com/bouldermgr/manager/internal/statedir"
)

// maxFile is how large blockers.md may get. It is read as a whole with every append; the user would have stopped reading a
// thousand times earlier.
const maxFile = 16 << 20

// append adds the items that blockers.md lacks at its end, and makes it if it is not there. They are on disk when append
// returns. After an error, some of the text may be there.
//
// It is people's file, in a place that agents can write to as well: no link is followed on the way to it, nothing but a
// regular file is written to, and what is in it is never changed, only added to.
func (d *Register) append(items []item) error {
	names, path := strings.Split(d.cfg.File, string(filepath.Separator)), filepath.Join(d.cfg.Root, d.cfg.File)
	below, name := names[:len(names)-1], names[len(names)-1]
	root, err := statedir.Open(d.cfg.Root, below...)
	if err != nil {
		return fmt.Errorf("%w; or choose another place for the list", err)
	}
	defer root.Close()
	// For its owner, as plans are: what is asked at night may be meant for few.
	made, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = errors.Join(made.Close(), boltfile.SyncDir(path))
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d.failpoint("made")
	f, openErr := root.OpenFile(name, os.O_RDWR|os.O_APPEND|syscall.O_NONBLOCK, 0) // opening a pipe would wait
	if openErr == nil {
		defer f.Close()
	}
	inPlace := func() error { // not a link that was put there since, nor another file that an editor has
		info, err := root.Lstat(name)
		if err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file: nothing is written to it; move it away", path)
		}
		if err = cmp.Or(err, openErr); err != nil {
			return err
		}
		if opened, err := f.Stat(); err != nil || !os.SameFile(info, opened) {
			return errors.Join(errors.New("the list was replaced while it was being written"), err)
		}
		return nil
	}
	if err := inPlace(); err != nil {
		return err
	}
	d.failpoint("opened")
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return err
	}
	if len(text) > maxFile {
		return fmt.Errorf("%s has more than %d MiB: move it away, and a new one is begun", path, maxFile>>20)
	}
	if _, err := f.WriteString(compose(string(text), items)); err != nil {
		return err
	}
	return cmp.Or(f.Sync(), inPlace())
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
