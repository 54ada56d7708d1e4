package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/blockers/mcptool"
)

func (a *app) newMCPCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "mcp [flags]",
		Short: "Serve the blocker tool to agents over stdin and stdout",
		Long: `An MCP server over standard input and output, for agents that manager does not run itself. It has one tool,
blocker, with which an agent reports what only a person can answer; see ` + "`manager blockers`" + `. It works while
runs and other processes are at work.

Runs and ` + "`manager watch`" + ` offer the tool to their sessions by themselves: they need none of this, and know
which session reports. Here all that one client's agents report is one session, named after the client and the
process id of this command. Whether anything is recorded is for the configuration to say, and for
` + "`manager blockers on|off`" + `.

In the configuration of OpenCode, for example, under a name other than manager, which is that of runs:

  "mcp": {"night": {"type": "local", "command": ["manager", "mcp"]}}`,
		Example:           `  manager mcp -C ~/src/shop`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.withDesk(func(ctx context.Context, d *blockers.Desk, _ []string) error {
			if terminal(a.Stdin) {
				a.note("Waiting for an MCP client on standard input; Ctrl-D ends it.")
			}
			return mcptool.New(mcptool.Config{Desk: d, Logger: a.logger()}).ServeStdio(ctx, a.Stdin, a.Stdout)
		}),
	}
}
