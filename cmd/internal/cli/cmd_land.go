package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/workspace"
)

func (a *app) newLandCmd() *cobra.Command {
	var how project.Land
	undo := false
	cmd := &cobra.Command{
		Use:   "land [flags] [BOULDER]",
		Short: "Bring the results of an isolated boulder to where you want them",
		Long: `Brings the results of a boulder that ran in slots (` + "`manager run --isolate`" + `) into your files, or makes a branch or
a pull request of them: exactly the files that were tested together, merged with what you have changed since. It says whether
all gates were green on them. If anything conflicts, nothing is written, and you see the lines. Then the slots and the refs of
the boulder are removed.

--files --merge writes what does not conflict, and conflict markers with the names of the sub-tasks where it does. A file that
cannot have markers (binary, a link, deleted or moved by one side, converted by a filter, ignored by git) stays as you have it,
and is named. The index is not touched. Nothing has tested the files then. --undo takes all of it back, for 30 days; if you have
edited a file with markers meanwhile, that version is kept in a commit, which is named.

Exit codes: 0 done · 1 refused: a conflict, a red gate, a ref that was moved meanwhile · 2 usage, nothing to land or to undo, or
the branch exists · 4 written with conflicts, which are yours to resolve.`,
		Example: `  manager land --files --dry-run
  manager land --files --merge
  manager land --undo
  manager land --branch dark-mode 01k3
  manager land --pr`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case undo:
				return a.undoLanding(cmd.Context(), cmp.Or(args...), how.DryRun)
			case how.Merge:
				how.How = boulder.LandedFiles
			case how.How != "":
			case how.Branch != "":
				how.How = boulder.LandedBranch
			case how.DryRun:
				how.How = boulder.LandedFiles
			}
			return a.runLand(cmd.Context(), cmp.Or(args...), how)
		},
	}
	f := cmd.Flags()
	constFlag(cmd, &how.How, boulder.LandedFiles, "files", "write them into your files, and leave index and branches alone")
	f.StringVar(&how.Branch, "branch", "", "make branch `NAME` of them")
	constFlag(cmd, &how.How, boulder.LandedPR, "pr",
		"push a branch of them, by default manager/ and the beginning of the task, and make a pull request with gh")
	f.BoolVar(&how.Merge, "merge", false, "with --files: write what does not conflict, and conflict markers where it does")
	f.BoolVar(&undo, "undo", false, "take back what --merge wrote")
	constFlag(cmd, &how.How, boulder.LandedDropped, "drop", "drop them; they are kept under refs/manager/dropped for 30 days")
	f.BoolVar(&how.DryRun, "dry-run", false, "say what would happen")
	f.BoolVar(&how.WithUncommitted, "with-uncommitted", false,
		"with --branch or --pr: publish what you had not committed when the run began, too")
	cmd.MarkFlagsMutuallyExclusive("files", "branch", "drop")
	cmd.MarkFlagsMutuallyExclusive("files", "pr", "drop")
	for _, elsewhere := range []string{"branch", "pr", "drop"} {
		cmd.MarkFlagsMutuallyExclusive("merge", "undo", elsewhere)
	}
	cmd.MarkFlagsMutuallyExclusive("files", "undo")
	return cmd
}

func (a *app) runLand(ctx context.Context, ref string, how project.Land) error {
	var landed project.Landing
	var err error
	if how.How == "" {
		b, readErr := a.project.Snapshot(ctx, ref) // before anything is asked
		if readErr == nil {
			readErr = project.InFiles(&b)
		}
		switch {
		case readErr != nil:
			return readErr
		case !a.interactive():
			return usagef("say where to: --files (into your files), --branch NAME, --pr or --drop; --dry-run shows what would happen")
		}
		landed, how, err = a.landAsked(ctx, &b)
	} else {
		landed, err = a.deliver(ctx, ref, how)
	}
	if err != nil || how.How == "" {
		return err
	}
	return a.printLanding(landed, how.DryRun)
}

// landAsked lands results where the user wants them, or as how.How is "" then, later.
func (a *app) landAsked(ctx context.Context, b *boulder.Snapshot) (landed project.Landing, how project.Land, err error) {
	for question, yes := "Write the results into your files?", "yes"; ; {
		answer, err := a.choose(ctx, question, yes, "diff", "branch", "later")
		switch answer {
		case "yes", "merge":
			how = project.Land{How: boulder.LandedFiles, Merge: answer == "merge"}
		case "branch":
			how = project.Land{How: boulder.LandedBranch}
		case "diff":
			if err := a.showResults(ctx, b); err != nil {
				return landed, how, err
			}
			continue
		default:
			if errors.Is(err, orchestrator.ErrDeclined) {
				err = nil
			}
			return landed, project.Land{}, err
		}
		landed, err = a.deliver(ctx, b.Boulder.ID, how)
		if _, conflicts := errors.AsType[*workspace.ConflictError](err); !conflicts || how.Merge {
			return landed, how, err
		}
		fmt.Fprintf(a.Stderr, "%s\n", text.Safe(err.Error()))
		question, yes = "Write what does not conflict, and conflict markers where it does?", "merge"
	}
}

