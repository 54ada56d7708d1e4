package command

import (
	"context"
	"errors"
	"os/exec"
	"regexp"
	"strings"
)

// Syntax says what the shell cannot read in a command; empty: it can, or there is no shell to ask. Nothing is executed.
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

// name is what can be the name of a program, and is no path.
var name = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)

// Missing returns the first word of a command if it is the name of a program that the shell does not find.
func Missing(ctx context.Context, dir string, env []string, line string) string {
	words := strings.Fields(line)
	if len(words) == 0 || !name.MatchString(words[0]) {
		return ""
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", `command -v -- "$1"`, "sh", words[0])
	cmd.Dir, cmd.Env = dir, env
	if _, missing := errors.AsType[*exec.ExitError](cmd.Run()); missing && ctx.Err() == nil {
		return words[0]
	}
	return ""
}

// notFound is what the shell itself says; a script says its own name first.
var notFound = regexp.MustCompile(`(?m)^sh: (?:line )?(?:\d+: )?([^/:\s]+): (?:command )?not found$`)

// NotFound returns the program that the shell did not find, by the output of a command that exited with 127. A path is not
// one: what lies there may be work that is still to be done.
func NotFound(output string) string {
	if m := notFound.FindStringSubmatch(output); m != nil {
		return m[1]
	}
	return ""
}
