package text

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Error is the text of an error, with [OneLine] of the names of files in it. An agent chooses them, and could put lines
// into them that look like the manager's own. What says nothing to a user, the system call that looked at a file, is left out.
func Error(err error) string {
	said := err.Error()
	for _, named := range names(err) {
		said = strings.ReplaceAll(said, named.as, named.shown)
	}
	return said
}

// named is a part of an error's text, and how it is shown.
type named struct{ as, shown string }

// names returns the parts of an error, and those that it wraps, that are shown otherwise.
func names(err error) (all []named) {
	switch e := err.(type) { //nolint:errorlint // each error of the tree is looked at
	case *fs.PathError:
		if slices.Contains([]string{"open", "stat", "lstat"}, e.Op) {
			all = append(all, named{e.Op + " " + e.Path + ": ", e.Path + ": "})
		}
		all = append(all, named{e.Path, OneLine(e.Path)})
	case *os.LinkError:
		all = []named{{e.Old, OneLine(e.Old)}, {e.New, OneLine(e.New)}}
	}
	all = slices.DeleteFunc(all, func(n named) bool { return n.as == n.shown })
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
