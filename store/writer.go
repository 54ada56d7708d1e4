package store

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/bouldermgr/manager/boulder"
)

// writer encodes records. It stops at the first that cannot be stored.
//
// A commit of the loop has dozens of them, so they are not made one by one: all keys and values are gathered in one text,
// which is used again, and leave it in one piece.
type writer struct {
	id     string
	redact func([]byte) []byte // see [Options]
	text   []byte
	spans  []span
	err    error
}

// span is where a record is in the text of a writer: its key, then its value.
type span struct {
	in              place
	key, value, end int
	deleted         bool
}

var writers = sync.Pool{New: func() any { return &writer{} }}

// newWriter gives a writer to [writer.free] when its records are taken.
func newWriter(id string, redact func([]byte) []byte) *writer {
	w := writers.Get().(*writer)
	*w = writer{id: id, redact: redact, text: w.text[:0], spans: w.spans[:0]}
	return w
}

func (w *writer) free() {
	if cap(w.text) <= maxEntry { // larger ones are rare, and would only take up memory
		writers.Put(w)
	}
}

// records are those that were gathered. They stay what they are when the writer is used again.
func (w *writer) records() ([]record, error) {
	if w.err != nil {
		return nil, w.err
	}
	text := bytes.Clone(w.text)
	all := make([]record, len(w.spans))
	for i, s := range w.spans {
		all[i] = record{in: s.in, key: text[s.key:s.value:s.value], value: text[s.value:s.end:s.end]}
		if s.deleted {
			all[i].value = nil
		}
	}
	return all, nil
}

// changes adds all records of a commit.
func (w *writer) changes(c *boulder.Changes) {
	n := 3 + len(c.Events) + len(c.SubTasks) + 2*len(c.Attempts) + len(c.Turns)
	w.spans, w.text = slices.Grow(w.spans, n), slices.Grow(w.text, n*300)
	w.head(&c.Boulder)
	for i := range c.Events {
		w.put(inEvents, number64(c.Events[i].Seq), c.Events[i])
	}
	if r := c.Revision; r != nil {
		w.put(inRevisions, number32(r.Number), r)
	}
	for i := range c.SubTasks {
		w.put(inSubTasks, []byte(c.SubTasks[i].ID), &c.SubTasks[i])
	}
	for i := range c.Attempts {
		w.attempt(&c.Attempts[i])
	}
	for i := range c.Turns {
		t := &c.Turns[i]
		w.put(inTurns, turnKey(t.AttemptRef, t.Number), t)
	}
}

// put adds a record, without secrets if redact is not nil. It gives it as it is stored, until the next one is added.
func (w *writer) put(in place, key []byte, value any) (stored []byte) {
	if !w.begin(in, key) {
		return nil
	}
	at := len(w.text)
	text, err := boulder.AppendJSON(w.text, value)
	if err != nil {
		w.err = fmt.Errorf("write record %s in %s: %w", readable(bucketOf[in], key), workName(w.id, in), err)
		return nil
	}
	if w.redact != nil {
		text = append(text[:at], w.redact(slices.Clip(text[at:]))...)
	}
	w.text = text
	w.spans[len(w.spans)-1].end = len(text)
	return text[at:]
}

// add adds a record that is encoded; nil deletes it.
func (w *writer) add(in place, key, value []byte) {
	if w.begin(in, key) {
		w.text = append(w.text, value...)
		s := &w.spans[len(w.spans)-1]
		s.end, s.deleted = len(w.text), value == nil
	}
}

// maxKey is what bbolt allows.
const maxKey = 1 << 15

// begin adds a record that has no value yet. It fails after an error, or with a key that cannot be one.
func (w *writer) begin(in place, key []byte) bool {
	switch {
	case w.err != nil:
	case len(key) == 0:
		w.err = fmt.Errorf("write record in %s: %w", workName(w.id, in), bolterrors.ErrKeyRequired)
	case len(key) > maxKey:
		w.err = fmt.Errorf("write record %.80q in %s: %w", string(key), workName(w.id, in), bolterrors.ErrKeyTooLarge)
	default:
		at := len(w.text)
		w.text = append(w.text, key...)
		w.spans = append(w.spans, span{in: in, key: at, value: len(w.text), end: len(w.text)})
	}
	return w.err == nil
}

// head adds what is stored of a boulder itself: its head, and its item in the list.
func (w *writer) head(b *boulder.Boulder) {
	stored := w.put(inBoulders, []byte(b.ID), b)
	item := ItemOf(b)
	if w.redact != nil && w.err == nil {
		w.err = item.redacted(stored)
	}
	key := createdKey(b)
	w.add(inCreated, key, item.encode(key))
}

// attempt adds an attempt, and keeps the index of those that are not over.
func (w *writer) attempt(a *boulder.Attempt) {
	key := attemptKey(a.AttemptRef)
	w.put(inAttempts, key, a)
	var open []byte
	if !a.Status.Terminal() {
		open = []byte{}
	}
	w.add(inOpen, key, open)
}
