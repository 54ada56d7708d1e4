package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
)

func (a *app) newTrustCmd() *cobra.Command {
	remove := false
	cmd := &cobra.Command{
		Use:   "trust [flags]",
		Short: "Trust the project's manager.yaml as it is now",
		Long: `Has the project's manager.yaml count as it is now. That file comes with the repository, for everybody who works on it, and
may name commands to run. Without your trust only what is harmless in it counts, such as models, and commands that plan or run
ask you, or are refused without a terminal. Once the file changes, they ask again.

What you trust is kept below $XDG_STATE_HOME/manager (or ~/.local/state/manager), for this directory. Agents of a run are
refused.

Exit codes: 0 done · 2 nothing to trust, or an agent's process.`,
		Example: `  manager trust
  manager trust --remove`,
		RunE: func(*cobra.Command, []string) error { return a.runTrust(remove) },
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "trust it no longer")
	return cmd
}

func (a *app) runTrust(remove bool) error {
	if a.openErr != nil {
		return a.openErr
	}
	if remove {
		was, err := a.project.Distrust()
		if err == nil {
			fmt.Fprintln(a.Stdout, text.If(was, "It is trusted no longer.")+text.If(!was, "It was not trusted."))
		}
		return err
	}
	u, err := a.project.Trust()
	if err != nil {
		return err
	}
	for _, e := range u.Ignored {
		if _, err := fmt.Fprintf(unguarded(a.Stdout), "%s: %s\n", text.Whole(e.Key), text.Whole(e.Value)); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.Stdout, "Trusted: %s, until it changes.\n", a.pretty(u.Path))
	return nil
}

// askTrust asks the user to trust the project's manager.yaml, if it needs that. Without a terminal it is refused.
func (a *app) askTrust(ctx context.Context) error {
	refused := a.project.CheckTrust()
	if refused == nil || !a.interactive() {
		return refused
	}
	fmt.Fprintln(unguarded(a.Stderr), text.Safe(a.project.Distrusted()))
	switch _, err := a.choose(ctx, "Trust it as it is now?", "yes", "no"); {
	case errors.Is(err, orchestrator.ErrDeclined):
		return refused
	case err != nil:
		return err
	}
	if _, err := a.project.Trust(); err != nil {
		return err
	}
	a.project.Close()
	a.project = nil
	return a.open()
}
