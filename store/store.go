// Package store keeps boulders in one bbolt file, each as a log of its events: a commit is one transaction that adds to
// the log and is on disk when it returns, and every read is one consistent snapshot.
//
// The bucket tree is drawn in schema.go. Only one process can hold the file for writing; package control lets
// others look at it meanwhile.
package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/boltfile"
	"github.com/bouldermgr/manager/internal/text"
)

// Options of [Open]. The zero value is ready to use.
type Options = boltfile.Options

// DB is an open database. Its methods may be called from any goroutine.
type DB struct{ file *boltfile.DB }

var tree = boltfile.Tree{
	Version: schemaVersion, Buckets: []string{string(bucketList), string(bucketLog), string(bucketSnapshots)},
}

// Open opens the database, and makes it if it is not there. The file is for its owner only, whatever the umask. Errors wrap
// [ErrHeld], [ErrUnusable], a [VersionError], or what the operating system says; with ReadOnly, a file that is not there, or
// has nothing in it yet, is [fs.ErrNotExist].
func Open(path string, opts Options) (*DB, error) {
	file, err := boltfile.Open(path, tree, opts)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	return &DB{file}, nil
}

// Close is that of [boltfile.DB].
func (db *DB) Close() error {
	if err := db.file.Close(); err != nil {
		return fmt.Errorf("close store %s: %w", db.file.Path(), err)
	}
	return nil
}

// Commit adds events to the log of a boulder, all of them or none, and returns when they are on disk. s is the state that
// they lead to; it is read until Commit returns. After an error the disk is as it was. Cancelling ctx stops a commit that
// has not begun, and no other. Events that do not follow the stored ones are [ErrConflict].
func (db *DB) Commit(ctx context.Context, s *boulder.State, events []boulder.Event) error {
	if err := db.commit(ctx, s, events, false); err != nil {
		return fmt.Errorf("commit boulder %q: %w", s.Boulder.ID, err)
	}
	return nil
}

// commit does it. Of an import, nothing becomes the active boulder.
func (db *DB) commit(ctx context.Context, s *boulder.State, events []boulder.Event, imported bool) error {
	id := s.Boulder.ID
	if id == "" || strings.Contains(id, "\x00") || len(events) == 0 {
		return errors.New("the boulder has no id, or there is nothing to commit")
	}
	item := shown(&s.Boulder)
	// Secrets are taken out before the request is cut: of a half of one nobody knows what it is.
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
			switch event.Body.(type) {
			case boulder.Created, boulder.TakenUp:
				if !imported {
					err = tx.Bucket(bucketMeta).Put(keyActive, []byte(id))
				}
			}
			if err != nil {
				return err
			}
		}
		e.Item = item
		if s.Boulder.Status.Terminal() || e.Behind > max(e.Snapshot, leastSnapshot) {
			e.Behind = 0 // the next one who opens the boulder begins here
			if e.Snapshot, err = db.put(tx.Bucket(bucketSnapshots), []byte(id), s.Snapshot()); err != nil {
				return err
			}
		}
		_, err = db.put(tx.Bucket(bucketList), []byte(id), e)
		return err
	})
}

const (
	// fillAppend is how full pages of the log are left when they split: keys only ever grow, and bbolt leaves half empty.
	fillAppend = 0.95
	// leastSnapshot is how long a log is, in bytes, before there is a snapshot: applying as much is quick.
	leastSnapshot = 64 << 10
)

// entryOf is the entry of a boulder in the list; Seq is 0 if there is none yet. Where it cannot be read, the log says what
// is needed of it, and the next commit writes it again.
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
