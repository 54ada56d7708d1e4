package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/cli"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/store"
)

const (
	listManager = "manager" // the command, without the start of its process
	listBare    = "bare"    // bbolt alone
)

// runList is a process of its own: list KIND DIRECTORY BOULDERS TIMES. It prints seconds per time.
func runList(_ context.Context, args []string) error {
	if len(args) != 4 {
		return errors.New("list: want kind, project, number of boulders and number of times")
	}
	boulders, bouldersErr := strconv.Atoi(args[2])
	times, timesErr := strconv.Atoi(args[3])
	if err := errors.Join(bouldersErr, timesErr); err != nil {
		return err
	}
	once := map[string]func(dir string, boulders int) error{listManager: listByManager, listBare: listByBolt}[args[0]]
	if once == nil {
		return fmt.Errorf("list: there is no kind %q", args[0])
	}
	took, err := timed(func() error {
		for range times {
			if err := once(args[1], boulders); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(stepResult{Seconds: took / float64(times)})
}

// listByManager is `manager list` into nothing: flags, configuration, open, read, render, close.
func listByManager(dir string, boulders int) error {
	var lines newlines
	env := cli.Env{Args: []string{"list", "-C", dir}, Stdout: &lines, Stderr: os.Stderr, Environ: os.Environ()}
	if code := cli.Main(env); code != 0 || int(lines) != boulders {
		return fmt.Errorf("list: exit code %d after %d lines", code, lines)
	}
	return nil
}

// newlines counts lines and keeps nothing.
type newlines int

func (n *newlines) Write(p []byte) (int, error) {
	for _, c := range p {
		if c == '\n' {
			*n++
		}
	}
	return len(p), nil
}

// listByBolt opens the same file with nothing but bbolt, and reads the keys that the list reads, every byte of them and
// of their values; it decodes none.
func listByBolt(dir string, boulders int) error {
	path := filepath.Join(dir, store.DirName, store.FileName)
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second, NoStatistics: true})
	if err != nil {
		return err
	}
	n := 0
	err = db.View(func(tx *bolt.Tx) error {
		bucket := tx.Bucket([]byte("created"))
		if bucket == nil {
			return errors.New("there is no bucket of boulders by age")
		}
		return bucket.ForEach(func(k, v []byte) error {
			n++
			_, err := io.Discard.Write(append(append(make([]byte, 0, len(k)+len(v)), k...), v...))
			return err
		})
	})
	if err == nil && n != boulders {
		err = fmt.Errorf("%d boulders instead of %d", n, boulders)
	}
	return errors.Join(err, db.Close())
}

// fillProject makes a project whose boulders each have a plan of three sub-tasks, which are done.
func fillProject(ctx context.Context, dir string, boulders int) (err error) {
	state := filepath.Join(dir, store.DirName)
	if err := os.MkdirAll(state, 0o700); err != nil {
		return err
	}
	db, err := store.Open(filepath.Join(state, store.FileName), store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	plan := shapedPlan(shapeChain, 3)
	for range boulders {
		whole := &gathering{}
		o, err := orchestrator.New(orchestrator.Config{Project: dir, Store: whole, Runner: reporting{}, Judge: agreeing{}})
		if err != nil {
			return err
		}
		for _, err := range o.Run(ctx, orchestrator.Request{Plan: plan, Model: agentModel, LedgerModel: agentModel}) {
			if err != nil {
				return err
			}
		}
		if err := db.Commit(ctx, whole.all); err != nil {
			return err
		}
	}
	return nil
}

// gathering is a store that keeps the changes of a whole run, to be written at once. Where a record comes more than
// once, the store writes the last one last.
type gathering struct{ all boulder.Changes }

func (g *gathering) Commit(_ context.Context, c boulder.Changes) error {
	g.all.Boulder = c.Boulder
	if c.Revision != nil {
		g.all.Revision = c.Revision
	}
	g.all.Events = append(g.all.Events, c.Events...)
	g.all.SubTasks = append(g.all.SubTasks, c.SubTasks...)
	g.all.Attempts = append(g.all.Attempts, c.Attempts...)
	g.all.Turns = append(g.all.Turns, c.Turns...)
	return nil
}

func (g *gathering) Load(context.Context, string) (boulder.Records, error) {
	return boulder.Records{}, boulder.ErrNotFound
}
