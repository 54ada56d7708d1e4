package cli

import (
	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
)

func (a *app) newSkipCmd() *cobra.Command {
	var ref string
	cmd := &cobra.Command{
		Use:   "skip [flags] SUBTASK",
		Short: "Skip a sub-task, as if it were done",
		Long: `Ends a sub-task as skipped, whether it has begun or not: what depends on it goes on without it.
Use it for what is not needed, or what you have done yourself (say so with ` + "`manager note`" + `). One that is at
work is stopped.`,
		Example:           `  manager skip docs`,
		Args:              oneSubTask,
		ValidArgsFunction: a.completeSubTask(&ref),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.steer(cmd.Context(), ref, boulder.Order{Do: boulder.OrderSkip, SubTaskID: args[0]})
		},
	}
	a.boulderFlag(cmd, &ref)
	return cmd
}
