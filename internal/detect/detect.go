// Package detect tells from the files of a project which commands run its tests, and which ones find errors in its source
// where no language server does. It looks at names and at a few small files in the project's own directory, and runs
// nothing.
package detect

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/internal/text"
)

// Command is a command of a project.
type Command struct {
	Run     string // for `sh -c`, in the project's directory
	Why     string // what in the project speaks for it, for people: "there is a go.mod"
	Program string // what it needs to have installed
}

// Tests gives the commands that run the tests of the project: one for each of Go, npm, Cargo and pytest that it has, or
// else `make test`. None: it has no tests that are known here. A file that cannot be read, or is not what its name says,
// counts as absent.
func Tests(project fs.FS) []Command {
	found := commands(project, "go test ./...", "test", "npm test", "cargo test")
	if why := pytest(project); why != "" {
		found = append(found, Command{"pytest", why, "pytest"})
	}
	// For projects that say it in no other way: what a Makefile calls test may be anything.
	if makefile := makefileOf(project); len(found) == 0 && makes(read(project, makefile), "test") {
		found = append(found, Command{"make test", makefile + " has the target \"test\"", "make"})
	}
	return found
}

// Lint gives the commands that find errors in the source without running it, for Go, npm and Cargo.
func Lint(project fs.FS) []Command {
	return commands(project, "go vet ./...", "lint", "npm run lint", "cargo check")
}

// commands gives those among these that the project has something for.
func commands(project fs.FS, golang, script, npm, cargo string) (found []Command) {
	if isFile(project, "go.mod") {
		found = append(found, Command{golang, "there is a go.mod", "go"})
	}
	scripts, _ := npmScripts(project)
	run, _ := scripts[script].(string)
	if strings.TrimSpace(run) != "" && !strings.Contains(run, "no test specified") { // as `npm init` writes it
		found = append(found, Command{npm, fmt.Sprintf("package.json has the script %q", script), "npm"})
	}
	switch {
	case !isFile(project, "Cargo.toml"):
	case workspace().Match(read(project, "Cargo.toml")): // without it only the package of the directory counts, if there is one
		found = append(found, Command{cargo + " --workspace", "Cargo.toml has a workspace", "cargo"})
	default:
		found = append(found, Command{cargo, "there is a Cargo.toml", "cargo"})
	}
	return found
}

func npmScripts(project fs.FS) (scripts map[string]any, ok bool) {
	var manifest struct {
		Scripts map[string]any `json:"scripts"`
	}
	err := json.Unmarshal(read(project, "package.json"), &manifest)
	return manifest.Scripts, err == nil
}

// Missing says which script or target a command runs that the project does not have; empty: none, or it is not certain.
func Missing(project fs.FS, line string) string {
	words := strings.Fields(line)
	if slices.ContainsFunc(words, func(w string) bool { return !plainWord().MatchString(w) }) {
		return ""
	}
	switch {
	case len(words) == 3 && words[1] == "run" && slices.Contains([]string{"npm", "pnpm", "yarn"}, words[0]):
		return missingScript(project, words[0], words[2])
	case len(words) == 2 && words[0] == "make":
		return missingTarget(project, words[1])
	}
	return ""
}

// plainWord is no option, no assignment and nothing that the shell reads.
var plainWord = text.Regexp(`^[A-Za-z0-9_.:/@][A-Za-z0-9_.:/@-]*$`)

func missingScript(project fs.FS, tool, name string) string {
	scripts, ok := npmScripts(project)
	_, has := scripts[name]
	builtIn := name == "env" || name == "start" && isFile(project, "server.js")
	if !ok || has || builtIn || tool != "npm" && isFile(project, "node_modules/.bin/"+name) {
		return ""
	}
	return fmt.Sprintf("package.json has no script %q", name)
}

// unlistable is what gives a Makefile targets that it does not name; with a file of a like name, make may have a rule
// of its own.
var unlistable = text.Regexp(`(?m)^[ \t]*[s-]?include|%|^[^\t#\n]*\$[^\n=]*:|eval|^\.DEFAULT[ \t]*:`)

func missingTarget(project fs.FS, name string) string {
	makefile := makefileOf(project)
	like, err := fs.Glob(project, name+"*")
	if makefile == "" || err != nil || len(like) > 0 {
		return ""
	}
	rules := read(project, makefile)
	if len(rules) == 0 || unlistable().Match(rules) || makes(rules, name) {
		return ""
	}
	return fmt.Sprintf("%s has no target %q", makefile, name)
}

var workspace = text.Regexp(`(?m)^[ \t]*\[workspace\]`)

// pytestSection is what stands in a file of configuration that is about pytest.
var pytestSection = text.Regexp(`(?m)^[ \t]*\[(tool\.pytest(\.ini_options)?|pytest|tool:pytest)\]`)

func pytest(project fs.FS) (why string) {
	for _, name := range []string{"pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"} {
		if isFile(project, name) && (name == "pytest.ini" || pytestSection().Match(read(project, name))) {
			return name + " configures pytest"
		}
	}
	for _, dir := range []string{".", "tests", "test"} { // what pytest collects, where most projects have it
		for _, pattern := range []string{"conftest.py", "test_*.py", "*_test.py"} {
			files, err := fs.Glob(project, path.Join(dir, pattern))
			if err == nil && len(files) > 0 {
				return "there is " + files[0]
			}
		}
	}
	return ""
}

func makefileOf(project fs.FS) string {
	for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} { // make takes the first
		if isFile(project, name) {
			return name
		}
	}
	return ""
}

// rule is the head of a rule of make: targets, one or two colons, and no assignment.
var rule = text.Regexp(`(?m)^([^\s:=#][^:=#\n]*?)[ \t]*::?(?:[^:=\n]|$)`)

func makes(makefile []byte, target string) bool {
	for _, m := range rule().FindAllSubmatch(makefile, -1) {
		if slices.Contains(strings.Fields(string(m[1])), target) {
			return true
		}
	}
	return false
}

// maxRead bounds the files that are read: manifests are small.
const maxRead = 1 << 20

// read gives a regular file; nothing, if it is none, or large. A pipe would never end.
func read(project fs.FS, name string) []byte {
	info, err := fs.Stat(project, name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxRead {
		return nil
	}
	data, _ := fs.ReadFile(project, name) // what cannot be read counts as absent
	return data
}

func isFile(project fs.FS, name string) bool {
	info, err := fs.Stat(project, name)
	return err == nil && info.Mode().IsRegular()
}
