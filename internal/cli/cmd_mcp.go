package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/blockers/mcptool"
)

func (a *app) newMCPCmd() *cobra.Command {
	return a.deskCmd(&cobra.Command{
		Use:   "mcp [flags]",
		Short: "Serve the blocker tool to agents over stdin and stdout",
		Long: `An MCP server over standard input and output, for agents that manager does not run itself, with one tool, blocker; see
` + "`manager blockers`" + `, which also says whether anything is recorded. What one client's agents report is one session,
named after the client and the process id of this command. Runs and ` + "`manager watch`" + ` offer the tool by themselves.

In the configuration of OpenCode, under a name other than manager, which is that of runs:

  "mcp": {"night": {"type": "local", "command": ["manager", "mcp"]}}`,
		Example: `  manager mcp -C ~/src/shop`,
	}, func(ctx context.Context, d desk, _ []string) error {
		if terminal(d.Stdin) {
			d.note("Waiting for an MCP client on standard input; Ctrl-D ends it.")
		}
		return mcptool.New(mcptool.Config{Desk: d.Desk, Logger: d.logger()}).ServeStdio(ctx, d.Stdin, d.Stdout)
	})
}
