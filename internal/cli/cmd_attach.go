package cli

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/internal/view"
)

func (a *app) newAttachCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "attach [flags] [BOULDER]",
		Short: "Show a boulder that runs in the background, and end as its run does",
		Long: `Shows a boulder (default: the active one) as ` + "`manager run`" + ` does, while another process runs it, and ends with the exit code of
its run. Ctrl-C leaves it, and does not disturb the run.`,
		Example: `  manager run --detach && manager attach`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			b, err := a.Snapshot(ctx, cmp.Or(args...))
			if err != nil {
				return err
			}
			followed, err := a.followStatus(ctx, b.Boulder.ID)
			if err != nil {
				return err
			}
			if !followed {
				a.note("No process runs it.")
				if err := a.runStatus(ctx, b.Boulder.ID); err != nil {
					return err
				}
			}
			_, err = a.lookOnce(ctx, &view.Wait{For: waitDone, BoulderID: b.Boulder.ID}, "")
			return err
		},
	}
}