// showResults prints what would land.
func (a *app) showResults(ctx context.Context, b *boulder.Snapshot) error {
	err := a.project.OpenWorkspace(ctx)
	patch := ""
	if err == nil {
		patch, err = a.project.Patch(ctx, project.Change{From: b.Boulder.Trunk.Base, To: b.Boulder.Trunk.Tip}, "-p")
	}
	if err == nil {
		_, err = io.WriteString(a.Stderr, text.Safe(patch))
	}
	return err
}

// landAtEnd lands the results of a finished run as the configuration says, or as the user answers on a terminal.
// Without a terminal, and if isolation was not asked for, they go into the files as in a run in place. runErr is how
// the run ended.
func (a *app) landAtEnd(ctx context.Context, id string, runErr error) error {
	if id == "" || runErr != nil && !errors.Is(runErr, errPartial) {
		return runErr
	}
	b, err := a.project.Snapshot(ctx, id)
	if err != nil || !b.Boulder.Unlanded() {
		return cmp.Or(runErr, err)
	}
	how, own, ask := project.Land{}, false, a.interactive()
	switch configured := a.project.Config().Land; configured {
	case "":
		own = !ask && b.Boulder.Isolation == boulder.IsolationAuto
		how.How = text.If(own, boulder.LandedFiles)
	case project.LandAsk:
	default:
		how.How = string(configured)
	}
	var landed project.Landing
	switch {
	case how.How == "" && ask:
		if landed, how, err = a.landAsked(ctx, &b); how.How == "" {
			err = nil // no answer
		}
	case runErr != nil && !own:
		how.How = "" // the user may want to complete a partial result first
	case how.How != "":
		landed, err = a.deliver(ctx, id, how)
	}
	if how.How == "" {
		if b, err := a.project.Snapshot(context.WithoutCancel(ctx), id); err == nil && !b.Boulder.Unlanded() { // landed elsewhere
			return runErr
		}
		a.note("The results are integrated and have not landed: your files are as they were. Land them with `manager land --files %s`.", boulder.ShortID(id))
		return runErr
	}
	switch {
	case err != nil && runErr == nil:
		return fmt.Errorf("%w\nThe results are kept until `manager land --files %s`, or --branch", err, boulder.ShortID(id))
	case err != nil:
		a.warn("the results are kept until `manager land --files %s`: %v", boulder.ShortID(id), err)
	case a.json: // the stream of events goes on
		r, err := project.Look(ctx, a.project, id, a.project.Recent)
		if err != nil {
			return cmp.Or(runErr, err)
		}
		for _, e := range slices.Backward(r.Events) {
			if _, ok := e.Body.(boulder.Landed); ok {
				return cmp.Or(a.printJSON(e.Shown()), runErr)
			}
		}
	default:
		return cmp.Or(runErr, a.printLanding(landed, false))
	}
	return runErr
}

func (a *app) deliver(ctx context.Context, ref string, how project.Land) (project.Landing, error) {
	landed, err := a.project.Land(ctx, ref, how)
	id := landed.Of.Boulder.ID
	switch {
	case id == "":
		return landed, err
	case errors.Is(err, workspace.ErrConflict) && how.How == boulder.LandedFiles:
		conflict, is := errors.AsType[*workspace.ConflictError](err)
		if !is || how.Merge {
			return landed, fmt.Errorf("land boulder %s: %w: use --branch", boulder.ShortID(id), err)
		}
		return landed, fmt.Errorf("land boulder %s: %w\n\n%s\nWrite what does not conflict, and conflict markers where it does: manager land --files --merge %[1]s"+
			"\nOr make a branch of all of it, which git can merge: manager land --branch NAME %[1]s", boulder.ShortID(id), err, view.Conflicts(conflict.Conflicts))
	case err != nil:
		return landed, fmt.Errorf("land boulder %s: %w", boulder.ShortID(id), err)
	}
	if landed.NoPR != nil {
		a.note("No pull request was made: %v\nMake it with `gh pr create --head %s`, or where %s is.", landed.NoPR, landed.Branch, landed.Remote)
	}
	switch sign := fmt.Sprintf("git rebase --exec 'git commit --amend --no-edit -S' %s %s", project.Short(landed.Of.Boulder.Base), landed.Branch); {
	case !landed.Unsigned:
	case how.DryRun:
		a.note("The commits would not be signed, although commit.gpgsign is set.")
	case how.How == boulder.LandedPR: // signed commits are others, and replace those that were pushed
		a.note("The commits are not signed, although commit.gpgsign is set. Sign them, and replace what was pushed, with: %s && git push --force-with-lease %s %s",
			sign, landed.Remote, landed.Branch)
	default:
		a.note("The commits are not signed, although commit.gpgsign is set. Sign them with: %s", sign)
	}
	return landed, nil
}

