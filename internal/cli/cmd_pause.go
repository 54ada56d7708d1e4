package cli

import (
	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
)

func (a *app) newPauseCmd() *cobra.Command {
	var now bool
	cmd := &cobra.Command{
		Use:        "pause [flags] [BOULDER]",
		Short:      "Pause a boulder",
		SuggestFor: []string{"stop"},
		Long: `Pauses a boulder (default: the one that is at work, or the newest unfinished one): nothing new
starts. The turns that are at work go on to their end; with --now they are stopped, and taken up again when
it goes on. The process that runs it stays, and waits for ` + "`manager resume`" + ` from any terminal. A pause
outlives that process.`,
		Example: `  manager pause
  manager pause --now`,
		Args:              atMostOne("BOULDER"),
		ValidArgsFunction: a.completeBoulder(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.steer(cmd.Context(), newestOr(args), boulder.Order{Do: boulder.OrderPause, Now: now})
		},
	}
	cmd.Flags().BoolVar(&now, "now", false, "stop the turns that are at work")
	return cmd
}
