package blockers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/boltfile"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/internal/text"
)

// maxFile is the maximum size of blockers.md, which every addition reads and writes whole.
const maxFile = 16 << 20

// addItems puts the missing items into blockers.md, each at the end of its section, and creates the file if necessary. They
// are synced when addItems returns; after an error, none is in the file.
//
// The file belongs to the user, and agents can write to its directory. So addItems follows no symbolic links, replaces regular
// files only, and changes no existing text. What is saved there at that moment is kept too.
func (d *Register) addItems(items []item) error {
	names, place := strings.Split(d.cfg.File, string(filepath.Separator)), filepath.Join(d.cfg.Root, d.cfg.File)
	below, name := names[:len(names)-1], names[len(names)-1]
	root, err := statedir.Open(d.cfg.Root, below...)
	if err != nil {
		return fmt.Errorf("%w; or choose another place for the list", err)
	}
	defer root.Close()
	// Only the owner can read it, as with plans: its questions may be confidential.
	made, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = made.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d.failpoint("made")
	before, mode, err := readList(root, name, place)
	if err != nil {
		return err
	}
	d.failpoint("read")
	temp := newOf(name)
	defer func() { _ = root.Remove(temp) }()
	replaced := before
	for range 10 { // more saves than people make in that time
		with := compose(before, items)
		if err := writeNew(root, temp, with, mode); err != nil {
			return err
		}
		d.failpoint("written")
		if err := exchange(root, temp, name); err != nil {
			return err
		}
		found, _, err := readList(root, temp, place)
		if errors.Is(err, fs.ErrNotExist) { // renamed
			return boltfile.SyncDir(place)
		}
		if err != nil { // not the list that was read: put it back
			return errors.Join(err, exchange(root, temp, name))
		}
		if found == replaced {
			return boltfile.SyncDir(place)
		}
		before, replaced = found, with // saved since it was read
	}
	return errors.Join(fmt.Errorf("%s was saved again and again while it was being written", place), exchange(root, temp, name))
}

// newOf names the file that a list is written to first.
func newOf(name string) string { return "." + strings.TrimLeft(name, ".") + ".new" }

// Files returns the paths of the list and of the file that it is written to first, slash-separated. No diff has them.
func Files(list string) []string {
	list = filepath.ToSlash(filepath.Clean(cmp.Or(list, DefaultFile)))
	dir, name := path.Split(list)
	return []string{list, dir + newOf(name)}
}

// readList returns the text and the mode of a list, which shown names in errors.
func readList(root *os.Root, name, shown string) (string, fs.FileMode, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return "", 0, err
	}
	if !info.Mode().IsRegular() {
		return "", 0, fmt.Errorf("%s is not a regular file: nothing is written to it; move it away", shown)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe would block
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	if opened, err := f.Stat(); err != nil || !os.SameFile(info, opened) { // a link put there since
		return "", 0, errors.Join(errors.New("the list was replaced while it was being opened"), err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d MiB: move it away, and a new one is begun", shown, maxFile>>20)
	}
	return string(text), info.Mode().Perm(), err
}

func writeNew(root *os.Root, name, text string, mode fs.FileMode) error {
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process that was killed
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
}

// exchange swaps two files at once. A file system that cannot has the first renamed to the second: what is saved in the
// moment since it was read is lost there.
func exchange(root *os.Root, one, other string) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	err = swap(int(dir.Fd()), one, other)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		return root.Rename(one, other)
	}
	return err
}

// compose returns the list with the items that it lacks, each at the end of its section. None of its text changes.
func compose(list string, items []item) string {
	for _, i := range items {
		if strings.Contains(list, i.Text) {
			continue // a crash left it there
		}
		if list == "" {
			list = preamble
		} else if !strings.HasSuffix(list, "\n") {
			list += "\n"
		}
		if end := sectionEnd(list, i.Section); end < 0 {
			list += "\n## " + i.Section + "\n\n" + i.Text
		} else {
			list = list[:end] + i.Text + list[end:]
		}
	}
	return list
}

