package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

// tallied is the first version whose heads have a tally, and whose list has items.
const tallied = 2

// migrations[i] brings a tree from version i+1 to the next one. A record that cannot be read stays as it is: it is named
// by whoever asks for it, and must not keep the others from being used.
var migrations = []func(*bolt.Tx) error{addTallies}

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
	if err != nil {
		return fmt.Errorf("bring the database from schema %d to %d (it is as it was; a copy is in %s): %w",
			version, schemaVersion, backup, err)
	}
	db.log.Info("store migrated", "path", db.path, "from", version, "to", schemaVersion, "backup", backup)
	return nil
}

// backup copies the file as it is to a new one beside it, and returns its path.
func (db *DB) backup(version int) (path string, err error) {
	path = fmt.Sprintf("%s.v%d-%s.bak", db.path, version, stamp(time.Now()))
	return path, db.view(context.Background(), func(tx *bolt.Tx) error { return copyTo(tx, path) })
}

// versionOf is 0 for a text that is no version; [checkSchema] has refused that.
func versionOf(tx *bolt.Tx) int {
	version, _ := strconv.Atoi(string(tx.Bucket(bucketMeta).Get(keySchema)))
	return version
}

// addTallies is the way from version 1 to 2: heads get their tally, the list its items, and there is an active boulder.
func addTallies(tx *bolt.Tx) error {
	created := tx.Bucket(bucketCreated)
	var keys [][]byte // first: the bucket must not change under a cursor
	for k := range keysOf(created) {
		keys = append(keys, bytes.Clone(k))
	}
	var active boulder.Boulder
	for _, key := range keys {
		b, err := head(tx, createdID(key)) // which counts, as long as the tree is of version 1
		if err != nil {
			continue
		}
		// Every change came from the one process that held the file, and that worked on one boulder: the one that changed
		// last was taken up last.
		if active.ID == "" || b.UpdatedAt.After(active.UpdatedAt) {
			active = b
		}
		value, err := encode(b, nil) // read from the file: nothing new comes in
		if err != nil {
			return err
		}
		item := ItemOf(&b)
		if err := errors.Join(tx.Bucket(bucketBoulders).Put([]byte(b.ID), value), created.Put(key, item.encode())); err != nil {
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

// countSubTasks counts the sub-tasks of a boulder that can be read.
func countSubTasks(tx *bolt.Tx, id string) boulder.Tally {
	counts := map[boulder.SubTaskStatus]int{}
	if w, err := openWork(tx, id); err == nil {
		for t, err := range scan[boulder.SubTask](w, bucketSubTasks, nil) {
			if err == nil {
				counts[t.Status]++
			}
		}
	}
	return boulder.TallyOf(counts)
}
