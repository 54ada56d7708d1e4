package notify

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/internal/text"
)

// outputKept is how much of a command's output, and of a webhook's answer, is looked at, in bytes.
const outputKept = 4 << 10

// run runs the command in a process group of its own, which ends with it: nothing is left behind.
func (n *Notifier) run(ctx context.Context, m Message, body []byte) error {
	name := filepath.Base(n.cfg.Command[0])
	var out firstBytes
	cmd := exec.CommandContext(ctx, n.cfg.Command[0], n.cfg.Command[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Env = n.cfg.Dir, bytes.NewReader(body), slices.Concat(n.cfg.Env, variables(m))
	err := command.Run(cmd, &out)
	n.cfg.Logger.Debug("notification command", "command", name, "output", text.Safe(out.String()))
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = n.gaveUp(ctx)
	case cmd.ProcessState == nil:
		if _, looked := exec.LookPath(n.cfg.Command[0]); looked != nil {
			return notFound(n.cfg.Command[0])
		}
		return fmt.Errorf("the notification command %s could not be started: %w", name, err)
	case cmd.ProcessState.ExitCode() == shellNotFound && n.line() != "":
		return notFound(n.program())
	}
	return fmt.Errorf("the notification command %s failed: %w", name, err)
}

// shellNotFound is the exit code of a shell that does not find a program.
const shellNotFound = 127

func notFound(program string) error {
	return fmt.Errorf("the notification command %s was not found: correct notify.command, or put the program on the PATH",
		program)
}

// line is the command where it is one for the shell.
func (n *Notifier) line() string {
	if c := n.cfg.Command; len(c) == 3 && c[0] == "sh" && c[1] == "-c" {
		return c[2]
	}
	return ""
}

// program is what a line for the shell runs, if that is one program and its arguments.
func (n *Notifier) program() string {
	words := strings.Fields(n.line())
	if len(words) == 0 || strings.ContainsAny(n.line(), ";|&()<>\n") || strings.ContainsAny(words[0], "=$`\"'\\") {
		return "has a program in its line that"
	}
	return words[0]
}

func variables(m Message) []string {
	code := ""
	if m.ExitCode != nil {
		code = strconv.Itoa(*m.ExitCode)
	}
	return []string{
		"MANAGER_EVENT=" + string(m.Event), "MANAGER_BOULDER_ID=" + m.BoulderID, "MANAGER_STATUS=" + string(m.Status),
		"MANAGER_TITLE=" + m.Title, "MANAGER_EXIT_CODE=" + code, "MANAGER_REPORT=" + m.Report,
	}
}

// firstBytes keeps the beginning of what is written, and takes the rest without keeping it.
type firstBytes struct{ bytes.Buffer }

func (f *firstBytes) Write(p []byte) (int, error) {
	f.Buffer.Write(p[:min(len(p), outputKept-f.Len())])
	return len(p), nil
}
