package taskledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxProblems is how many problems of one file are told at once.
const maxProblems = 20

// Problem is one thing that is wrong in a plan file.
type Problem struct {
	File   string
	Line   int // from 1; 0 if the problem is the file as a whole
	Column int // from 1, in characters; 0 with Line
	What   string
	Do     string
}

// String is the problem as people read it: `plan.yaml:12:5: what is wrong: what to do`.
func (p Problem) String() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s: %s", p.File, p.What, p.Do)
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s", p.File, p.Line, p.Column, p.What, p.Do)
}

// FileError says everything that is wrong in a plan file, in the order of the file.
type FileError struct {
	Problems []Problem // at least one, at most 20
	More     int       // how many there are beyond these
}

// Error gives one problem per line.
func (e *FileError) Error() string {
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

// problems collects what is wrong in one file.
type problems struct {
	file string
	all  []Problem
}

func (p *problems) add(at spot, what, do string) {
	p.all = append(p.all, Problem{File: p.file, Line: at.line, Column: at.column, What: what, Do: do})
}

// err is nil if nothing is wrong.
func (p *problems) err() error {
	if len(p.all) == 0 {
		return nil
	}
	slices.SortStableFunc(p.all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	shown := min(len(p.all), maxProblems)
	return &FileError{Problems: p.all[:shown:shown], More: len(p.all) - shown}
}

// fileProblem is an error about a file as a whole.
func fileProblem(file, what, do string) error {
	p := problems{file: file}
	p.add(spot{}, what, do)
	return p.err()
}
