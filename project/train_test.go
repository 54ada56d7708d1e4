package project

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// train is a boulder whose first result is that of a. It is put onto the tip when all others are complete, so that these
// wait together.
type train struct {
	*slotted
	runs       string        // where a gate says that it ran
	first, all chan struct{} // closed when the result of a, or all are complete, or at a crash
}

const trainSize = 5 // results: of a to e

func newTrain(t *testing.T, files ...string) *train {
	w := &train{newSlotted(t, files...), filepath.Join(t.TempDir(), "runs"), make(chan struct{}), make(chan struct{})}
	first, all, judged := sync.OnceFunc(func() { close(w.first) }), sync.OnceFunc(func() { close(w.all) }), 0
	w.store.onCommit = func(events []boulder.Event, crash bool) {
		for _, e := range events {
			if _, is := e.Body.(boulder.Judged); is {
				judged++
			}
		}
		if judged > 0 || crash {
			first()
		}
		if judged == trainSize || crash {
			all()
		}
	}
	w.integrate = func(ctx context.Context) {
		select {
		case <-w.all:
		case <-ctx.Done():
		}
	}
	return w
}

// plan returns five sub-tasks that do not depend on each other.
func (w *train) plan(gates map[string]string) *boulder.Plan {
	p := &boulder.Plan{Task: "t", IntegrationGates: []string{"echo all >> " + w.runs}}
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		gate := "echo " + id + " >> " + w.runs
		if of := gates[id]; of != "" {
			gate += "; " + of
		}
		p.SubTasks = append(p.SubTasks, subTask(id, gate))
	}
	return p
}

// ran returns how often each gate ran on combined trees.
func (w *train) ran() map[string]int {
	n := map[string]int{}
	for _, e := range w.store.events {
		if b, is := e.Body.(boulder.GateRun); is && b.Tree != "" {
			n[strings.Fields(b.Command)[1]]++
		}
	}
	return n
}

// trunk returns the sub-tasks of the commits on the tip, with what the commits say of their trees, and checks the tip.
func (w *train) trunk() (line []string) {
	w.Helper()
	format := "--format=%(trailers:key=Manager-Sub-task,valueonly,separator=) %(trailers:key=Manager-Tested,valueonly,separator=)"
	for commit := range strings.Lines(w.git("log", "--reverse", format, w.base+"..refs/manager/b1/tip")) {
		line = append(line, strings.TrimSpace(commit))
	}
	s, err := w.store.Load(w.Context(), "b1")
	if err != nil {
		w.Fatal(err)
	}
	l := s.Boulder.Trunk
	snapshot := s.Snapshot()
	if at := w.git("rev-parse", "refs/manager/b1/tip"); at != l.Tip || w.git("rev-parse", l.Tip+"^{tree}") != l.Tree || !snapshot.Green() {
		w.Errorf("the tip is at %s, its tree %s is green: %v", at, l.Tree, snapshot.Green())
	}
	for _, t := range s.SubTasks {
		if w.git("log", "-1", "--format=%(trailers:key=Manager-Sub-task,valueonly,separator=)", t.Integrated) != t.ID {
			w.Errorf("%s is not in %s", t.ID, t.Integrated)
		}
	}
	return line
}

func (w *train) sentBack() (ids []string) {
	for _, e := range w.store.events {
		if b, is := e.Body.(boulder.Conflict); is {
			ids = append(ids, fmt.Sprint(b.SubTaskID, b.With, len(b.Red)))
		}
	}
	return ids
}

