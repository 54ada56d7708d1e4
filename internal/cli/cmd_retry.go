package cli

import (
	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
)

func (a *app) newRetryCmd() *cobra.Command {
	var ref string
	cmd := &cobra.Command{
		Use:   "retry [flags] SUBTASK",
		Short: "Retry a sub-task in a fresh session",
		Long: `Has a sub-task done again in a fresh session, with all its tries: one that failed, was cancelled, or
waits for a person, and also one that is at work, whose session is stopped. What was blocked because of it can go
on. What it changed in the project stays, and its new session finds it.

A sub-task that is completed is not done again: others may have built on it.`,
		Example: `  manager retry toggle
  manager note --sub-task toggle "The store is in src/state.js" && manager retry toggle`,
		Args:              oneSubTask,
		ValidArgsFunction: a.completeSubTask(&ref),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.steer(cmd.Context(), ref, boulder.Order{Do: boulder.OrderRetry, SubTaskID: args[0]})
		},
	}
	a.boulderFlag(cmd, &ref)
	return cmd
}
