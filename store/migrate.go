package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

// tallied is the first version whose heads have a tally, and whose list has items.
const tallied = 2

// migrations[i] brings a tree from version i+1 to the next one. A record that cannot be read stays as it is: it is named
// by whoever asks for it, and must not keep the others from being used.
var migrations = []func(*bolt.Tx) error{
	addTallies,
	addSums, // and there may be a journal
}

// migrate brings a tree of an older version up to date, in one transaction: a crash leaves the old tree or the new one.
// The file as it was is kept beside it.
func (db *DB) migrate(version int) error {
	backup, err := db.backup(version)
	if err != nil {
		return fmt.Errorf("the database has to be brought from schema %d to %d, and could not be backed up before; nothing "+
			"was changed: %w", version, schemaVersion, explain(err))
	}
	err = db.update(context.Background(), func(tx *bolt.Tx) error {
		for _, step := range migrations[version-1:] {
			if err := step(tx); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketMeta).Put(keySchema, []byte(strconv.Itoa(schemaVersion)))
	})
	switch {
	case errors.Is(err, errUnsure):
		return fmt.Errorf("bring the database from schema %d to %d (a copy of it as it was is in %s): %w",
			version, schemaVersion, backup, err)
	case err != nil: // each try would leave another copy
		return fmt.Errorf("bring the database from schema %d to %d; nothing was changed: %w", version, schemaVersion,
			errors.Join(err, os.Remove(backup)))
	}
	db.log.Info("store migrated", "path", db.path, "from", version, "to", schemaVersion, "backup", backup)
	return nil
}

// backup copies the file as it is to a new one beside it, and returns its path.
func (db *DB) backup(version int) (path string, err error) {
	path = fmt.Sprintf("%s.v%d-%s.bak", db.path, version, stamp(time.Now()))
	return path, db.view(context.Background(), func(s *snapshot) error { return copyTo(s.Tx, path) })
}

// versionOf is 0 for a text that is no version; [checkSchema] has refused that.
func versionOf(tx *bolt.Tx) int {
	version, _ := strconv.Atoi(string(tx.Bucket(bucketMeta).Get(keySchema)))
	return version
}

// addTallies is the way from version 1 to 2: heads get their tally, the list its items, and there is an active boulder.
func addTallies(tx *bolt.Tx) error {
	s := &snapshot{Tx: tx}
	created := tx.Bucket(bucketCreated)
	var keys [][]byte // first: the bucket must not change under a cursor
	for k := range (table{file: created}).backwards() {
		keys = append(keys, bytes.Clone(k))
	}
	var active boulder.Boulder
	for _, key := range keys {
		b, err := head(s, createdID(key)) // which counts, as long as the tree is of version 1
		if err != nil {
			continue
		}
		// Every change came from the one process that held the file, and that worked on one boulder: the one that changed
		// last was taken up last.
		if active.ID == "" || b.UpdatedAt.After(active.UpdatedAt) {
			active = b
		}
		value, err := boulder.AppendJSON(nil, &b) // read from the file: nothing new comes in
		if err != nil {
			return err
		}
		item := ItemOf(&b)
		if err := errors.Join(tx.Bucket(bucketBoulders).Put([]byte(b.ID), value), created.Put(key, item.encode(key))); err != nil {
			return err
		}
	}
	if active.ID != "" {
		if err := tx.Bucket(bucketMeta).Put(keyActive, []byte(active.ID)); err != nil {
			return err
		}
	}
	return created.SetSequence(uint64(len(keys)))
}

// addSums is the way from version 2 to 3: the items of the list get checksums. One that is of no boulder stays as it is.
func addSums(tx *bolt.Tx) error {
	created := tx.Bucket(bucketCreated)
	items := map[string]*Item{}
	for k, v := range (table{file: created}).backwards() {
		item := &Item{}
		if item.decode(k, v, &texts{}) == nil && tx.Bucket(bucketBoulders).Get([]byte(item.BoulderID)) != nil {
			items[string(k)] = item
		}
	}
	for key, item := range items {
		if err := created.Put([]byte(key), item.encode([]byte(key))); err != nil {
			return err
		}
	}
	return nil
}

// countSubTasks counts the sub-tasks of a boulder that can be read.
func countSubTasks(s *snapshot, id string) boulder.Tally {
	counts := map[boulder.SubTaskStatus]int{}
	if w, err := openWork(s, id); err == nil {
		for t, err := range scan[boulder.SubTask](w, inSubTasks, nil) {
			if err == nil {
				counts[t.Status]++
			}
		}
	}
	return boulder.TallyOf(counts)
}
