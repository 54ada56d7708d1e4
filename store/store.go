// Package store keeps each boulder as a log of events in one bbolt file. A commit is one transaction that appends to
// the log and is durable when it returns; a read is one consistent snapshot. The bucket tree is drawn in schema.go.
//
// Only one process can hold the file for writing; package project/internal/control lets others read meanwhile.
package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/boltfile"
	"github.com/bouldermgr/manager/internal/text"
)

// Options of [Open]. The zero value is ready to use.
type Options = boltfile.Options

// DB is an open database. Its methods may be called from any goroutine.
type DB struct {
	file *boltfile.DB

	mu      sync.Mutex
	blocker uint64 // highest number of a blocker that was given
}

var tree = boltfile.Tree{
	Version: schemaVersion, Buckets: []string{string(bucketList), string(bucketLog), string(bucketSnapshots)},
}

// Open opens the database, and creates it if needed, private to its owner. Errors wrap [ErrHeld], [ErrUnusable], a
// [VersionError] or the operating system's error. With ReadOnly, a missing or empty file is [fs.ErrNotExist].
func Open(path string, opts Options) (*DB, error) {
	file, err := boltfile.Open(path, tree, opts)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	return &DB{file: file}, nil
}

// Close closes the database, see [boltfile.DB.Close].
func (db *DB) Close() error {
	if err := db.file.Close(); err != nil {
		return fmt.Errorf("close store %s: %w", db.file.Path(), err)
	}
	return nil
}

// Commit atomically appends events to a boulder's log, and returns when they are on disk; an error leaves the disk as
// it was. s is the resulting state, read until Commit returns. Cancelling ctx stops only a commit that has not begun.
// Events that do not follow the stored ones are [ErrConflict].
func (db *DB) Commit(ctx context.Context, s *boulder.State, events []boulder.Event) error {
	if err := db.commit(ctx, s, events, false); err != nil {
		return fmt.Errorf("commit boulder %q: %w", s.Boulder.ID, err)
	}
	return nil
}

func (db *DB) commit(ctx context.Context, s *boulder.State, events []boulder.Event, imported bool) error {
	id := s.Boulder.ID
	if id == "" || strings.Contains(id, "\x00") || len(events) == 0 {
		return errors.New("the boulder has no id, or there is nothing to commit")
	}
	item := itemOf(&s.Boulder)
	// Redact before cutting: half a secret would not be recognized.
	item.Task = text.Cut(string(db.file.Clean([]byte(s.Boulder.Task))), maxListed)
	return db.file.Update(ctx, func(tx *bolt.Tx) (err error) {
		e := entryOf(tx, id)
		log := tx.Bucket(bucketLog)
		log.FillPercent = fillAppend
		for _, event := range events {
			if e.Seq++; event.Seq != e.Seq {
				return fmt.Errorf("event %d comes where %d is next: %w", event.Seq, e.Seq, ErrConflict)
			}
			size, err := db.put(log, logKey(id, e.Seq), event)
			if err != nil {
				return fmt.Errorf("event %d: %w", event.Seq, err)
			}
			e.Behind += size
			switch body := event.Body.(type) {
			case boulder.Created, boulder.Resumed:
				if !imported {
					err = tx.Bucket(bucketMeta).Put(keyActive, []byte(id))
				}
			case boulder.BlockerRaised:
				if n := numberOf(body.Blocker.ID); n > lastBlocker(tx) {
					err = putBlocker(tx, n)
				}
			}
			if err != nil {
				return err
			}
		}
		e.Item = item
		if s.Boulder.Status.Terminal() || e.Behind > max(e.Snapshot, minSnapshot) {
			e.Behind = 0 // the next load starts here
			if e.Snapshot, err = db.put(tx.Bucket(bucketSnapshots), []byte(id), s.Snapshot()); err != nil {
				return err
			}
		}
		_, err = db.put(tx.Bucket(bucketList), []byte(id), e)
		return err
	})
}

// BlockerID returns the id of a new blocker, unique in this database: B and a number. One that is not committed may be
// given again by another process.
func (db *DB) BlockerID() string {
	db.mu.Lock()
	defer db.mu.Unlock()
	// An import may have brought higher numbers. If the file cannot be read, the commit fails, too.
	_ = db.file.View(context.Background(), func(tx *bolt.Tx) error {
		db.blocker = max(db.blocker, lastBlocker(tx))
		return nil
	})
	db.blocker++
	return fmt.Sprint("B", db.blocker)
}

// ReserveBlockers keeps n numbers for an engine that numbers the blockers of a boulder itself, and returns the first.
func (db *DB) ReserveBlockers(ctx context.Context, n int) (first int, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	err = db.file.Update(ctx, func(tx *bolt.Tx) error {
		last := max(db.blocker, lastBlocker(tx)) // some may be given, but not committed yet
		first = int(last) + 1
		return putBlocker(tx, last+uint64(n))
	})
	return first, err
}

// FreeBlockers gives numbers back that were reserved for a boulder that has not begun, unless later ones are taken.
func (db *DB) FreeBlockers(ctx context.Context, first, n int) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.file.Update(ctx, func(tx *bolt.Tx) error {
		if last := max(db.blocker, lastBlocker(tx)); last != uint64(first+n-1) {
			return nil
		}
		db.blocker = 0
		return putBlocker(tx, uint64(first-1))
	})
}

func numberOf(blockerID string) uint64 {
	n, err := strconv.ParseUint(strings.TrimPrefix(blockerID, "B"), 10, 64)
	if err != nil || n > math.MaxUint32 { // an id of another program: no number may follow the highest ones
		return 0
	}
	return n
}

func lastBlocker(tx *bolt.Tx) uint64 { return numberOf(string(tx.Bucket(bucketMeta).Get(keyBlockers))) }

func putBlocker(tx *bolt.Tx, n uint64) error {
	return tx.Bucket(bucketMeta).Put(keyBlockers, []byte(strconv.FormatUint(n, 10)))
}

const (
	fillAppend  = 0.95     // of a log page after a split: keys only grow, and bbolt would leave it half empty
	minSnapshot = 64 << 10 // bytes of log before the first snapshot; applying these is quick
)

// entryOf returns a boulder's list entry; Seq is 0 if there is none. An unreadable entry is rebuilt from the log, and
// rewritten by the next commit.
func entryOf(tx *bolt.Tx, id string) (e entry) {
	if decode(bucketList, id, []byte(id), tx.Bucket(bucketList).Get([]byte(id)), &e) != nil {
		s, _ := load(tx, id)
		e = entry{Seq: s.Boulder.Seq}
	}
	return e
}

func (db *DB) view(ctx context.Context, what string, fn func(*bolt.Tx) error) error {
	if err := db.file.View(ctx, fn); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
