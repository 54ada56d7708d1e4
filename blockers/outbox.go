package blockers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/internal/boltfile"
	"github.com/bouldermgr/manager/store"
)

const (
	// probation is how long an item that was seen in blockers.md is looked for again by the operations that follow: an editor
	// may have read the file before the item was there, and write it back. What is gone later was taken out by a person.
	probation = 2 * time.Minute
	// maxTries is how often one operation appends an item that is gone when it looks.
	maxTries = 3
)

var errLost = fmt.Errorf("what was appended was gone again %d times: something else writes the file", maxTries)

// listError is about the list for people, and not about the database, which has what could not be written.
type listError struct{ err error }

func (e *listError) Error() string { return e.err.Error() }
func (e *listError) Unwrap() error { return e.err }

// Flush writes into blockers.md what it lacks. Every operation does this, so that it is only needed at an end. The error
// says why something could not be written; it stays in the outbox.
func (d *Desk) Flush(ctx context.Context) error {
	idle := true
	err := d.view(ctx, func(tx *bolt.Tx) error {
		first, _ := tx.Bucket(bucketOutbox).Cursor().First()
		idle = first == nil
		return nil
	})
	if err != nil || idle {
		return err
	}
	return d.with(ctx, false, d.flush)
}

// enqueue stores an item to be written.
func enqueue(tx *bolt.Tx, i item) error {
	b := tx.Bucket(bucketOutbox)
	n, err := b.NextSequence()
	if err != nil {
		return err
	}
	return putQueued(b, &queued{item: i, number: n})
}

func putQueued(b *bolt.Bucket, q *queued) error {
	data, err := json.Marshal(q)
	if err != nil {
		return err
	}
	return b.Put(numberKey(q.number), data)
}

// queue reads the outbox, oldest first. What cannot be read is named in the error, and the others are given all the same.
func queue(tx *bolt.Tx) (all []*queued, err error) {
	var faults []error
	err = tx.Bucket(bucketOutbox).ForEach(func(k, v []byte) error {
		q := &queued{number: numberAt(k)}
		if err := json.Unmarshal(v, q); err != nil {
			faults = append(faults, &store.CorruptError{Bucket: string(bucketOutbox), Key: fmt.Sprint(q.number), Err: err})
		} else {
			all = append(all, q)
		}
		return nil
	})
	return all, errors.Join(append(faults, err)...)
}

// flush writes the outbox. The database is open for writing, so that nobody else of ours appends at the same time.
func (d *Desk) flush(db *boltfile.DB) error {
	ctx := context.Background() // what is committed is to be in the list, whoever has given up
	var all []*queued
	damaged := db.View(ctx, func(tx *bolt.Tx) (err error) {
		all, err = queue(tx)
		return err
	})
	now := d.now()
	var due, over []*queued
	for _, q := range all {
		if !q.Written.IsZero() && now.Sub(q.Written) >= probation {
			over = append(over, q)
		} else {
			due = append(due, q)
		}
	}
	seen, failed := d.write(due)
	if failed != nil {
		failed = &listError{explain(failed)}
	}
	failed = errors.Join(damaged, failed)
	if len(seen)+len(over) == 0 {
		return failed
	}
	return errors.Join(failed, db.Update(ctx, func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketOutbox)
		for _, q := range seen {
			q.Written = now
			if err := putQueued(b, q); err != nil {
				return err
			}
		}
		for _, q := range over {
			if err := b.Delete(numberKey(q.number)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// write appends the items that the list lacks, and looks whether they are in it then: an editor may have put another file
// in its place meanwhile, or have written over them. seen are those that are there and were not when they were last
// looked for.
func (d *Desk) write(due []*queued) (seen []*queued, err error) {
	if len(due) == 0 {
		return nil, nil
	}
	appended := map[*queued]bool{}
	for try := 0; ; try++ {
		text, err := d.list.read()
		if errors.Is(err, errReplaced) && try < maxTries {
			continue
		}
		if err != nil {
			return seen, err
		}
		m := scan(text)
		var lacking []*queued
		var items []item
		seen = nil
		for _, q := range due {
			switch {
			case !m.has(q.item):
				lacking, items = append(lacking, q), append(items, q.item)
			case q.Written.IsZero() || appended[q]:
				seen = append(seen, q)
			}
		}
		switch {
		case len(lacking) == 0:
			return seen, nil
		case try == maxTries:
			return seen, errLost
		}
		d.failpoint("appending")
		switch err := d.list.append(compose(m, items)); {
		case errors.Is(err, errReplaced), errors.Is(err, fs.ErrExist): // look again
		case err != nil:
			return seen, err
		}
		for _, q := range lacking {
			appended[q] = true
		}
		d.failpoint("appended")
	}
}
