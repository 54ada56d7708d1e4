package text

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Error is the text of an error, with [OneLine] of the names of files in it. An agent chooses them, and could put lines
// into them that look like the manager's own.
func Error(err error) string {
	said := err.Error()
	for _, name := range names(err) {
		said = strings.ReplaceAll(said, name, OneLine(name))
	}
	return said
}

// names returns the names that [OneLine] changes, in an error and those that it wraps.
func names(err error) (all []string) {
	switch e := err.(type) { //nolint:errorlint // each error of the tree is looked at
	case *fs.PathError:
		all = []string{e.Path}
	case *os.LinkError:
		all = []string{e.Old, e.New}
	}
	all = slices.DeleteFunc(all, func(name string) bool { return OneLine(name) == name })
	switch e := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			all = append(all, names(inner)...)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			all = append(all, names(inner)...)
		}
	}
	return all
}

// Format is [fmt.Sprintf] with [Error] for errors.
func Format(format string, args ...any) string {
	args = slices.Clone(args)
	for i, arg := range args {
		if err, is := arg.(error); is && err != nil {
			args[i] = Error(err)
		}
	}
	return fmt.Sprintf(format, args...)
}
