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
		return n.failed(ctx, "notification command "+name, err)
	case cmd.ProcessState == nil:
		if _, looked := exec.LookPath(n.cfg.Command[0]); looked != nil {
			return notFound(n.cfg.Command[0])
		}
		return fmt.Errorf("the notification command %s could not be started: %w", name, err)
	}
	line := strings.Join(n.cfg.Command, " ")
	missing, _ := command.NotFound(line, cmd.ProcessState.ExitCode(), out.String())
	if missing != "" && strings.Contains(line, missing) { // and is not what a variable holds, which may be a secret
		return notFound(missing)
	}
	return n.failed(ctx, "notification command "+name, err)
}

func notFound(program string) error {
	return fmt.Errorf("the notification command %s was not found: correct notify.command, or put the program on the PATH",
		program)
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
