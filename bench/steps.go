package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Sizes of plans.
const stepsFew, stepsSome, stepsMany, stepsHuge = 5, 100, 1000, 10_000

// stepSizes says how each size is measured: by how many processes, and how often in each.
func stepSizes(shape string) []stepSize {
	sizes := []stepSize{{stepsFew, 20, 3}, {stepsSome, 3, 3}, {stepsMany, 1, 3}}
	if shape != shapeDiamonds {
		sizes = append(sizes, stepSize{stepsHuge, 1, 1})
	}
	return sizes
}

type stepSize struct{ steps, times, rounds int }

// Limits of issue 4.
const (
	leastOfChain  = 0.75 // of a bare bbolt Update per step
	leastOfFanOut = 2.2
	leastOfPeer   = 1
	mostAtMany    = 11  // times the time of 100
	mostAtHuge    = 110 // times the time of 100
	mostOfLoop    = 30e6
)

// stepper is somebody who makes steps durable one by one.
type stepper struct {
	name string
	peer bool // does the same work, and is power-safe
	// once and most keep the whole run within minutes: from 1,000 steps on it is measured only once, and not at all for
	// more steps than most.
	once bool
	most int
	args func(shape string, steps, times int) []string
}

// measureSteps has the loop run sub-tasks that do nothing, and others make as many steps durable in the same directory:
// bbolt alone, the disk alone, and LangGraph JS if it is installed.
func measureSteps(ctx context.Context, w *world) ([]comparison, error) {
	m, err := newStepsMeasure(w, "steps")
	if err != nil {
		return nil, err
	}
	fileSystem, err := disk(m.dir)
	if err != nil {
		return nil, err
	}
	steppers, err := m.steppers()
	if err != nil {
		return nil, err
	}
	for _, shape := range stepShapes() {
		for _, size := range stepSizes(shape) {
			if err := m.measure(ctx, shape, size, steppers); err != nil {
				return nil, err
			}
		}
	}
	w.report("Durable steps per second on %s:\n%s%s", fileSystem, m.table(steppers), m.about())
	memory, err := m.ofMemory(ctx, steppers[0])
	return append(m.comparisons(steppers), memory...), err
}

func stepShapes() []string { return []string{shapeChain, shapeFanOut, shapeDiamonds} }

type stepKey struct {
	name, shape string
	steps       int
}

// stepsMeasure gathers the results.
type stepsMeasure struct {
	*world
	dir      string
	seconds  map[stepKey][]float64 // for all steps together
	versions map[string]string
}

func newStepsMeasure(w *world, dir string) (*stepsMeasure, error) {
	m := &stepsMeasure{world: w, dir: filepath.Join(w.root, dir), seconds: map[stepKey][]float64{}}
	return m, os.Mkdir(m.dir, 0o700)
}

// Names of the columns.
const (
	nameLoop     = "manager"
	nameSessions = "manager, with sessions"
	nameUpdate   = "bbolt Update"
	nameRaw      = "fdatasync"
)

// steppers are those that take turns; the loop comes first.
func (m *stepsMeasure) steppers() ([]stepper, error) {
	var all []stepper
	for _, kind := range [][2]string{
		{nameLoop, stepLoop}, {nameSessions, stepSessions}, {nameUpdate, stepUpdate}, {nameRaw, stepRaw},
	} {
		s, err := m.own(kind[0], kind[1])
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	all[0].most = stepsHuge
	return append(all, m.langGraph()...), nil
}

// own is this program as a process of its own.
func (m *stepsMeasure) own(name, kind string) (stepper, error) {
	self, err := os.Executable()
	return stepper{name: name, most: stepsMany, args: func(shape string, steps, times int) []string {
		return []string{self, stepsCommand, kind, shape, strconv.Itoa(steps), strconv.Itoa(times), m.dir}
	}}, err
}

// langGraph are the peers: both APIs, with SQLite safe against a loss of power and as its checkpointer opens it.
func (m *stepsMeasure) langGraph() []stepper {
	dir := filepath.Join(m.source, "bench", "langgraph")
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "node_modules"))
	}
	if err != nil {
		m.report("LangGraph was not measured: it needs node and `npm ci` in bench/langgraph (%v).", err)
		return nil
	}
	var all []stepper
	for _, safe := range []bool{true, false} {
		for _, api := range []string{"functional", "graph"} {
			s := stepper{name: "LangGraph " + api, peer: safe, once: api == "graph", most: stepsMany}
			synchronous := "full"
			if !safe {
				synchronous = "default"
				s.name += ", not power-safe"
				if s.once {
					s.most = stepsSome
				}
			}
			s.args = func(shape string, steps, times int) []string {
				return []string{
					node, "--no-warnings", filepath.Join(dir, "steps.mjs"),
					api, shape, strconv.Itoa(steps), strconv.Itoa(times), synchronous, m.dir,
				}
			}
			all = append(all, s)
		}
	}
	return all
}

// measure has all steppers take turns at one shape and size.
func (m *stepsMeasure) measure(ctx context.Context, shape string, size stepSize, steppers []stepper) error {
	var often, once []stepper
	for _, s := range steppers {
		switch {
		case size.steps > s.most:
		case s.once && size.steps >= stepsMany:
			once = append(once, s)
		default:
			often = append(often, s)
		}
	}
	if err := m.take(ctx, shape, size, often); err != nil {
		return err
	}
	size.rounds = 1
	return m.take(ctx, shape, size, once)
}