// TestResultsThatWaitAreTestedTogether: results that wait come onto the tip after one run of the gates. If that is red, or
// files conflict, only the one that does not fit goes back to its session, and what lands was tested.
func TestResultsThatWaitAreTestedTogether(t *testing.T) {
	t.Parallel()
	fits := func(w *train) func(string, boulder.Job) {
		return func(dir string, job boulder.Job) { w.write(dir, job.SubTask.ID+".txt", "done\n") }
	}
	for name, c := range map[string]struct {
		files, gates map[string]string
		agent        func(*train) func(string, boulder.Job)
		generated    map[string]string
		trunk        []string
		back         []string
		runs         map[string]int
		crashes      bool // also with crashes while results are put onto the tip
	}{
		"all fit": {
			crashes: true,
			agent:   fits,
			trunk:   []string{"a this tree", "b only with e", "c only with e", "d only with e", "e this tree"},
			runs:    map[string]int{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "all": 1},
		},
		"the second breaks the first": {
			crashes: true,
			gates:   map[string]string{"b": "test $(cat api.txt) = $(cat b.txt)"},
			agent: func(w *train) func(string, boulder.Job) {
				return func(dir string, job boulder.Job) {
					switch id := job.SubTask.ID; {
					case id == "b":
						w.write(dir, "b.txt", "v1")
					case id == "c" && len(job.SubTask.Conflicts) == 0:
						w.write(dir, "api.txt", "v2")
					case id == "c":
						w.write(dir, "b.txt", "v2")
					default:
						w.write(dir, id+".txt", "done\n")
					}
				}
			},
			trunk: []string{"a this tree", "b this tree", "d only with e", "e this tree", "c this tree"},
			back:  []string{"c[b] 1"},
		},
		"two write the same lines": {
			agent: func(w *train) func(string, boulder.Job) {
				return func(dir string, job boulder.Job) {
					switch id := job.SubTask.ID; {
					case id == "c" && len(job.SubTask.Conflicts) > 0:
						w.write(dir, "list.txt", "b\nc\n")
					case id == "b" || id == "c":
						w.write(dir, "list.txt", id+"\n")
					default:
						w.write(dir, id+".txt", "done\n")
					}
				}
			},
			trunk: []string{"a this tree", "b only with e", "d only with e", "e this tree", "c this tree"},
			back:  []string{"c[a b d e] 0"},
		},
		"a generated file": {
			generated: map[string]string{"go.sum": "cat *.dep > go.sum"},
			agent: func(w *train) func(string, boulder.Job) {
				return func(dir string, job boulder.Job) {
					w.write(dir, job.SubTask.ID+".dep", job.SubTask.ID+"\n")
					w.write(dir, "go.sum", job.SubTask.ID+"\n")
				}
			},
			trunk: []string{"a this tree", "b only with e", "c only with e", "d only with e", "e this tree"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := func(t *testing.T, failAt int, written bool) int {
				w := newTrain(t, "api.txt", "v1", "list.txt", "", "go.sum", "")
				work := c.agent(w)
				w.generated = c.generated
				w.agent = func(dir string, job boulder.Job) {
					if job.SubTask.ID != "a" {
						<-w.first
					}
					work(dir, job)
				}
				w.store.failAt, w.store.written = failAt, written
				plan := w.plan(c.gates)
				before := w.userState()
				err := w.process(plan)
				if failAt > 0 {
					err = w.process(plan)
				}
				if err != nil {
					t.Fatal(err)
				}
				line := w.trunk()
				if failAt > 0 { // another number of results may wait together, and another one may have to give way
					slices.Sort(line)
					if len(line) != trainSize {
						t.Errorf("the trunk is %q", line)
					}
				} else if got := w.sentBack(); !slices.Equal(line, c.trunk) || !slices.Equal(got, c.back) {
					t.Errorf("the trunk is %q, and back went %q", line, got)
				}
				if got := w.ran(); failAt == 0 && c.runs != nil && fmt.Sprint(got) != fmt.Sprint(c.runs) {
					t.Errorf("gates ran on combined files: %v", got)
				}
				if after := w.userState(); after != before {
					t.Errorf("the user had\n%s\nand has\n%s", before, after)
				}
				return w.store.commits
			}
			commits := run(t, 0, false)
			for at := commits - 12; c.crashes && at < commits; at += 2 {
				t.Run(fmt.Sprint(at), func(t *testing.T) { run(t, at, at%2 == 0) })
			}
		})
	}
}
