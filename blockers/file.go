package blockers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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

// maxFile is the maximum size of blockers.md, which every append reads whole.
const maxFile = 16 << 20

// append adds the missing items at the end of blockers.md, and creates the file if necessary. They are synced when
// append returns. After an error, part of the text may have been written.
//
// The file belongs to the user, and agents can write to its directory. So append follows no symbolic links, writes to
// regular files only, and never changes existing text.
func (d *Register) append(items []item) error {
	names, path := strings.Split(d.cfg.File, string(filepath.Separator)), filepath.Join(d.cfg.Root, d.cfg.File)
	below, name := names[:len(names)-1], names[len(names)-1]
	root, err := statedir.Open(d.cfg.Root, below...)
	if err != nil {
		return fmt.Errorf("%w; or choose another place for the list", err)
	}
	defer root.Close()
	// Only the owner can read it, as with plans: its questions may be confidential.
	made, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = errors.Join(made.Close(), boltfile.SyncDir(path))
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d.failpoint("made")
	f, openErr := root.OpenFile(name, os.O_RDWR|os.O_APPEND|syscall.O_NONBLOCK, 0) // opening a pipe would block
	if openErr == nil {
		defer f.Close()
	}
	inPlace := func() error { // guards against a link put existing since, and an editor that replaced the file
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
	existing, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return err
	}
	if len(existing) > maxFile {
		return fmt.Errorf("%s has more than %d MiB: move it away, and a new one is begun", path, maxFile>>20)
	}
	if _, err := f.WriteString(compose(string(existing), items)); err != nil {
		return err
	}
	return cmp.Or(f.Sync(), inPlace())
}

// compose returns the text to append: the items, each under its heading. Items that a crash left there are skipped.
func compose(existing string, items []item) string {
	section := ""
	for line := range strings.Lines(existing) {
		line = strings.TrimRight(line, " \t\r\n")
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.Trim(title, "# \t")
		} else if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~") {
			section = "" // another heading; or a code block, in which our heading would not be one
		}
	}
	var s strings.Builder
	for _, i := range items {
		if strings.Contains(existing, i.Text) {
			continue
		}
		if s.Len() == 0 && existing == "" {
			s.WriteString(preamble)
		} else if s.Len() == 0 && !strings.HasSuffix(existing, "\n") {
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

// Flush appends to blockers.md what it lacks. Every operation does so too, and the next one retries after an error.
func (d *Register) Flush(ctx context.Context) error { return d.with(ctx, changing, d.flush) }

// flush appends what blockers.md lacks, and stores that. Its write transaction excludes appends by other processes.
func (d *Register) flush(tx *bolt.Tx) error {
	all, _ := records(tx)
	due, items := unlisted(all)
	if len(due) == 0 {
		return nil
	}
	d.failpoint("appending")
	if err := d.append(items); err != nil {
		return boltfile.Explain(err)
	}
	d.failpoint("appended")
	for _, r := range due {
		r.Listed = r.Status
		if err := put(tx, r); err != nil {
			return err
		}
	}
	return nil
}

// Listed appends to blockers.md what came up and was answered in a boulder since the last call, in any process. It gets
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
		d.failpoint("appending")
		if err := d.append(items); err != nil {
			return boltfile.Explain(err)
		}
		d.failpoint("appended")
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

What only the user can decide, as it came up. Tick, change and add what you like: manager only ever appends to this file.
An answer reaches the agents with ` + "`manager blockers answer ID \"…\"`" + ` or ` + "`manager blockers clarify`" + `.
`

const itemTime = "2006-01-02 15:04:05 UTC"

// raisedItem is the entry of a new blocker (seed 003, FR-027).
func raisedItem(b *boulder.Blocker) item {
	section, impact := sectionSoft, "soft: the agent continues"
	if b.Hard {
		section, impact = sectionHard, "hard: work on it waits for the answer"
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
	if b.BoulderID != "" {
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
