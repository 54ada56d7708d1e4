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
	"strings"
	"syscall"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/boltfile"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/internal/text"
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
	there, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return err
	}
	if len(there) > maxFile {
		return fmt.Errorf("%s has more than %d MiB: move it away, and a new one is begun", path, maxFile>>20)
	}
	if _, err := f.WriteString(compose(string(there), items)); err != nil {
		return err
	}
	return cmp.Or(f.Sync(), inPlace())
}

// compose is what has to be appended to a text for it to have the items, each under its heading. An item that is there
// word for word was appended before a crash.
func compose(there string, items []item) string {
	section := ""
	for line := range strings.Lines(there) {
		line = strings.TrimRight(line, " \t\r\n")
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.Trim(title, "# \t")
		} else if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~") {
			section = "" // another heading, or code, in which ours would be none
		}
	}
	var s strings.Builder
	for _, i := range items {
		if strings.Contains(there, i.Text) {
			continue
		}
		if s.Len() == 0 && there == "" {
			s.WriteString(preamble)
		} else if s.Len() == 0 && !strings.HasSuffix(there, "\n") {
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

// Flush writes into blockers.md what it lacks. Every operation does this, so that it is only needed at an end. The error
// says why something could not be written; it is tried again with the next operation.
func (d *Register) Flush(ctx context.Context) error { return d.with(ctx, changing, d.flush) }

// flush appends what blockers.md lacks, and notes that it is there. The database is open for writing, so that no other
// process of ours appends at the same time; items that were appended before a crash are not appended again.
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

// unlisted are the items that blockers.md lacks, and the records that they are of.
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

// item is a piece of blockers.md that is ours. It is written in one go, and never changed again.
type item struct {
	Section string // the heading that it belongs under
	Text    string // whole lines
}

// The sections.
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
		if a.Kind == boulder.AskPermission && !strings.Contains(b.Question, wanted(a)) {
			field(&s, "Permission", wanted(a))
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

// inlineEscapes take from text what could become a link, a picture, HTML or a checkbox. What makes headings, lists and
// quotes does so at the beginning of a line only, where no such text is.
var inlineEscapes = strings.NewReplacer(`\`, `\\`, `<`, `\<`, `[`, `\[`)

// inline makes one line of a text that is nothing but text.
func inline(s string) string { return inlineEscapes.Replace(text.Fold(clean(s))) }
