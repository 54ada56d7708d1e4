package cli

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/project"
)

// sweep ends what a manager left behind in this project that was killed, before the command itself begins. It is no
// reason to refuse the command if that fails.
func (a *app) sweep(cmd *cobra.Command) {
	if strings.HasPrefix(cmd.Name(), "__") { // the shell asks for completions while a person types
		return
	}
	swept, err := project.Sweep(a.dir)
	if err != nil {
		fmt.Fprintf(a.Stderr, "manager: %v\n", err)
	}
	if swept.Managers == 0 {
		return
	}
	if terminal(a.Stderr) {
		fmt.Fprint(bare(a.Stderr), ansi.ShowCursor) // a live view that was killed has left it hidden
	}
	if n := swept.Processes; n > 0 {
		a.note("A manager was killed here. What it left running is ended now (processes: %d).", n)
	}
}
