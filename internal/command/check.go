package command

import (
	"cmp"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/internal/text"
)

// Syntax returns what the shell cannot parse in a command; empty if it can or there is no shell. It executes nothing.
func Syntax(line string) string {
	out, err := exec.Command("sh", "-n", "-c", "--", line).CombinedOutput()
	if _, refused := errors.AsType[*exec.ExitError](err); !refused {
		return ""
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	_, what, found := strings.Cut(first, ": ")
	if !found {
		return "the shell cannot read it"
	}
	return what
}

var name = text.Regexp(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)

// isProgram reports whether a word can be a program that no work in dir creates: a name, or a path outside.
func isProgram(dir, word string) bool {
	below, err := filepath.Rel(dir, word)
	return name().MatchString(word) || filepath.IsAbs(word) && (err != nil || !filepath.IsLocal(below))
}

// Missing returns the first word of a command if it is a program that the shell does not find. A path in dir is not.
func Missing(ctx context.Context, dir string, env []string, line string) string {
	words := strings.Fields(line)
	if len(words) == 0 || !isProgram(dir, words[0]) {
		return ""
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", `command -v -- "$1"`, "sh", words[0])
	cmd.Dir, cmd.Env = dir, env
	if _, missing := errors.AsType[*exec.ExitError](cmd.Run()); missing && ctx.Err() == nil {
		return words[0]
	}
	return ""
}

var (
	// notFound matches the shell's own message; a script's begins with its name.
	notFound = text.Regexp(`(?m)^(?:ba|da)?sh: (?:line )?(?:\d+: )?([^:\s]+): (?:(?:command )?not found|No such file or directory)$`)
	// noScript matches the messages of npm, pnpm, yarn 1 and later yarns.
	noScript = text.Regexp(`(?m)^(?:npm (?:error|ERR!) Missing script: "([^"\n]+)"|\W*ERR_PNPM_NO_SCRIPT\W+Missing script: (\S+)|` +
		`error Command "([^"\n]+)" not found\.|Usage Error: Couldn't find a script named "([^"\n]+)"\.)`)
	noTarget = text.Regexp("(?m)^make: \\*\\*\\* No rule to make target ['`]([^'\n]+)'\\.  Stop\\.$")
)

// NotFound returns what a command that ran in dir lacks, by how it ended: a program that the shell did not find (status
// 127), or a script or target, and the file that lacks it. Paths in dir do not count: work may still create them.
func NotFound(dir, line string, exit int, output string) (name, file string) {
	if m := notFound().FindStringSubmatch(output); m != nil && exit == 127 && isProgram(dir, m[1]) {
		return m[1], ""
	}
	for _, tool := range []struct {
		says *regexp.Regexp
		file string
	}{{noScript(), "package.json"}, {noTarget(), "Makefile"}} {
		m := tool.says.FindStringSubmatch(output)
		if m == nil || exit == 0 {
			continue
		}
		name := cmp.Or(m[1:]...)
		if slices.Contains(strings.Fields(line), name) { // else something that it calls printed it
			return name, tool.file
		}
	}
	return "", ""
}