// sectionEnd returns where the text of a section ends, in bytes from the start of the list, or -1 if there is none. Any
// heading ends it, and a code block, in which what looks like a heading is none.
func sectionEnd(list, title string) int {
	end, offset := -1, 0
	for line := range strings.Lines(list) {
		offset += len(line)
		line = strings.TrimRight(line, " \t\r\n")
		mark, ours := strings.CutPrefix(line, "## ")
		switch {
		case end >= 0 && (strings.HasPrefix(line, "#") || strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~")):
			return end
		case end >= 0 && line != "" || ours && strings.Trim(mark, "# \t") == title:
			end = offset
		}
	}
	return end
}

// Flush adds to blockers.md what it lacks. Every operation does so too, and the next one retries after an error.
func (d *Register) Flush(ctx context.Context) error { return d.with(ctx, changing, d.flush) }

// flush adds what blockers.md lacks, and stores that. Its write transaction excludes other processes.
func (d *Register) flush(tx *bolt.Tx) error {
	all, _ := records(tx)
	due, items := unlisted(all)
	if len(due) == 0 {
		return nil
	}
	d.failpoint("adding")
	if err := d.addItems(items); err != nil {
		return boltfile.Explain(err)
	}
	d.failpoint("added")
	for _, r := range due {
		r.Listed = r.Status
		if err := put(tx, r); err != nil {
			return err
		}
	}
	return nil
}

// Listed adds to blockers.md what came up and was answered in a boulder since the last call, in any process. It gets
// the events after a number from since (those of other kinds may be missing), and the boulder's blockers as they were at
// the last of them or later. It returns how many items could not be written, if that is known; the next call retries.
func (d *Register) Listed(
	ctx context.Context, boulderID string, since func(seq uint64) ([]boulder.Event, []boulder.Blocker, error),
) (unwritten int, err error) {
	seq := uint64(0) // none stored: from the beginning
	read := func(tx *bolt.Tx) {
		seq, _ = strconv.ParseUint(string(tx.Bucket(bucketListed).Get([]byte(boulderID))), 10, 64)
	}
	if err := d.with(ctx, reading, func(tx *bolt.Tx) error { read(tx); return nil }); err != nil {
		return 0, err
	}
	items, _, err := itemsOf(since(seq))
	if unwritten = len(items); err != nil || len(items) == 0 {
		return unwritten, err
	}
	err = d.with(ctx, making, func(tx *bolt.Tx) error { // its write transaction excludes other processes
		read(tx)
		items, last, err := itemsOf(since(seq))
		if unwritten = len(items); err != nil || len(items) == 0 {
			return err
		}
		d.failpoint("adding")
		if err := d.addItems(items); err != nil {
			return boltfile.Explain(err)
		}
		d.failpoint("added")
		unwritten = 0
		return tx.Bucket(bucketListed).Put([]byte(boulderID), []byte(strconv.FormatUint(last, 10)))
	})
	return unwritten, err
}

func itemsOf(events []boulder.Event, blockers []boulder.Blocker, err error) (items []item, last uint64, _ error) {
	for _, e := range events {
		last = e.Seq
		switch body := e.Body.(type) {
		case boulder.BlockerRaised:
			items = append(items, raisedItem(&body.Blocker))
		case boulder.BlockerSettled:
			for i := range blockers {
				if blockers[i].ID == body.BlockerID {
					items = append(items, settledItem(&blockers[i]))
				}
			}
		}
	}
	return items, last, err
}

// unlisted returns the items that blockers.md lacks, and their records.
func unlisted(all []*record) (due []*record, items []item) {
	for _, r := range all {
		n := len(items)
		if r.Listed == "" {
			items = append(items, raisedItem(&r.Blocker))
		}
		if r.Status.Settled() && !r.Listed.Settled() {
			items = append(items, settledItem(&r.Blocker))
		}
		if len(items) > n {
			due = append(due, r)
		}
	}
	return due, items
}

// item is an entry of blockers.md, written at once and never changed.
type item struct {
	Section string // its heading
	Text    string // whole lines
}

const (
	sectionHard    = "Hard blockers"
	sectionSoft    = "Soft blockers"
	sectionAnswers = "Answers"
)

const preamble = `# Blockers

What only the user can decide, as it came up. Tick, change and add what you like: manager only ever adds to this file.
An answer reaches the agents with ` + "`manager blockers answer ID \"…\"`" + ` or ` + "`manager blockers clarify`" + `.
`

const itemTime = "2006-01-02 15:04:05 UTC"

// raisedItem is the entry of a new blocker (seed 003, FR-027).
func raisedItem(b *boulder.Blocker) item {
	section, impact := sectionSoft, "soft: the agent continues"
	switch {
	case b.Hard:
		section, impact = sectionHard, "hard: work on it waits for the answer"
	case b.PlanQuestion != "":
		impact = "soft: the work goes on with the default"
	}
	var s strings.Builder
	fmt.Fprintf(&s, "- [ ] **%s** %s\n", b.ID, inline(b.Question))
	field(&s, "Category", string(b.Category)+" ("+impact+")")
	field(&s, "Context", b.Context)
	if a := b.Ask; a != nil {
		if a.Kind == boulder.AskPermission && !strings.Contains(b.Question, permissionText(a)) {
			field(&s, "Permission", permissionText(a))
		}
		field(&s, "Tool", a.Tool)
		field(&s, "Arguments", text.Cut(text.Fold(a.Arguments), maxOption))
	}
	for n, o := range b.Options {
		field(&s, fmt.Sprintf("Option %d", n+1), o)
	}
	field(&s, "Chosen", b.ChosenOption)
	field(&s, "Because", b.ChosenReasoning)
	if !b.Until.IsZero() {
		field(&s, "Waits for the user", "until "+b.Until.UTC().Format(itemTime)+", then it is refused")
	}
	switch {
	case b.PlanQuestion != "":
		field(&s, "Boulder", b.BoulderID+", before the task was split")
	case b.BoulderID != "":
		field(&s, "Sub-task", fmt.Sprintf("%s, attempt %d, boulder %s", b.SubTaskID, b.Attempt, b.BoulderID))
	}
	field(&s, "Session", b.SessionID)
	field(&s, "Recorded", b.CreatedAt.UTC().Format(itemTime))
	return item{section, s.String()}
}

func settledItem(b *boulder.Blocker) item {
	word, said := "answered", b.Answer
	switch {
	case b.Status == boulder.BlockerSkipped:
		word, said = "skipped", "No answer: the work continues without it."
	case b.Allowed:
		word, said = "allowed", strings.TrimSpace("You may. "+said)
	}
	var s strings.Builder
	fmt.Fprintf(&s, "- **%s %s** %s\n", b.ID, word, inline(said))
	field(&s, "Question", text.Cut(text.Fold(b.Question), maxOption))
	field(&s, "Settled", b.SettledAt.UTC().Format(itemTime))
	return item{sectionAnswers, s.String()}
}

func field(s *strings.Builder, name, value string) {
	if value = inline(value); value != "" {
		fmt.Fprintf(s, "  - %s: %s\n", name, value)
	}
}

// inlineEscapes escapes links, images, HTML and checkboxes. Headings, lists and quotes need the start of a line.
var inlineEscapes = strings.NewReplacer(`\`, `\\`, `<`, `\<`, `[`, `\[`)

// inline turns s into one line of Markdown without markup.
func inline(s string) string { return inlineEscapes.Replace(text.Fold(clean(s))) }
