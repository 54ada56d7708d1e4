package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/cmd/internal/top"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/cmd/internal/web"
)

func (a *app) newUICmd() *cobra.Command {
	port, public := uint16(0), ""
	cmd := &cobra.Command{
		Use:   "ui [flags]",
		Short: "Show the project in a browser, and answer there",
		Long: `Serves pages on 127.0.0.1 until Ctrl-C: what needs you, with forms to answer, and plans to approve and edit; each
boulder with its graph, its time and spending, and buttons to steer it; each sub-task with its decisions, gates, changes, prompts
and transcripts. It works alongside a process that runs boulders, or alone. A boulder continues in the process that runs it,
or in the background server, which is started if there is none; this process runs nothing.

It prints a link that lets one browser in, once, within five minutes; Enter prints another one. It listens on
no other interface. For a phone, point a tunnel here (` + "`tailscale serve`, `ssh -L`" + `), and give its address with
--public-url.`,
		Example: `  manager ui
  manager ui --port 7070 --public-url https://box.tail1234.ts.net`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runUI(cmd.Context(), port, public) },
	}
	cmd.Flags().Uint16Var(&port, "port", 0, "listen on this `PORT` (default: a free one)")
	cmd.Flags().StringVar(&public, "public-url", "", "`URL` at which a tunnel reaches the pages, as https://host")
	return cmd
}

func (a *app) runUI(ctx context.Context, port uint16, public string) error {
	site, err := web.NewSite(a.project, public, a.logger())
	if err != nil {
		return usagef("--public-url: %w", err)
	}
	site.Start = a.startServer
	show := func() error {
		links := site.Links()
		if a.json {
			return a.printJSON(struct {
				Type  string   `json:"type"`  // ui
				Links []string `json:"links"` // each lets one browser in; the first is used up with the others
			}{"ui", links})
		}
		for _, link := range links {
			fmt.Fprintln(a.Stdout, link)
		}
		return nil
	}
	err = site.Serve(ctx, port, func() {
		if err := show(); err != nil {
			return // reported when the command ends
		}
		a.note("Open it within five minutes; it works once, in one browser. Ctrl-C ends the server.")
		if terminal(a.Stdin) {
			a.note("Enter prints another link.")
			go func() { // until this process ends
				for in := bufio.NewScanner(a.Stdin); in.Scan(); {
					_ = show()
				}
			}()
		}
	})
	if err == nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), errInterrupted) {
		return nil // Ctrl-C is how to leave it
	}
	return err
}

func (a *app) newTopCmd() *cobra.Command {
	return &cobra.Command{
		Use:        "top [flags]",
		Short:      "Show the project live on the terminal, and answer there",
		SuggestFor: []string{"tui", "htop", "dashboard"},
		Long: `Shows all boulders of the project, the sub-tasks of one as a tree, and its log, transcripts, decisions and spending,
while other processes run them, and where none does. Answer blockers with a, steer with p, n, r, s and c, continue with u, land
with L, and start a plan file with S. Keys are as in k9s and lazygit; ? lists them. What it continues or starts runs in the
background server, and goes on when you leave.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runTop(cmd.Context()) },
	}
}

func (a *app) runTop(ctx context.Context) error {
	c, stderr := a.console(), a.Stderr
	if c.Verbose = false; !a.interactive() || !terminal(a.Stdout) || !c.Drawable() {
		return usagef("top draws on a terminal, and there is none: see `manager list` and `manager status`")
	}
	var later strings.Builder // messages would damage the screen while it is drawn
	a.Stderr = &later
	defer func() { _, _ = io.WriteString(stderr, later.String()) }()
	in, _ := fileOf(a.Stdin)
	m := top.New(ctx, a.project, c.Stdout.Paint, a.startServer)
	return view.Program(ctx, m, in, unguarded(a.Stdout), c.TermType, c.Stdout.On)
}
