package taskledger

import (
	"os"
	"strconv"
	"strings"

	"github.com/bouldermgr/manager/internal/text"
)

// maxEntries is how many names of the project's top directory the planner's model is shown.
const maxEntries = 100

// projectFiles lists the names in a directory, directories with a slash: enough for a model to tell a Go module from a
// web page. No file is opened and no link followed; a directory that cannot be read has no names.
func projectFiles(dir string) (names []string) {
	entries, _ := os.ReadDir(dir) // what was read before an error is good
	for _, e := range entries {
		if name := e.Name(); name != ".git" && name != ".manager" {
			names = append(names, shown(name, e.IsDir()))
		}
	}
	if more := len(names) - maxEntries; more > 0 {
		names = append(names[:maxEntries], "… and "+strconv.Itoa(more)+" more")
	}
	return names
}

// shown keeps a file name from being more than a name in the prompt.
func shown(name string, dir bool) string {
	const longest = 80
	if strings.ContainsFunc(name, unprintable) {
		name = strconv.Quote(name)
	}
	name = text.Cut(name, longest)
	if dir {
		name += "/"
	}
	return name
}
