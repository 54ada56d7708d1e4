// Package detect tells from the files of a project which commands run its tests, and which ones find errors in its source
// where no language server does. It looks at names and at a few small files in the project's own directory, and runs
// nothing.
package detect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
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

// unlistable is what gives a Makefile targets that it does not name; with a file of a like name, make may have a rule of its own.
var unlistable = text.Regexp(`(?m)^[ \t]*[s-]?include|%|^[^\t#\n]*\$[^\n=]*:|eval|^\.DEFAULT[ \t]*:`)

func missingTarget(project fs.FS, name string) string {
	makefile := makefileOf(project)
	like, err := fs.Glob(project, name+"*")
	if makefile == "" || err != nil || len(like) > 0 {
		return ""
	}
	rules := read(project, makefile)
	if unlistable().Match(rules) || makes(rules, name) {
		return ""
	}
	return fmt.Sprintf("%s has no target %q", makefile, name)
}

var workspace = text.Regexp(`(?m)^[ \t]*\[workspace\]`)

// pytestConfigs are the files in which pytest looks for its configuration, and what stands in them then.
var pytestConfigs = []struct {
	name string
	has  func() *regexp.Regexp // nil: the file itself is enough
}{
	{"pytest.ini", nil},
	{"pyproject.toml", text.Regexp(`(?m)^[ \t]*\[tool\.pytest(\.ini_options)?\]`)},
	{"tox.ini", text.Regexp(`(?m)^\[pytest\]`)},
	{"setup.cfg", text.Regexp(`(?m)^\[tool:pytest\]`)},
}

// pytestFiles match what pytest collects, where most projects have it.
var pytestFiles = []string{"conftest.py", "test_*.py", "*_test.py"}

// pytest says what speaks for it.
func pytest(project fs.FS) (why string) {
	for _, config := range pytestConfigs {
		if isFile(project, config.name) && (config.has == nil || config.has().Match(read(project, config.name))) {
			return config.name + " configures pytest"
		}
	}
	for _, dir := range []string{".", "tests", "test"} {
		for _, pattern := range pytestFiles {
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

// maxRead bounds what is read of one file: manifests are small.
const maxRead = 1 << 20

// read gives the beginning of a regular file; nothing, if it is none. A pipe would never end.
func read(project fs.FS, name string) []byte {
	if !isFile(project, name) {
		return nil
	}
	f, err := project.Open(name)
	if err != nil {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(f, maxRead))
	if errors.Join(err, f.Close()) != nil {
		return nil
	}
	return data
}

func isFile(project fs.FS, name string) bool {
	info, err := fs.Stat(project, name)
	return err == nil && info.Mode().IsRegular()
}
