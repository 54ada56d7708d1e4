package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/store"
)

// What makes steps durable, of those that this program itself can play; LangGraph is the other one.
const (
	stepLoop     = "loop"     // the manager, whose runner does nothing
	stepMemory   = "memory"   // the same, stopped now and then to look at its live heap
	stepSessions = "sessions" // the manager, whose runner reports a session and a prompt as one with OpenCode must
	stepUpdate   = "update"   // bbolt, one small record per transaction
	stepRaw      = "raw"      // 4 KiB written and synced
)

// slots is how many sub-tasks run at once.
const slots = 8

// stepResult is what a process prints that made steps durable, this program and LangGraph alike.
type stepResult struct {
	Seconds float64 `json:"seconds"` // for all steps of one repetition: the mean
	// Memory is the largest resident set of the process, in bytes: with the program, garbage and mapped pages of the
	// database.
	Memory float64 `json:"memory"`
	// Live is the largest live heap that was seen at ten points of a run, in bytes. Of [stepMemory] only.
	Live        float64           `json:"live,omitempty"`
	Synchronous int               `json:"synchronous,omitempty"` // SQLite's PRAGMA, as it was read back: 1 normal, 2 full
	Versions    map[string]string `json:"versions,omitempty"`
}

// runSteps is a process of its own: steps KIND SHAPE STEPS TIMES DIRECTORY.
func runSteps(ctx context.Context, args []string) error {
	if len(args) != 5 {
		return errors.New("steps: want kind, shape, number of steps, number of times and a directory")
	}
	steps, stepsErr := strconv.Atoi(args[2])
	times, timesErr := strconv.Atoi(args[3])
	if err := errors.Join(stepsErr, timesErr); err != nil {
		return err
	}
	var sum, live float64
	for i := range times {
		path := filepath.Join(args[4], fmt.Sprintf("%d-%d", os.Getpid(), i))
		took, err := stepOnce(ctx, args[0], args[1], steps, path, &live)
		if err != nil {
			return err
		}
		sum += took
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(stepResult{
		Seconds: sum / float64(times), Memory: float64(usage.Maxrss) * 1024, Live: live,
	})
}

// stepOnce makes the steps durable in a file of their own, which is opened before the clock starts. live grows to the
// largest heap that was seen.
func stepOnce(
	ctx context.Context, kind, shape string, steps int, path string, live *float64,
) (took float64, err error) {
	defer func() { err = errors.Join(err, os.Remove(path)) }()
	switch kind {
	case stepLoop:
		return storedSteps(ctx, shape, steps, path, silent{}, func(int) {})
	case stepMemory:
		return storedSteps(ctx, shape, steps, path, silent{}, func(done int) {
			if done%(steps/10) == 0 {
				*live = max(*live, liveHeap())
			}
		})
	case stepSessions:
		return storedSteps(ctx, shape, steps, path, reporting{}, func(int) {})
	case stepUpdate:
		return updateSteps(steps, path)
	case stepRaw:
		return rawSteps(steps, path)
	}
	return 0, fmt.Errorf("steps: there is no kind %q", kind)
}

// liveHeap is what nobody could do without. One collection leaves what lies in pools, such as bbolt's pages after a large
// transaction; the second one does not.
func liveHeap() float64 {
	runtime.GC()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return float64(memory.HeapAlloc)
}

// storedSteps is [loopSteps] with the database that the manager has.
func storedSteps(
	ctx context.Context, shape string, steps int, path string, runner orchestrator.Runner, after func(done int),
) (took float64, err error) {
	db, err := store.Open(path, store.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return loopSteps(ctx, shape, steps, db, runner, after)
}

// loopSteps runs a plan by the orchestrator. after is told how many sub-tasks are done.
func loopSteps(
	ctx context.Context, shape string, steps int, db orchestrator.Store, runner orchestrator.Runner, after func(done int),
) (took float64, err error) {
	limits := orchestrator.DefaultLimits()
	limits.PerModel, limits.Global = slots, slots
	o, err := orchestrator.New(orchestrator.Config{
		Project: "/project", Store: db, Runner: runner, Judge: agreeing{}, Limits: &limits,
	})
	if err != nil {
		return 0, err
	}
	plan := shapedPlan(shape, steps)
	done := 0
	took, err = timed(func() error {
		for event, err := range o.Run(ctx, orchestrator.Request{Plan: plan}) {
			if err != nil {
				return err
			}
			if d, ok := event.Body.(boulder.SubTaskDone); ok && d.Completed {
				done++
				after(done)
			}
		}
		return nil
	})
	if err == nil && done != steps {
		err = fmt.Errorf("%d of %d sub-tasks were done", done, steps)
	}
	return took, err
}

// silent is a runner without sessions: it has no side effect whose intent it would have to report.
type silent struct{}

func (silent) Run(context.Context, boulder.Job, func(boulder.Body) error) (boulder.Evidence, error) {
	return boulder.Evidence{FinalMessage: "done"}, nil
}

// reporting is a runner whose sessions take no time: like a real one it reports the session and the prompt.
type reporting struct{}

func (reporting) Run(_ context.Context, job boulder.Job, report func(boulder.Body) error) (boulder.Evidence, error) {
	ref := job.Attempt.AttemptRef
	for _, b := range []boulder.Body{
		boulder.SubTaskStart{AttemptRef: ref, SessionID: "s"},
		boulder.TurnSent{AttemptRef: ref, Turn: job.Turn.Number, MessageID: "m"},
	} {
		if err := report(b); err != nil {
			return boulder.Evidence{}, err
		}
	}
	return boulder.Evidence{FinalMessage: "done"}, nil
}

// agreeing finds everything complete.
type agreeing struct{}

func (agreeing) Judge(context.Context, boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	return boulder.Verdict{Completed: true, Summary: "done", OutputData: "1"}, boulder.Usage{}, nil
}

// updateSteps is the least that bbolt can do for a step: a small record in a transaction of its own.
func updateSteps(steps int, path string) (took float64, err error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{
		Timeout: time.Second, FreelistType: bolt.FreelistMapType, NoStatistics: true, // as the manager opens it
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	bucket := []byte("steps")
	if err := db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket(bucket)
		return err
	}); err != nil {
		return 0, err
	}
	record := make([]byte, 100)
	return timed(func() error {
		for i := range steps {
			if err := db.Update(func(tx *bolt.Tx) error {
				return tx.Bucket(bucket).Put(binary.BigEndian.AppendUint64(nil, uint64(i)), record)
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// rawSteps is the least that a disk can do for a step: a page written in place and synced.
func rawSteps(steps int, path string) (took float64, err error) {
	const page, pages = 4 << 10, 256
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(make([]byte, page*pages)); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	content := make([]byte, page)
	return timed(func() error {
		for i := range steps {
			content[0]++
			if _, err := f.WriteAt(content, int64(i%pages)*page); err != nil {
				return err
			}
			if err := syncData(f); err != nil {
				return err
			}
		}
		return nil
	})
}