func (a *app) printLanding(landed project.Landing, dryRun bool) error {
	b := &landed.Of
	if a.json {
		return cmp.Or(a.printJSON(view.NewLand(&landed, dryRun)), marred(&landed, dryRun))
	}
	for _, f := range landed.Files {
		fmt.Fprintf(a.Stdout, "%s %s\n", cmp.Or(text.If(f.Deleted, "delete"), "write "), text.OneLine(f.Path))
	}
	if landed.How == boulder.LandedUndone {
		a.printUndone(&landed, dryRun)
		return nil
	}
	if landed.Marred() > 0 {
		fmt.Fprint(a.Stdout, view.Conflicts(landed.Merged))
		if len(landed.Left) > 0 {
			fmt.Fprintf(a.Stdout, "What the results have in place of a file that stays as you have it is in commit %s: git show %[1]s:PATH\n", project.Short(landed.Commit))
		}
		if !dryRun {
			return marred(&landed, false)
		}
		fmt.Fprintf(a.Stdout, "Would be written into your files with %s. %s\n", text.Plural(landed.Marred(), "conflict"), landed.Tested(""))
		return nil
	}
	did := map[string]string{
		boulder.LandedFiles:  "in your files",
		boulder.LandedBranch: "as branch " + landed.Branch + " (commit " + project.Short(landed.Commit) + ")",
		boulder.LandedPR:     "as branch " + landed.Branch + " on " + landed.Remote + " (commit " + project.Short(landed.Commit) + ")",
	}[landed.How]
	verb := "Landed"
	if dryRun {
		verb = "Would land"
	}
	if landed.How == boulder.LandedDropped {
		fmt.Fprintf(a.Stdout, "%s for 30 days under refs/manager/dropped/%s.\n", map[bool]string{true: "Would be kept", false: "Dropped, and kept"}[dryRun], b.Boulder.ID)
		return nil
	}
	fmt.Fprintf(a.Stdout, "%s %s. %s\n", verb, did, landed.Tested(project.Short(landed.Tree)))
	if landed.PR != "" {
		fmt.Fprintln(a.Stdout, landed.PR)
	}
	return nil
}

// errMarred: results were written with conflicts, which wait for the user.
var errMarred = errors.New("written into your files with conflicts")

// marred returns the [errMarred] of a landing, if it has conflicts.
func marred(l *project.Landing, dryRun bool) error {
	if l.How != boulder.LandedFiles || l.Marred() == 0 || dryRun {
		return nil
	}
	return fmt.Errorf("%w (%d): nothing has tested the files as they are now. Resolve them%s, or take all of it back with: manager land --undo %s",
		errMarred, l.Marred(), text.Prefixed(" in ", text.OneLine(strings.Join(l.Conflicts, ", "))), boulder.ShortID(l.Of.Boulder.ID))
}

func (a *app) undoLanding(ctx context.Context, ref string, dryRun bool) error {
	landed, err := a.project.UndoLanding(ctx, ref, dryRun)
	switch id := landed.Of.Boulder.ID; {
	case id == "":
		return err
	case errors.Is(err, workspace.ErrConflict):
		return fmt.Errorf("undo the landing of boulder %s: %w\n\n%s", boulder.ShortID(id), err, undoAdvice(landed.Of.Boulder.Trunk.Landed, err))
	case err != nil:
		return fmt.Errorf("undo the landing of boulder %s: %w", boulder.ShortID(id), err)
	}
	return a.printLanding(landed, dryRun)
}

// undoAdvice says what helps an undo that is refused.
func undoAdvice(landed *boulder.Landed, err error) string {
	switch conflict, ok := errors.AsType[*workspace.ConflictError](err); {
	case !ok:
		return "See to that, then undo again."
	case !conflict.Edits():
		return view.Conflicts(conflict.Conflicts) + "Then undo again."
	default:
		return fmt.Sprintf("You have edited there since. Keep your version elsewhere, bring back what landed, and undo again: git show %s:%s",
			project.Short(landed.Written), text.OneLine(conflict.Conflicts[0].Path))
	}
}

