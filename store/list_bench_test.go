package store

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
)

// A list of 10,000 boulders, from opening the file to having it, beside what bare bbolt takes for opening the file and
// reading the same keys and values. To reach: at most three times as long. "heads" is what [DB.List] takes, which decodes
// all of each boulder's head.
func BenchmarkListOf10000(b *testing.B) {
	const n = 10_000
	path := manyBoulders(b, n)
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			readBare(b, path, bucketCreated, n)
		}
	})
	b.Run("listing", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			db, err := Open(path, Options{ReadOnly: true})
			if err != nil {
				b.Fatal(err)
			}
			if all, err := db.Listing(b.Context()); len(all) != n || err != nil {
				b.Fatal(len(all), err)
			}
			if err := db.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare-heads", func(b *testing.B) {
		for b.Loop() {
			readBare(b, path, bucketBoulders, n)
		}
	})
	b.Run("heads", func(b *testing.B) {
		for b.Loop() {
			db, err := Open(path, Options{ReadOnly: true})
			if err != nil {
				b.Fatal(err)
			}
			if all, err := db.List(b.Context()); len(all) != n || err != nil {
				b.Fatal(len(all), err)
			}
			if err := db.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// readBare opens a file with bbolt alone and copies every key and value of a bucket, as whoever wants to use them has to.
func readBare(b *testing.B, path string, bucket []byte, want int) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		b.Fatal(err)
	}
	var all [][2]string
	err = db.View(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucket).Cursor()
		for k, v := c.Last(); k != nil; k, v = c.Prev() {
			all = append(all, [2]string{string(k), string(v)})
		}
		return nil
	})
	if err != nil || len(all) != want || db.Close() != nil {
		b.Fatal(len(all), err)
	}
}

// manyBoulders makes a database of n finished boulders. Their sub-tasks are left out: a list does not read them.
func manyBoulders(b *testing.B, n int) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), FileName)
	db, err := Open(path, Options{})
	if err != nil {
		b.Fatal(err)
	}
	tally := boulder.Tally{Planned: 5, Completed: 5}
	task := strings.Repeat("Add dark mode to the settings page. ", 5)
	var all []*entry
	for i := range n {
		at := epoch.Add(time.Duration(i) * time.Minute)
		c := boulder.Changes{Boulder: boulder.Boulder{
			ID: fmt.Sprintf("01k%023d", i*7919%n), Task: task, Goal: "The settings page has a dark mode",
			Status: boulder.Completed, Project: "/home/somebody/project", Revision: 1, Model: "anthropic/claude-sonnet-4-5",
			Tally: tally, Usage: boulder.Usage{Input: 123456, Output: 7890, Calls: 42, Cost: 1.25}, Summary: task,
			CreatedAt: at, UpdatedAt: at, ClockAt: at, Attempts: 5, Turns: 7,
		}}
		records, err := recordsOf(&c, nil)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, &entry{id: c.Boulder.ID, records: records})
	}
	err = db.update(b.Context(), func(tx *bolt.Tx) error {
		for i := range all {
			if err := fold(tx, &unfolded{entries: all[i : i+1]}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}