func (m *stepsMeasure) take(ctx context.Context, shape string, size stepSize, steppers []stepper) error {
	var contenders []contender
	for _, s := range steppers {
		contenders = append(contenders, m.contender(s, shape, size.steps, size.times))
	}
	results, err := m.race(ctx, size.rounds, contenders...)
	if err != nil {
		return err
	}
	for i, s := range steppers {
		m.seconds[stepKey{s.name, shape, size.steps}] = results[i]
	}
	return nil
}

func (m *stepsMeasure) contender(s stepper, shape string, steps, times int) contender {
	name := fmt.Sprintf("%s, %s of %d", s.name, shape, steps)
	return contender{name, func(ctx context.Context) (float64, error) {
		result, err := m.run(ctx, s.args(shape, steps, times))
		if err != nil {
			return 0, err
		}
		if s.peer && result.Synchronous != 2 {
			return 0, fmt.Errorf("its SQLite has synchronous=%d, which is not FULL", result.Synchronous)
		}
		if result.Versions != nil {
			m.versions = result.Versions
		}
		return result.Seconds, nil
	}}
}

// run is one process that makes steps durable.
func (m *stepsMeasure) run(ctx context.Context, args []string) (result stepResult, err error) {
	p := m.command(ctx, m.dir, args[0], args[1:]...)
	if err := together([]*process{p}); err != nil {
		return result, err
	}
	if err := json.Unmarshal(p.output.Bytes(), &result); err != nil {
		return result, fmt.Errorf("%w: %s", err, oneLine(p.output.String()))
	}
	return result, nil
}

// side is a stepper's steps per second.
func (m *stepsMeasure) side(name, shape string, steps int) side {
	s := side{what: name}
	for _, seconds := range m.seconds[stepKey{name, shape, steps}] {
		s.results = append(s.results, float64(steps)/seconds)
	}
	return s
}

func (m *stepsMeasure) comparisons(steppers []stepper) (all []comparison) {
	line := func(shape string, steps int, than string, least float64) comparison {
		return comparison{
			name: fmt.Sprintf("steps, %s of %s", shape, thousands(steps)), ours: m.side(nameLoop, shape, steps),
			theirs: m.side(than, shape, steps), format: perSecond, least: least,
		}
	}
	for _, steps := range []int{stepsSome, stepsMany} {
		all = append(all, line(shapeChain, steps, nameUpdate, leastOfChain))
		all = append(all, line(shapeFanOut, steps, nameUpdate, leastOfFanOut))
	}
	for _, s := range steppers {
		if !s.peer {
			continue
		}
		for _, shape := range stepShapes() {
			for _, steps := range []int{stepsFew, stepsSome, stepsMany} {
				all = append(all, line(shape, steps, s.name, leastOfPeer))
			}
		}
	}
	return append(all, m.growth()...)
}

// growth says whether the time of a plan grows with its size and not faster.
func (m *stepsMeasure) growth() (all []comparison) {
	for _, shape := range stepShapes() {
		for _, large := range []struct {
			steps int
			limit float64
		}{{stepsMany, mostAtMany}, {stepsHuge, mostAtHuge}} {
			ours := m.seconds[stepKey{nameLoop, shape, large.steps}]
			if len(ours) == 0 {
				continue
			}
			all = append(all, comparison{
				name:   fmt.Sprintf("time of %s, %s", thousands(large.steps), shape),
				ours:   side{"of " + thousands(large.steps), ours},
				theirs: side{"of 100", m.seconds[stepKey{nameLoop, shape, stepsSome}]},
				format: milliseconds, limit: large.limit,
			})
		}
	}
	return all
}

// ofMemory compares the live heap of the loop in large plans with that in one of 100; the limit is the absolute one. Of
// the shapes it is the fan-out that holds most.
func (m *stepsMeasure) ofMemory(ctx context.Context, loop stepper) (all []comparison, err error) {
	live := map[int][]float64{}
	for _, steps := range []int{stepsSome, stepsMany, stepsHuge} {
		args := loop.args(shapeFanOut, steps, 1)
		args[2] = stepMemory
		result, err := m.run(ctx, args)
		if err != nil {
			return nil, err
		}
		live[steps] = []float64{result.Live}
		m.report("At %s steps the largest resident set of the loop's process was %s.",
			thousands(steps), megabytes(result.Memory))
	}
	for _, steps := range []int{stepsMany, stepsHuge} {
		all = append(all, comparison{
			name: fmt.Sprintf("live heap of the loop, fan-out of %s", thousands(steps)),
			ours: side{"of " + thousands(steps), live[steps]}, theirs: side{"of 100", live[stepsSome]},
			format: megabytes, most: mostOfLoop,
		})
	}
	return all, nil
}

// about says who the peers were.
func (m *stepsMeasure) about() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m.versions)) {
		parts = append(parts, name+" "+m.versions[name])
	}
	return strings.Join(parts, ", ")
}

// table has a line for every shape and size, and a column for everybody.
func (m *stepsMeasure) table(steppers []stepper) string {
	var b strings.Builder
	b.WriteString("| shape | steps |")
	for _, s := range steppers {
		b.WriteString(" " + s.name + " |")
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(steppers)+2) + "\n")
	for _, shape := range stepShapes() {
		for _, steps := range []int{stepsFew, stepsSome, stepsMany, stepsHuge} {
			if len(m.seconds[stepKey{nameLoop, shape, steps}]) == 0 {
				continue
			}
			fmt.Fprintf(&b, "| %s | %s |", shape, thousands(steps))
			for _, s := range steppers {
				cell := "–"
				if results := m.side(s.name, shape, steps).results; len(results) > 0 {
					cell = fmt.Sprintf("%.0f", median(results))
				}
				b.WriteString(" " + cell + " |")
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}
