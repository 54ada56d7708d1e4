package blockers

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/boltfile"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/store"
)

type record struct {
	boulder.Blocker `json:"blocker"`
	// Delivered: the boulder has the answer.
	Delivered bool `json:"delivered,omitempty"`
	// Same is the same for the same ask of a session, or verdict on a turn. Like Grants, it is made of the ask as it was, and not of what is left
	// of it here.
	Same string `json:"ask,omitempty"`
	// Grants are the keys of what the user gives who allows it.
	Grants []string `json:"grants,omitempty"`
	// Listed is the newest status that blockers.md tells; empty: the blocker is not in it yet.
	Listed boulder.BlockerStatus `json:"listed,omitempty"`
}

func idOf(n uint64) string { return "B" + strconv.FormatUint(n, 10) }

func keyOf(id string) ([]byte, error) {
	digits, ok := strings.CutPrefix(strings.ToUpper(strings.TrimSpace(id)), "B")
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || n == 0 {
		return nil, fmt.Errorf("%w: %q (an id is B1, B2, …)", ErrNotFound, id)
	}
	return binary.BigEndian.AppendUint64(nil, n), nil
}

// records reads all of them, oldest first. One that cannot be read is named in the error, and the others come all the same.
func records(tx *bolt.Tx) (all []*record, faults error) {
	err := tx.Bucket(bucketRecords).ForEach(func(k, v []byte) error {
		r, err := decode(k, v)
		if faults = errors.Join(faults, err); err == nil {
			all = append(all, r)
		}
		return nil
	})
	return all, errors.Join(faults, err)
}

func decode(key, data []byte) (*record, error) {
	id := fmt.Sprintf("%x", key)
	if len(key) == 8 {
		id = idOf(binary.BigEndian.Uint64(key))
	}
	r := &record{}
	err := json.Unmarshal(data, r)
	if err == nil && r.ID != id {
		err = fmt.Errorf("it says that it is %q", r.ID)
	}
	if err != nil {
		return nil, &store.CorruptError{Bucket: string(bucketRecords), Key: id, Err: err}
	}
	return r, nil
}

func put(tx *bolt.Tx, r *record) error {
	key, err := keyOf(r.ID)
	if err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return tx.Bucket(bucketRecords).Put(key, data)
}

// one lets fn see a record. With [changing], what fn makes of it is stored. Errors wrap [ErrNotFound].
func (d *Register) one(ctx context.Context, how access, id string, fn func(*record) error) error {
	key, err := keyOf(id)
	if err != nil {
		return err
	}
	found := false
	err = d.with(ctx, how, func(tx *bolt.Tx) error {
		data := tx.Bucket(bucketRecords).Get(key)
		if data == nil {
			return nil
		}
		found = true
		r, err := decode(key, data)
		if err == nil {
			err = fn(r)
		}
		if err != nil || how == reading {
			return err
		}
		return put(tx, r)
	})
	if err == nil && !found {
		return fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	return err
}

// PassOver keeps the ids up to this one from being given to new blockers. Boulders know blockers by their ids, and may know
// some that are not here: they were imported, or the database was moved away.
func (d *Register) PassOver(ctx context.Context, id string) error {
	key, err := keyOf(id)
	if err != nil {
		return err
	}
	return d.with(ctx, making, func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketRecords)
		return b.SetSequence(max(b.Sequence(), binary.BigEndian.Uint64(key)))
	})
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
