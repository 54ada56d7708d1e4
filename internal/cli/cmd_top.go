package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/internal/top"
	"github.com/bouldermgr/manager/internal/view"
)

func (a *app) newTopCmd() *cobra.Command {
	return &cobra.Command{
		Use:        "top [flags]",
		Short:      "Show the project live on the terminal, and answer there",
		SuggestFor: []string{"tui", "htop", "dashboard"},
		Long: `Shows all boulders of the project, the sub-tasks of one as a tree, and its log, transcripts, decisions and spending,
while other processes run them, and where none does. Answer blockers with a, and steer with p, n, r, s and c. Keys are as in
k9s and lazygit; ? lists them. It starts nothing: a boulder continues with ` + "`manager resume`" + `.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runTop(cmd.Context()) },
	}
}

func (a *app) runTop(ctx context.Context) error {
	c, stderr := a.console(), a.Stderr
	if c.Verbose = false; !a.interactive() || !terminal(a.Stdout) || !c.Drawable() {
		return usagef("top draws on a terminal, and there is none: see `manager list` and `manager status`")
	}
	var later strings.Builder // what is said meanwhile would tear the picture
	a.Stderr = &later
	defer func() { _, _ = io.WriteString(stderr, later.String()) }()
	in, _ := fileOf(a.Stdin)
	m := top.New(ctx, a.Project, c.Stdout.Paint, parseAnswer)
	return view.Program(ctx, m, in, bare(a.Stdout), c.TermType, c.Stdout.On)
}
