package executor

import (
	"path"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/scope"
)

// undelivered returns what a sub-task was to deliver and will not, since git ignores it: files that its outputs, its writes
// or a gate name. changed are files that it does deliver.
func undelivered(t *boulder.SubTask, changed, ignored []string) (all []string) {
	named := slices.Concat(t.Outputs, t.Writes)
	for _, line := range t.AllGates() {
		named = append(named, arguments(line)...)
	}
	for _, file := range ignored {
		for _, name := range named {
			switch name = path.Clean(name); {
			case name == strings.TrimSuffix(file, "/"), strings.HasSuffix(file, "/") && strings.HasPrefix(name, file) && !strings.Contains(name, "*"):
				all = append(all, name)
			case slices.Contains(t.Writes, name) && covers(name, []string{file}) && !covers(name, changed):
				all = append(all, file) // of all that may be written there, nothing is delivered
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// covers reports whether a glob of [boulder.SubTask.Writes] matches a file, or something in a directory.
func covers(glob string, files []string) bool {
	return slices.ContainsFunc(files, func(file string) bool {
		if strings.HasSuffix(file, "/") {
			file += "file"
		}
		return len(scope.Outside([]string{glob}, []string{file})) == 0
	})
}

// arguments returns the words of a shell command that may name files which it looks at, but does not run.
func arguments(line string) (all []string) {
	for _, command := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(";&|\n(){}`", r) }) {
		words := strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(" \t'\"<>=!", r) })
		all = append(all, words[min(1, len(words)):]...)
	}
	return all
}
