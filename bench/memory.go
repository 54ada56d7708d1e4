package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// sampleEvery is how often memory is looked at.
const sampleEvery = 20 * time.Millisecond

// errNoProc is the answer outside of Linux.
var errNoProc = errors.New("memory is measured by /proc, which only Linux has")

// sampler watches the memory of process trees. It counts the proportional set size, in which what processes share (here
// the 180 MB of OpenCode's binary) counts once for all of them.
type sampler struct {
	proc  string // /proc
	known map[int]string
	peak  int64 // bytes
}

// watch samples the trees below the roots until ctx ends, and gives the largest sum that was seen, in bytes.
func watch(ctx context.Context, roots ...int) (peak int64, err error) {
	s := &sampler{proc: "/proc", known: map[int]string{}}
	for _, pid := range roots {
		p, err := s.read(pid)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errNoProc, err)
		}
		s.known[pid] = p.started
	}
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		s.sample()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return s.peak, nil
		}
	}
}

// sample adds up one moment. Processes come and go meanwhile; one that is gone counts nothing.
//
// Nor does a child that has not become a program of its own yet: between vfork and exec it has its parent's memory, all
// of it, and would double the sum (seen: 660 MB and 1,250 MB for the same work).
func (s *sampler) sample() {
	procs := s.list()
	s.grow(procs)
	var sum int64
	for pid, started := range s.known {
		p, alive := procs[pid]
		if !alive || p.started != started {
			delete(s.known, pid)
			continue
		}
		if parent, ok := procs[p.parent]; !ok || parent.image != p.image {
			sum += s.proportional(pid)
		}
	}
	s.peak = max(s.peak, sum)
}

// list gives all processes of the machine.
func (s *sampler) list() map[int]proc {
	dirs, _ := filepath.Glob(s.proc + "/[0-9]*") // the pattern is right
	procs := make(map[int]proc, len(dirs))
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if p, err := s.read(pid); err == nil {
			procs[pid] = p
		}
	}
	return procs
}

// grow takes in the children of known processes, however deep. Whoever was seen below them once stays, also when its
// parent ends and it moves to another.
func (s *sampler) grow(procs map[int]proc) {
	for found := true; found; {
		found = false
		for pid, p := range procs {
			_, known := s.known[pid]
			if _, ours := s.known[p.parent]; ours && !known {
				s.known[pid] = p.started
				found = true
			}
		}
	}
}

// proc is one process at one moment.
type proc struct {
	parent  int
	started string // tells it from a later one of the same id
	image   string // where the kernel put stack, arguments and environment, by chance: exec changes it, fork does not
}

func (s *sampler) read(pid int) (proc, error) {
	data, err := os.ReadFile(filepath.Join(s.proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return proc{}, err
	}
	return parseStat(string(data))
}

// parseStat reads /proc/PID/stat. The second field is a name in brackets that may hold anything, brackets too.
func parseStat(stat string) (proc, error) {
	const parent, started, stack, arguments, environment = 1, 19, 25, 45, 47 // counted from the state, after the name
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= environment {
		return proc{}, fmt.Errorf("%q is no stat of a process", stat)
	}
	ppid, err := strconv.Atoi(fields[parent])
	image := fields[stack] + " " + fields[arguments] + " " + fields[environment]
	return proc{parent: ppid, started: fields[started], image: image}, err
}

// proportional is the process's proportional set size in bytes; 0 of a process that is gone or about to be.
func (s *sampler) proportional(pid int) int64 {
	data, err := os.ReadFile(filepath.Join(s.proc, strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		return 0
	}
	return parsePss(string(data))
}

func parsePss(rollup string) int64 {
	for line := range strings.Lines(rollup) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			kilobytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err == nil {
				return kilobytes << 10
			}
		}
	}
	return 0
}
