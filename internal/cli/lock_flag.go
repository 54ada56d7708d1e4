package cli

import (
	"time"

	"github.com/spf13/cobra"
)

// lockFlag adds --lock-timeout.
func lockFlag(cmd *cobra.Command, d *time.Duration) {
	cmd.Flags().DurationVar(d, "lock-timeout", 0,
		"wait up to `TIME`, as 30m, while another process holds the state, instead of a second")
}
