package store

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// The journal takes the commits of a run. bbolt writes every page on the way to a changed record anew, syncs, writes
// its meta page and syncs again: a commit of the loop touches ten buckets. Here it is one write and one sync. From time
// to time the journal is folded: its records are written into the tree, in one transaction of bbolt.
//
// It is a part of the file: the value of one large key, which bbolt keeps in pages of its own as long as nothing in its
// bucket is changed. Entries are written into these pages in place. The tree says up to which number it has the
// entries, so that the place of older ones can be used again. Transactions of bbolt do not see these writes, and need
// not: what is not folded is kept in memory as well.
//
// A crash while an entry is written leaves one whose checksum is wrong; it was not committed. One that was is never
// written over before it is folded and the fold is on disk.

const (
	// journalSize is how many bytes of entries there may be before they are folded: room for a run of 100 sub-tasks. They
	// are kept in memory as well. A file may have a journal of another size, of a manager that had another one here.
	journalSize = 1 << 20
	// maxEntry is the size of an entry that is not worth being written twice, in bytes.
	maxEntry = journalSize / 4
	// plainCommits is how many commits of a handle are written into the tree at once, unless one of them begins a run. A
	// command that makes one or two would have to fold them when it ends.
	plainCommits = 2
)

// journal is the writer's side of it, and guarded by DB.writing.
type journal struct {
	plain  int    // commits still to be written into the tree at once
	open   bool   // the file says that there may be entries
	at     int64  // where it begins in the file, in bytes
	size   int    // of it, in bytes
	end    int    // where the next entry goes, in bytes from its beginning
	number uint64 // of the newest entry
	before string // the boulder of the newest entry
	buf    []byte // of the last entry that was written, to be used again

	last map[string]uint64 // the newest event of boulders; not of all of them
}

// journalState is what the tree says about the journal.
type journalState struct {
	folded uint64 // number of the newest entry that is in the tree
	open   bool   // there may be later ones
}

// journalOf is the zero state for a database that never had a journal. ok is false for one that is damaged.
func journalOf(tx *bolt.Tx) (state journalState, ok bool) {
	value := tx.Bucket(bucketMeta).Get(keyJournal)
	if value == nil {
		return journalState{}, true
	}
	if len(value) != 13 || crc32.Checksum(value[:9], castagnoli) != binary.BigEndian.Uint32(value[9:]) {
		return journalState{}, false
	}
	return journalState{folded: binary.BigEndian.Uint64(value), open: value[8] != 0}, true
}

func (s journalState) put(tx *bolt.Tx) error {
	value := append(number64(s.folded), 0)
	if s.open {
		value[8] = 1
	}
	value = binary.BigEndian.AppendUint32(value, crc32.Checksum(value, castagnoli))
	return tx.Bucket(bucketMeta).Put(keyJournal, value)
}

// journalMark is what stands in the file before the first entry.
const journalMark = "manager journal:"

// room finds the journal in the file. entries is where they are; at is their place in bytes.
func room(tx *bolt.Tx) (entries []byte, at int64, err error) {
	b := tx.Bucket(bucketJournal)
	if b == nil {
		return nil, 0, errNoJournal
	}
	value, skip := b.Get(keyRoom), roomSkip(tx)
	if len(value) <= skip || b.Root() == 0 || string(value[skip-len(journalMark):skip]) != journalMark {
		return nil, 0, errNoJournal
	}
	return value[skip:], (int64(b.Root()) + 1) * int64(tx.DB().Info().PageSize), nil
}

var errNoJournal = errors.New("its journal is damaged")

// makeRoom makes the journal if there is none; and anew if nothing can be written into the one that is there, as in a file
// that was copied key by key on a machine with other pages. The transaction folds: nothing in it is needed any more.
func makeRoom(tx *bolt.Tx) error {
	if tx.Bucket(bucketJournal) != nil {
		if _, _, err := room(tx); err == nil {
			return nil
		}
		if err := tx.DeleteBucket(bucketJournal); err != nil {
			return err
		}
	}
	b, err := tx.CreateBucket(bucketJournal)
	if err != nil {
		return err
	}
	skip := roomSkip(tx)
	value := make([]byte, skip+journalSize)
	copy(value[skip-len(journalMark):], journalMark)
	return b.Put(keyRoom, value)
}

