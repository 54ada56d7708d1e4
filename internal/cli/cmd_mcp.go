package cli

import (
	"context"
	"fmt"
	"os/exec"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/blockers/mcptool"
	"github.com/bouldermgr/manager/internal/mcpserver"
	"github.com/bouldermgr/manager/internal/orphan"
	"github.com/bouldermgr/manager/project"
)

func (a *app) newMCPCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "mcp [flags]",
		Short: "Serve tools to other agents, which hand tasks over with them",
		Long: `An MCP server over standard input and output with the tools plan, run, status, wait, blockers, answer, note, pause,
resume, report and land. What an agent hands over runs in the background as after ` + "`manager run --detach`" + `, and goes on when
the agent has gone. A plan with gates waits until you agree to it: ` + "`manager resume`" + ` shows it and asks.

In the configuration of OpenCode, under a name other than manager, which is that of runs:

  "mcp": {"boulders": {"type": "local", "command": ["manager", "mcp"]}}

In Claude Code: claude mcp add boulders -- manager mcp`,
		Example: `  manager mcp -C ~/src/shop`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runMCP(cmd.Context()) },
	}
}

func (a *app) runMCP(ctx context.Context) error {
	if a.Getenv(orphan.Variable) != "" {
		return usagef("an agent of a run cannot hand tasks over: what it starts ends with the run")
	}
	if terminal(a.Stdin) {
		a.note("Waiting for an MCP client on standard input; Ctrl-D ends it.")
	}
	build, _ := debug.ReadBuildInfo()
	tools := mcpserver.New(a.Project, a.startServerApart, newVersionInfo(build).Version)
	return mcptool.Stdio(ctx, tools, a.Stdin, a.Stdout)
}

// startServerApart is [app.startServer] by a process that has left afterwards: clients end an MCP server with its children.
func (a *app) startServerApart(ctx context.Context) (*project.Desk, error) {
	cmd := exec.CommandContext(ctx, a.Executable, append(a.serverArgs(), "--apart")...)
	cmd.Env = a.Environ
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s (%w)", strings.TrimPrefix(strings.TrimSpace(string(said)), "manager: "), err)
	}
	return a.Dial(ctx)
}
