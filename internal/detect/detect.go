// Package detect finds the commands that run a project's tests, and those that find errors in its source where no
// language server does. It looks at names and a few small files in the project's directory, and runs nothing.
package detect

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/internal/text"
)

// Command is a command of a project.
type Command struct {
	Run     string // for `sh -c`, in the project's directory
	Why     string // evidence in the project, for people: "there is a go.mod"
	Program string // what must be installed
}

// Tests returns the commands that run the tests of the project: one for each of Go, npm, Cargo and pytest that it has,
// or else `make test`; none if it knows no tests. Unreadable or invalid files count as absent.
func Tests(project fs.FS) []Command {
	found := commands(project, "go test ./...", "test", "npm test", "cargo test")
	if why := pytest(project); why != "" {
		found = append(found, Command{"pytest", why, "pytest"})
	}
	// Only for projects without other evidence: a Makefile's target test may be anything.
	if makefile := makefileOf(project); len(found) == 0 && makes(read(project, makefile), "test") {
		found = append(found, Command{"make test", makefile + " has the target \"test\"", "make"})
	}
	return found
}

// Lint returns the commands that find errors in the source without running it, for Go, npm and Cargo.
func Lint(project fs.FS) []Command {
	return commands(project, "go vet ./...", "lint", "npm run lint", "cargo check")
}

// commands returns those of the given commands that fit the project.
func commands(project fs.FS, golang, script, npm, cargo string) (found []Command) {
	if isFile(project, "go.mod") {
		found = append(found, Command{golang, "there is a go.mod", "go"})
	}
	scripts, _ := npmScripts(project)
	run, _ := scripts[script].(string)
	if strings.TrimSpace(run) != "" && !strings.Contains(run, "no test specified") { // the default of `npm init`
		found = append(found, Command{npm, fmt.Sprintf("package.json has the script %q", script), "npm"})
	}
	switch {
	case !isFile(project, "Cargo.toml"):
	case workspace().Match(read(project, "Cargo.toml")): // otherwise cargo only tests the package of the directory, if any
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

// Missing names the script or target that a command runs and the project lacks; "" if there is none, or when in doubt.
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

// plainWord matches a word that is no option or assignment and has no meaning to the shell.
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

// unlistable matches what gives a Makefile targets that it does not list.
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

// pytestSection matches the heading of a pytest section in a configuration file.
var pytestSection = text.Regexp(`(?m)^[ \t]*\[(tool\.pytest(\.ini_options)?|pytest|tool:pytest)\]`)

func pytest(project fs.FS) (why string) {
	for _, name := range []string{"pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"} {
		if isFile(project, name) && (name == "pytest.ini" || pytestSection().Match(read(project, name))) {
			return name + " configures pytest"
		}
	}
	for _, dir := range []string{".", "tests", "test"} { // where pytest finds the tests of most projects
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
	for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} { // in make's order of preference
		if isFile(project, name) {
			return name
		}
	}
	return ""
}

// rule matches the head of a make rule: targets and one or two colons, but no assignment.
var rule = text.Regexp(`(?m)^([^\s:=#][^:=#\n]*?)[ \t]*::?(?:[^:=\n]|$)`)

func makes(makefile []byte, target string) bool {
	for _, m := range rule().FindAllSubmatch(makefile, -1) {
		if slices.Contains(strings.Fields(string(m[1])), target) {
			return true
		}
	}
	return false
}

// maxRead bounds the files that are read, in bytes: manifests are small.
const maxRead = 1 << 20

// read returns the content of a regular file; nil if it is anything else (reading a pipe would block) or large.
func read(project fs.FS, name string) []byte {
	info, err := fs.Stat(project, name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxRead {
		return nil
	}
	data, _ := fs.ReadFile(project, name) // an unreadable file counts as absent
	return data
}

func isFile(project fs.FS, name string) bool {
	info, err := fs.Stat(project, name)
	return err == nil && info.Mode().IsRegular()
}

// maxScripts bounds what Scripts lists of each kind.
const maxScripts = 25

// Scripts lists what package.json, the Makefile and the justfile offer, as commands.
func Scripts(project fs.FS) (commands []string) {
	scripts, _ := npmScripts(project)
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		if plainWord().MatchString(name) {
			commands = append(commands, "npm run "+name)
		}
	}
	commands = commands[:min(len(commands), maxScripts)]
	for _, of := range []struct{ tool, file string }{{"make", makefileOf(project)}, {"just", justfileOf(project)}} {
		var targets []string
		for _, m := range rule().FindAllSubmatch(read(project, of.file), -1) {
			for _, target := range strings.Fields(string(m[1])) {
				if plainWord().MatchString(target) && !strings.HasPrefix(target, ".") {
					targets = append(targets, of.tool+" "+target)
				}
			}
		}
		commands = append(commands, targets[:min(len(targets), maxScripts)]...)
	}
	return commands
}

func justfileOf(project fs.FS) string {
	for _, name := range []string{"justfile", "Justfile", ".justfile"} {
		if isFile(project, name) {
			return name
		}
	}
	return ""
}
