package command_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/internal/command"
)

// A command ends as itself, with all that it printed, whatever it leaves behind it.
func TestRun(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]int{
		"echo said":                               0,
		"echo said; exit 3":                       3,
		"sleep 600 & echo said":                   0,
		"sleep 600 & echo said; exit 3":           3,
		"trap '' TERM HUP; sleep 600 & echo said": 0,
		"setsid sleep 30 & echo said; exit 3":     3, // it leaves the group
		"echo said; kill -9 $$":                   -1,
	} {
		var out strings.Builder
		err := command.Run(command.Shell(t.Context(), t.TempDir(), nil, line), &out)
		code := 0
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			code = exit.ExitCode()
		} else if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if code != want || out.String() != "said\n" {
			t.Errorf("%s: exit code %d, want %d; it printed %q", line, code, want, out.String())
		}
	}
}

// A large input that is not read does not keep a command that is over.
func TestInputNotRead(t *testing.T) {
	t.Parallel()
	cmd := command.Shell(t.Context(), "", nil, "sleep 600 & exit 3")
	cmd.Stdin = strings.NewReader(strings.Repeat("x", 1<<20))
	var out strings.Builder
	if exit, ok := errors.AsType[*exec.ExitError](command.Run(cmd, &out)); !ok || exit.ExitCode() != 3 {
		t.Errorf("%v", exit)
	}
}

// What is said about a command before it runs, and about one that could not run.
func TestChecks(t *testing.T) {
	t.Parallel()
	for line, readable := range map[string]bool{
		"go test ./... && echo 'ok'": true, "if true; then": false, "echo 'x": false, "make | | head": false, "(make": false,
		"exit 3": true, "nosuch-program --flag": true,
	} {
		if what := command.Syntax(line); (what == "") != readable {
			t.Errorf("%q: %q", line, what)
		}
	}
	dir := t.TempDir()
	for line, want := range map[string]string{
		"nosuch-program --flag": "nosuch-program", "sh -c true": "", "cd src": "", "./nosuch": "", "X=1 nosuch": "", "": "",
		"if true; then nosuch; fi": "", "/nosuch/program x": "/nosuch/program", dir + "/nosuch": "",
	} {
		if got := command.Missing(t.Context(), dir, nil, line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	for line, want := range map[string]string{
		"nosuch-program --flag": "nosuch-program", "true && nosuch-program": "nosuch-program", "./nosuch": "",
		"true && /nosuch/program": "/nosuch/program", dir + "/nosuch": "", "bash -c nosuch-program": "nosuch-program",
		"echo nosuch-program > s; sh s": "", // the script's fault
	} {
		var out strings.Builder
		cmd := command.Shell(t.Context(), dir, nil, line)
		_ = command.Run(cmd, &out)
		if got, _ := command.NotFound(dir, line, cmd.ProcessState.ExitCode(), out.String()); got != want {
			t.Errorf("%q: %q, want %q, by %q", line, got, want, out.String())
		}
	}
	for _, test := range []struct{ line, output, name, file string }{
		{"npm run nosuch", "npm error Missing script: \"nosuch\"\nnpm error", "nosuch", "package.json"},
		{"npm run check", "> check\n> npm run nosuch\n\nnpm ERR! Missing script: \"nosuch\"", "", ""},
		{"pnpm run nosuch", "\u2009ERR_PNPM_NO_SCRIPT\u2009 Missing script: nosuch", "nosuch", "package.json"},
		{"yarn run nosuch", "yarn run v1.22\nerror Command \"nosuch\" not found.", "nosuch", "package.json"},
		{"yarn run nosuch", "Usage Error: Couldn't find a script named \"nosuch\".", "nosuch", "package.json"},
		{"make nosuch", "make: *** No rule to make target 'nosuch'.  Stop.", "nosuch", "Makefile"},
		{"make nosuch", "make[1]: *** No rule to make target 'nosuch'.  Stop.", "", ""},
	} {
		if name, file := command.NotFound("", test.line, 1, test.output); name != test.name || file != test.file {
			t.Errorf("%q says %q: %q in %q", test.line, test.output, name, file)
		}
	}
}
