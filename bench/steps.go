package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/managertest"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/store"
)

// Shapes of plans, the same as in bench/langgraph/steps.mjs.
const (
	shapeChain  = "chain"
	shapeFanOut = "fan-out" // one, then all but two in parallel, then one
)

func shapedPlan(shape string, steps int) *boulder.Plan {
	plan := &boulder.Plan{Version: 1, Task: "Measure the loop", Goal: "The loop is measured"}
	var middle []string
	for i := range steps {
		spec := boulder.Spec{ID: fmt.Sprintf("s%d", i), Subject: fmt.Sprintf("Do s%d", i), Description: "Do nothing."}
		switch {
		case i == 0:
		case shape == shapeChain:
			spec.DependsOn = []string{fmt.Sprintf("s%d", i-1)}
		case i == steps-1:
			spec.DependsOn = middle
		default:
			spec.DependsOn = []string{"s0"}
			middle = append(middle, spec.ID)
		}
		plan.SubTasks = append(plan.SubTasks, spec)
	}
	return plan
}

// loopSteps runs the orchestrator on a plan of sub-tasks that do nothing, in a new database that it opens before the
// clock starts. It returns the seconds per step.
func loopSteps(ctx context.Context, dir, shape string, steps int, runner orchestrator.Runner) (took float64, err error) {
	if dir, err = os.MkdirTemp(dir, "steps"); err != nil {
		return 0, err
	}
	db, err := store.Open(filepath.Join(dir, "steps.db"), store.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close(), os.RemoveAll(dir)) }()
	o, err := newLoop("/project", db, runner)
	if err != nil {
		return 0, err
	}
	plan, done := shapedPlan(shape, steps), 0
	runtime.GC() // of the previous run
	took, err = timed(func() error {
		for event, err := range o.Run(ctx, orchestrator.Request{Plan: plan}) {
			if err != nil {
				return err
			}
			if d, ok := event.Body.(boulder.SubTaskDone); ok && d.Completed {
				done++
			}
		}
		return nil
	})
	if err == nil && done != steps {
		err = fmt.Errorf("%d of %d sub-tasks were done", done, steps)
	}
	return took / float64(steps), err
}

// newLoop returns an orchestrator whose judge accepts everything.
func newLoop(project string, db *store.DB, runner orchestrator.Runner) (*orchestrator.Orchestrator, error) {
	limits := orchestrator.DefaultLimits()
	limits.PerModel, limits.Global = 8, 8
	judge := managertest.JudgeFunc(managertest.Believe)
	return orchestrator.New(orchestrator.Config{Project: project, Store: db, Runner: runner, Judge: judge, Limits: &limits})
}

// silent is a runner without sessions. It has no side effects, so it reports no intent.
type silent struct{}

func (silent) Run(context.Context, boulder.Job, func(boulder.Body) error) (boulder.Evidence, error) {
	return boulder.Evidence{FinalMessage: "done"}, nil
}

// measureGrowth compares a step in a large plan with one in a small plan: scheduler, loop and database on disk.
func measureGrowth(ctx context.Context, w *world) (all []comparison, err error) {
	large, small := w.size(5000, 50), w.size(100, 10)
	for _, shape := range []string{shapeChain, shapeFanOut} {
		of := func(steps int) contender {
			return contender{fmt.Sprintf("%s of %d", shape, steps), func(ctx context.Context) (float64, error) {
				return loopSteps(ctx, w.root, shape, steps, &managertest.Runner{})
			}}
		}
		results, err := w.race(ctx, 5, of(large), of(small))
		if err != nil {
			return all, err
		}
		all = append(all, comparison{
			name: "a step, " + shape, ours: side{fmt.Sprintf("of %d", large), results[0]},
			theirs: side{fmt.Sprintf("of %d", small), results[1]}, format: microseconds, limit: 1.3,
		})
	}
	return all, nil
}

// measureLangGraph compares with LangGraph JS, which makes as many steps durable in the same directory: SQLite with
// synchronous=FULL and durability "sync". It notes and skips the line if LangGraph is not installed.
func measureLangGraph(ctx context.Context, w *world) (all []comparison, err error) {
	dir := filepath.Join(w.source, "bench", "langgraph")
	if _, statErr := os.Stat(filepath.Join(dir, "node_modules")); errors.Is(statErr, fs.ErrNotExist) {
		w.note("LangGraph is not measured: run npm ci in bench/langgraph")
		return nil, nil
	}
	if err := onDisk(w.root); err != nil && !w.once {
		return nil, err
	}
	for _, m := range []struct {
		api, shape string
		steps      int
	}{
		{"functional", shapeChain, w.size(1000, 10)}, {"functional", shapeFanOut, w.size(1000, 10)},
		{"graph", shapeChain, w.size(100, 5)}, {"graph", shapeFanOut, w.size(100, 5)},
	} {
		results, err := w.race(ctx, 5,
			contender{"manager", func(ctx context.Context) (float64, error) {
				return loopSteps(ctx, w.root, m.shape, m.steps, silent{})
			}},
			contender{"LangGraph " + m.api, func(ctx context.Context) (float64, error) {
				return w.langGraph(ctx, dir, m.api, m.shape, m.steps)
			}},
		)
		if err != nil {
			return all, err
		}
		all = append(all, comparison{
			name: fmt.Sprintf("a durable step, %s of %d", m.shape, m.steps), ours: side{"manager", results[0]},
			theirs: side{"LangGraph " + m.api, results[1]}, format: microseconds, limit: 1,
		})
	}
	return all, nil
}

// langGraph returns the seconds per step.
func (w *world) langGraph(ctx context.Context, dir, api, shape string, steps int) (float64, error) {
	p := w.command(ctx, w.root, "node", "--no-warnings", filepath.Join(dir, "steps.mjs"),
		api, shape, strconv.Itoa(steps), "1", "full", w.root)
	if err := together([]*process{p}); err != nil {
		return 0, err
	}
	var result struct {
		Seconds     float64 `json:"seconds"`
		Synchronous int     `json:"synchronous"`
	}
	if err := json.Unmarshal(p.output.Bytes(), &result); err != nil {
		return 0, fmt.Errorf("%w: %s", err, oneLine(p.output.String()))
	}
	if result.Synchronous != 2 {
		return 0, fmt.Errorf("its SQLite has synchronous=%d, which is not FULL", result.Synchronous)
	}
	return result.Seconds / float64(steps), nil
}

// onDisk refuses a directory in memory, where a sync costs nothing.
func onDisk(dir string) error {
	out, err := exec.Command("stat", "--file-system", "--format=%T", dir).Output()
	if kind := strings.TrimSpace(string(out)); err == nil && (kind == "tmpfs" || kind == "ramfs") {
		return fmt.Errorf("%s is on %s, which is memory: set TMPDIR to a directory on a disk", dir, kind)
	}
	return err
}