// roomSkip is how much of the value is not used: up to the end of the first page, in bytes. It has the header of a
// page, a leaf element and the key before it.
func roomSkip(tx *bolt.Tx) int { return tx.DB().Info().PageSize - 16 - 16 - len(keyRoom) }

// loadJournal reads what is not folded, when the database is opened.
func (db *DB) loadJournal(ctx context.Context) error {
	var data []byte
	u, j := &unfolded{}, &db.journal
	err := db.view(ctx, func(s *snapshot) (err error) {
		state, ok := journalOf(s.Tx)
		if !ok {
			return errNoJournal
		}
		*j = journal{plain: plainCommits, open: state.open, number: state.folded, last: map[string]uint64{}}
		if !state.open {
			return nil
		}
		if data, _, err = room(s.Tx); err != nil {
			return err
		}
		u.entries, u.damaged, j.end = readEntries(data, state.folded, func() []string { return unfinished(s) })
		return nil
	})
	if err != nil {
		return err
	}
	if n := len(u.entries); n > 0 {
		j.number, j.before = u.entries[n-1].number, u.entries[n-1].id
	}
	db.unfolded.Store(u)
	if j.open && !db.bolt.IsReadOnly() {
		return db.locate(ctx)
	}
	return nil
}

// unfinished are the boulders of the tree that are not over, or cannot be read.
func unfinished(s *snapshot) (ids []string) {
	for id := range newest(s) {
		if b, err := head(s, id); err != nil || !b.Status.Terminal() {
			ids = append(ids, id)
		}
	}
	return ids
}

// save makes an entry durable: in the journal, or in the tree. The caller holds db.writing.
func (db *DB) save(ctx context.Context, e *entry) error {
	j := &db.journal
	size := e.size(j.before)
	switch {
	case !j.open && j.plain > 0:
		err := db.fold(ctx, e, false)
		if err == nil {
			j.plain--
		}
		return err
	case !j.open, size > maxEntry, j.end+size > j.size:
		return db.fold(ctx, e, true)
	}
	return db.append(ctx, e)
}

// append writes an entry behind the others.
func (db *DB) append(ctx context.Context, e *entry) error {
	if err := db.ready(ctx); err != nil {
		return err
	}
	j := &db.journal
	e.number = j.number + 1
	j.buf = e.appendTo(j.buf[:0], j.before)
	if _, err := db.file.WriteAt(j.buf, j.at+int64(j.end)); err != nil {
		return db.notCommitted(err)
	}
	if err := syncData(db.file); err != nil {
		return db.notCommitted(err)
	}
	j.number, j.before, j.end = e.number, e.id, j.end+pages(len(j.buf))
	u := db.unfolded.Load()
	db.unfolded.Store(&unfolded{entries: append(u.entries, e), damaged: u.damaged})
	return nil
}

// fold writes all entries of the journal into the tree, and one more if e is not nil. open says whether the journal is
// used after that. The caller holds db.writing.
func (db *DB) fold(ctx context.Context, e *entry, open bool) error {
	j, u := &db.journal, *db.unfolded.Load()
	number := j.number
	if e != nil {
		u.entries = append(slices.Clip(u.entries), e)
		if open {
			number++ // or the next entry would fit the tree before as well, and a copy of the file may have just those
		}
	}
	err := db.update(ctx, func(tx *bolt.Tx) error {
		if err := fold(tx, &u); err != nil {
			return err
		}
		if open {
			if err := makeRoom(tx); err != nil {
				return err
			}
		}
		if !open && !j.open {
			return nil // as it was
		}
		return journalState{folded: number, open: open}.put(tx)
	})
	if err != nil {
		return err
	}
	db.unfolded.Store(&unfolded{})
	j.number, j.end, j.open = number, 0, open
	if open {
		// The commit is on disk: who gives up now must not end the handle for everybody else.
		db.end(db.locate(context.WithoutCancel(ctx)))
	}
	return nil
}

// locate finds where the journal is in the file, and fails if it is not there: nothing else may be written over.
func (db *DB) locate(ctx context.Context) error {
	return db.view(ctx, func(s *snapshot) error {
		data, at, err := room(s.Tx)
		if err != nil {
			return err
		}
		mark := make([]byte, len(journalMark))
		if _, err := db.file.ReadAt(mark, at-int64(len(mark))); err != nil || string(mark) != journalMark {
			return errors.Join(errNoJournal, err)
		}
		db.journal.at, db.journal.size, db.least = at, len(data), at+int64(len(data))
		return nil
	})
}
