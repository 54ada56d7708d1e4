package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/config"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/workspace"
)

type landOptions struct {
	files, pr, drop, dryRun, withUncommitted bool
	branch                                   string
}

func (a *app) newLandCmd() *cobra.Command {
	var o landOptions
	cmd := &cobra.Command{
		Use:   "land [flags] [BOULDER]",
		Short: "Bring the results of an isolated boulder to where you want them",
		Long: `Brings the results of a boulder that ran in slots (` + "`manager run --isolate`" + `) into your files, or makes a branch or
a pull request of them: exactly the files on which all gates were green, merged with what you have changed since. If anything conflicts,
nothing is written. Then the slots and the refs of the boulder are removed.

Exit codes: 0 done · 1 refused: a conflict, a red gate, a ref that somebody moved · 2 usage, or the branch exists.`,
		Example: `  manager land --files --dry-run
  manager land --branch dark-mode 01k3
  manager land --pr`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completion(1, boulders),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runLand(cmd.Context(), &o, cmp.Or(args...)) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.files, "files", false, "write them into your files, and leave index and branches alone")
	f.StringVar(&o.branch, "branch", "", "make branch `NAME` of them")
	f.BoolVar(&o.pr, "pr", false, "push a branch of them, by default manager/ and the beginning of the task, and make a pull request with gh")
	f.BoolVar(&o.drop, "drop", false, "drop them; they are kept under refs/manager/dropped for 30 days")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would happen")
	f.BoolVar(&o.withUncommitted, "with-uncommitted", false,
		"with --branch or --pr: publish what you had not committed when the run began, too")
	cmd.MarkFlagsMutuallyExclusive("files", "branch", "drop")
	cmd.MarkFlagsMutuallyExclusive("files", "pr", "drop")
	cmd.MarkFlagsOneRequired("files", "branch", "pr", "drop")
	return cmd
}

// landReport is what `manager land --json` prints.
type landReport struct {
	Type      string `json:"type"` // land
	BoulderID string `json:"boulder_id"`
	boulder.Landed
	Files  []workspace.Change `json:"files,omitempty"`
	DryRun bool               `json:"dry_run"`
}

func (a *app) runLand(ctx context.Context, o *landOptions, ref string) error {
	if a.openErr != nil {
		return a.openErr
	}
	if err := a.OpenWorkspace(ctx); err != nil {
		return err
	}
	there, err := a.Read(ctx)
	if err != nil {
		return err
	}
	b, err := project.Get(ctx, there, ref)
	there.Close()
	if err != nil {
		return err
	}
	how := project.Land{How: boulder.LandedBranch, Branch: o.branch, DryRun: o.dryRun, WithUncommitted: o.withUncommitted}
	switch {
	case o.files:
		how.How = boulder.LandedFiles
	case o.pr:
		how.How = boulder.LandedPR
	case o.drop:
		how.How = boulder.LandedDropped
	}
	return a.land(ctx, &b, how)
}

// landAtEnd brings the results of a run that is over to where the configuration wants them, or the user at the terminal, who is
// asked. Where nobody is, and nobody said that the run is to be isolated, they are in the files afterwards, as if it had worked
// there. runErr is how the run ended.
func (a *app) landAtEnd(ctx context.Context, id string, ask bool, runErr error) error {
	if id == "" || runErr != nil && !errors.Is(runErr, errPartial) {
		return runErr
	}
	there, err := a.Read(ctx)
	if err != nil {
		return cmp.Or(runErr, err)
	}
	b, err := there.Get(ctx, id)
	there.Close()
	if err != nil || !b.Boulder.Unlanded() {
		return cmp.Or(runErr, err)
	}
	how, own := project.Land{How: a.Config().Land}, false
	switch how.How {
	case config.LandAsk:
		how.How = ""
	case "":
		own = !ask && b.Boulder.Isolation == boulder.IsolationAuto
		how.How = text.If(own, boulder.LandedFiles)
	}
	switch {
	case how.How == "" && ask:
		answer, err := a.choose(ctx, "Write the results into your files?", "yes", "branch", "later")
		if err == nil {
			how.How = map[string]string{"yes": boulder.LandedFiles, "branch": boulder.LandedBranch}[answer]
		}
	case runErr != nil && !own:
		how.How = "" // what failed may be wanted with it
	}
	if how.How == "" {
		a.note("The results are put together and have not landed: your files are as they were. Land them with `manager land`.")
		return runErr
	}
	if err := a.land(ctx, &b, how); err != nil && runErr == nil {
		return fmt.Errorf("%w\nThe results are kept until `manager land`", err)
	} else if err != nil {
		a.warn("the results are kept until `manager land`: %v", err)
	}
	return runErr
}

// land lands the results of a boulder, and says so.
func (a *app) land(ctx context.Context, b *boulder.Snapshot, how project.Land) error {
	landed, err := a.Land(ctx, b, how)
	if err != nil {
		return fmt.Errorf("land boulder %s: %w", b.Boulder.ID, err)
	}
	if landed.NoPR != nil {
		a.note("No pull request was made: %v\nMake it with `gh pr create --head %s`, or where %s is.", landed.NoPR, landed.Branch, landed.Remote)
	}
	if a.json {
		return writeLines(a.Stdout, []landReport{{"land", b.Boulder.ID, landed.Landed, landed.Files, how.DryRun}})
	}
	for _, f := range landed.Files {
		sign := "write "
		if f.Deleted {
			sign = "delete"
		}
		fmt.Fprintf(a.Stdout, "%s %s\n", sign, f.Path)
	}
	did := map[string]string{
		boulder.LandedFiles:   "in your files",
		boulder.LandedBranch:  "as branch " + landed.Branch + " (commit " + project.Short(landed.Commit) + ")",
		boulder.LandedPR:      "as branch " + landed.Branch + " on " + landed.Remote + " (commit " + project.Short(landed.Commit) + ")",
		boulder.LandedDropped: "nowhere: dropped, and kept for 30 days",
	}[landed.How]
	verb := "Landed"
	if how.DryRun {
		verb = "Would land"
	}
	fmt.Fprintf(a.Stdout, "%s %s. Its gates were green on tree %s.\n", verb, did, project.Short(landed.Tree))
	if landed.PR != "" {
		fmt.Fprintln(a.Stdout, landed.PR)
	}
	return nil
}
