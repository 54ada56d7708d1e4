package store

import (
	"bytes"
	"cmp"
	"errors"
	"iter"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// snapshot is a moment of the database: a transaction of bbolt, and the entries of the journal that are not folded into
// its tree yet. Everything is read through it, so that no reader knows of the journal.
type snapshot struct {
	*bolt.Tx
	entries []*entry
	damaged []badEntry
	top     tables // of no boulder; made with the first look at them
}

// tables are the buckets that belong together, by place.
type tables [places]table

// unfolded is what the journal holds.
type unfolded struct {
	entries []*entry
	damaged []badEntry
}

func (u *unfolded) empty() bool { return len(u.entries) == 0 && len(u.damaged) == 0 }

// snapshotOf lays what u has over the tree of a transaction, apart from what is in that already.
func snapshotOf(tx *bolt.Tx, u *unfolded) *snapshot {
	s := &snapshot{Tx: tx, damaged: keptDamage(tx)}
	if u.empty() {
		return s
	}
	state, _ := journalOf(tx) // it was looked at when the file was opened
	for i, e := range u.entries {
		if e.number > state.folded {
			s.entries = u.entries[i:]
			break
		}
	}
	for _, d := range u.damaged {
		if d.number > state.folded {
			s.damaged = append(s.damaged, d)
		}
	}
	return s
}

// table is a bucket that belongs to no boulder.
func (s *snapshot) table(in place) table {
	if s.top[in].file == nil {
		fresh := latest(s.entries, func(in place, _ string) bool { return in < inRevisions })
		for in := inMeta; in < inRevisions; in++ {
			s.top[in] = table{file: s.Bucket(bucketOf[in]), fresh: fresh[in]}
		}
	}
	return s.top[in]
}

// damageOf names what belongs to a boulder, or with "" to any, and cannot be read in the journal.
func (s *snapshot) damageOf(id string) error {
	var faults []error
	for _, d := range s.damaged {
		if id == "" || id == d.id {
			faults = append(faults, d.err())
		}
	}
	return errors.Join(faults...)
}

// latest gives the records of entries that are wanted, by place, in the order of their keys, the newest one of each
// key.
func latest(entries []*entry, want func(in place, id string) bool) (all [places][]record) {
	var counts [places]int
	for _, e := range entries {
		for i := range e.records {
			if in := e.records[i].in; want(in, e.id) {
				counts[in]++
			}
		}
	}
	for in, n := range counts {
		all[in] = make([]record, 0, n)
	}
	for _, e := range entries {
		for _, r := range e.records {
			if want(r.in, e.id) {
				all[r.in] = append(all[r.in], r)
			}
		}
	}
	for in, records := range all {
		all[in] = newestOf(records)
	}
	return all
}

// newestOf sorts records by key, and leaves the last one of each key.
func newestOf(records []record) []record {
	if len(records) < 2 {
		return records
	}
	order := make([]int, len(records))
	for i := range order {
		order[i] = i
	}
	byKey := func(a, b int) int { return bytes.Compare(records[a].key, records[b].key) }
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(byKey(a, b), a-b) })
	kept := make([]record, 0, len(records))
	for i, at := range order {
		if i+1 == len(order) || byKey(at, order[i+1]) != 0 {
			kept = append(kept, records[at])
		}
	}
	return kept
}

// table is a bucket as it will be when the journal is folded into it. Keys and values that it gives are memory of the
// file or of the journal: they are not to be changed, and must not leave the snapshot undecoded.
type table struct {
	file  *bolt.Bucket // nil if it is not there yet
	fresh []record     // of the journal, by key, each once
}

// get is nil if there is no such key.
func (t table) get(key []byte) []byte {
	if at, ok := t.place(key); ok {
		return t.fresh[at].value
	}
	if t.file == nil {
		return nil
	}
	return t.file.Get(key)
}

// place is where a key is in fresh, or would be.
func (t table) place(key []byte) (at int, ok bool) {
	return slices.BinarySearchFunc(t.fresh, key, func(r record, key []byte) int { return bytes.Compare(r.key, key) })
}

// from gives keys and values in ascending order, beginning with the first that is not before key.
func (t table) from(key []byte) iter.Seq2[[]byte, []byte] {
	at, _ := t.place(key)
	first := func(c *bolt.Cursor) ([]byte, []byte) { return c.Seek(key) }
	return t.walk(first, (*bolt.Cursor).Next, t.fresh[at:], 1)
}

// backwards gives all keys and values in descending order.
func (t table) backwards() iter.Seq2[[]byte, []byte] {
	fresh := slices.Clone(t.fresh)
	slices.Reverse(fresh)
	return t.walk((*bolt.Cursor).Last, (*bolt.Cursor).Prev, fresh, -1)
}

// walk gives what a cursor does, with fresh between it and in its place. Both come in the same order, which ascends
// where sign is 1 and descends where it is -1.
func (t table) walk(first, next func(*bolt.Cursor) (k, v []byte), fresh []record, sign int) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		var c *bolt.Cursor
		var k, v []byte
		if t.file != nil {
			c = t.file.Cursor()
			k, v = first(c)
		}
		rest := fresh
		for k != nil || len(rest) > 0 {
			order := -1 // of the file's next key to that of the journal
			if k == nil {
				order = 1
			} else if len(rest) > 0 {
				order = sign * bytes.Compare(k, rest[0].key)
			}
			key, value := k, v
			if order >= 0 {
				key, value, rest = rest[0].key, rest[0].value, rest[1:]
				if value == nil {
					key = nil // it was deleted
				}
			}
			if key != nil && !yield(key, value) {
				return
			}
			if order <= 0 {
				k, v = next(c)
			}
		}
	}
}