func (a *app) printUndone(l *project.Landing, dryRun bool) {
	for _, name := range l.Conflicts {
		fmt.Fprintf(a.Stdout, "%s goes back, too, although you have edited it since%s\n", text.OneLine(name),
			text.If(!dryRun, fmt.Sprintf("; your version: git show %s:%s", project.Short(l.Written), text.OneLine(name))))
	}
	fmt.Fprintf(a.Stdout, "%s, and the results can land again: manager land %s\n",
		map[bool]string{true: "Would be taken out of your files", false: "Taken out of your files"}[dryRun], boulder.ShortID(l.Of.Boulder.ID))
}

func (a *app) newDiffCmd() *cobra.Command {
	how := "-p"
	cmd := &cobra.Command{
		Use:   "diff [flags] [SUBTASK | BOULDER [SUBTASK]]",
		Short: "Show what each sub-task changed",
		Long: `Prints as a patch what a sub-task changed; without SUBTASK what each did, below a line that names it.

Of an isolated run that is its commit on the tip, or with SUBTASK what it has in its slot so far. Without SUBTASK what is
not on the tip is left out. In place it is what changed from its start to the end of its newest turn. If others were at
work meanwhile, only the files that it was seen to write are shown, with what others wrote into the same files.`,
		Example: `  manager diff --stat
  manager diff toggle | git apply -R`,
		Args: argCount(0, 2, "one SUBTASK of `manager status`, a BOULDER, or both"),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := a.ofBoulder(cmd.Context(), args, len(args) == 2)
			if err != nil {
				return err
			}
			return a.runDiff(cmd.Context(), cmp.Or(args...), how)
		},
	}
	a.boulderFlag(cmd, "the active one")
	constFlag(cmd, &how, "--stat", "stat", "how many lines of which files")
	constFlag(cmd, &how, "--name-only", "name-only", "the files alone")
	cmd.MarkFlagsMutuallyExclusive("stat", "name-only")
	return cmd
}

type diffReport struct {
	Type      string `json:"type"` // diff
	BoulderID string `json:"boulder_id"`
	SubTaskID string `json:"sub_task_id"`
	From      string `json:"from"`
	To        string `json:"to"`
	OnTip     bool   `json:"on_tip"`
	Diff      string `json:"diff"`
}

func (a *app) runDiff(ctx context.Context, subTask, how string) error {
	if err := a.project.OpenWorkspace(ctx); err != nil {
		return err
	}
	b, err := project.Look(ctx, a.project, a.ref, a.project.Whole)
	of := &boulder.SubTask{} // an empty id means all
	if err == nil && subTask != "" {
		of, err = findSubTask(b.Snapshot, subTask)
	}
	if err != nil {
		return err
	}
	if how == "-p" && (a.json || !terminal(a.Stdout)) {
		how = "--binary" // so that git apply takes it
	}
	changes, err := project.Changes(&b.Snapshot, b.Events, of.ID)
	if err != nil {
		return err
	}
	var reports []diffReport
	for _, c := range changes {
		out, err := a.project.Patch(ctx, c, how)
		if err != nil {
			return fmt.Errorf("sub-task %q of boulder %s: %w", c.SubTask.ID, boulder.ShortID(b.Boulder.ID), err)
		}
		if c.Files != nil {
			a.note("Others were at work at the same time as %s: only the files that it was seen to write are shown.", c.SubTask.ID)
		}
		reports = append(reports, diffReport{"diff", b.Boulder.ID, c.SubTask.ID, c.From, c.To, c.OnTip, out})
	}
	switch {
	case a.json:
		return writeLines(a.Stdout, reports)
	case len(reports) == 0 && a.project.NoDiffs() != "":
		a.note("What was changed is not known: %s. What each sub-task says of it: manager report %s", a.project.NoDiffs(), boulder.ShortID(b.Boulder.ID))
	case len(reports) == 0:
		a.note("Nothing has been changed yet.")
	}
	for i, r := range reports {
		if subTask == "" {
			fmt.Fprintf(a.Stdout, "%s# %d. %s (%s)\n", text.If(i > 0, "\n"), changes[i].SubTask.Position,
				text.OneLine(changes[i].SubTask.Subject), r.SubTaskID)
		}
		if terminal(a.Stdout) {
			r.Diff = text.Safe(r.Diff)
		}
		if _, err := io.WriteString(asIs(a.Stdout), r.Diff); err != nil {
			return err
		}
	}
	return nil
}
