package yamlfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxProblems is how many problems of one file are told at once.
const maxProblems = 20

// Problem is one thing that is wrong in a file.
type Problem struct {
	File   string
	Line   int // from 1; 0 if the problem is the file as a whole
	Column int // from 1, in characters; 0 with Line
	What   string
	Do     string // what to do about it; empty if What says it
}

// String is the problem as people read it: `plan.yaml:12:5: what is wrong: what to do`.
func (p Problem) String() string {
	at := p.File
	if p.Line > 0 {
		at = fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	}
	if p.Do == "" {
		return at + ": " + p.What
	}
	return at + ": " + p.What + ": " + p.Do
}

// Error says everything that is wrong in a file, in the order of the file.
type Error struct {
	Problems []Problem // at least one, at most 20
	More     int       // how many there are beyond these
}

// Error gives one problem per line.
func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Problems)+1)
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(lines, "\n")
}

// spot is a place in a file; zero is the file as a whole.
type spot struct{ line, column int }

// File is a file that was decoded: what is wrong in it, and where its values stand.
type File struct {
	name     string
	problems []Problem
	spots    map[string]spot // by path, as sub_tasks[0].gates[1]; "" is the root
	unread   map[spot]bool   // what could not be read: whatever else is wrong there follows from it
}

func (f *File) add(at spot, what, do string) {
	f.problems = append(f.problems, Problem{File: f.name, Line: at.line, Column: at.column, What: what, Do: do})
}

// Report adds a problem of the value at a path, as limits.models[0].limit. A value that is not in the file is reported
// at the nearest one around it; one that could not be read is not reported again.
func (f *File) Report(path, what, do string) {
	if at := f.nearest(path); !f.unread[at] {
		f.add(at, what, do)
	}
}

func (f *File) nearest(path string) spot {
	for {
		if at, known := f.spots[path]; known || path == "" {
			return at
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
}

// Place is where the value at a path stands, as `plan.yaml:12`.
func (f *File) Place(path string) string { return fmt.Sprintf("%s:%d", f.name, f.nearest(path).line) }

// Has reports whether the file has a value at the path.
func (f *File) Has(path string) bool {
	_, has := f.spots[path]
	return has
}

// Just is the error if nothing but this is wrong in the file.
func (f *File) Just(path, what, do string) error {
	one := &File{name: f.name, spots: f.spots}
	one.Report(path, what, do)
	return one.Err()
}

// Err is nil if nothing is wrong, else an [*Error].
func (f *File) Err() error {
	if len(f.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(f.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	shown := min(len(f.problems), maxProblems)
	return &Error{Problems: f.problems[:shown:shown], More: len(f.problems) - shown}
}
