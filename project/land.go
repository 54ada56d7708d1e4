package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/workspace"
)

const keepDropped = 30 * 24 * time.Hour

// Land says where the results of an isolated boulder go.
type Land struct {
	How             string // [boulder.LandedFiles], [boulder.LandedBranch], [boulder.LandedPR] or [boulder.LandedDropped]
	Branch          string // defaults to manager/ and the beginning of the task
	DryRun          bool
	WithUncommitted bool // a branch may include what was not committed when the run began
	Merge           bool // files that conflict get conflict markers, instead of keeping all from landing
}

// Landing is the outcome of [Project.Land].
type Landing struct {
	boulder.Landed
	Of    boulder.Snapshot   // the boulder before landing
	Green bool               // all gates are known to pass on Tree
	Files []workspace.Change // of [boulder.LandedFiles] and [boulder.LandedUndone]
	// Merged are the conflicts of a landing with [Land].Merge.
	Merged []workspace.Conflict
	Remote string // to which [boulder.LandedPR] pushes
	NoPR   error  // why no pull request was made
	// Unsigned: the commits of the branch are not signed, although the user's git signs.
	Unsigned bool
}

// Tested says in a sentence what the gates have shown. tree is the name of the tree in it.
func (l *Landing) Tested(tree string) string {
	has := func(t *boulder.SubTask) bool { return len(t.Gates)+len(t.NoWorse) > 0 }
	switch {
	case l.Marred() > 0:
		return "Nothing has tested the files as they are now."
	case !slices.ContainsFunc(l.Of.SubTasks, has) && len(l.Of.Boulder.IntegrationGates) == 0:
		return "No gate has tested tree " + tree + "."
	case !l.Green:
		return "Not all of its gates are known to be green on tree " + tree + "."
	}
	return "Its gates were green on tree " + tree + "."
}

// Land brings the results of a finished boulder to where the user wants them, records that in its log, and removes its
// slots and refs. A conflict or a red gate is an error and changes nothing, unless [Land].Merge has conflicts written. It may
// be called again after a crash.
func (p *Project) Land(ctx context.Context, ref string, how Land) (l Landing, err error) {
	if err := p.lockFiles(ctx); err != nil {
		return l, err
	}
	defer p.filesMu.Unlock()
	if l.Of, err = p.Snapshot(ctx, ref); err != nil { // under the lock, so that it is up to date
		return l, err
	}
	if err := p.landable(ctx, &l.Of, how); err != nil {
		return l, err
	}
	line := &l.Of.Boulder.Trunk
	if line.Tip != line.Base {
		if err := p.slots().MoveTip(ctx, l.Of.Boulder.ID, line.Before, line.Tip); err != nil {
			return l, err
		}
	}
	if how.How != boulder.LandedFiles && !how.DryRun { // a landing in the files that was interrupted is not wanted any more
		if err := p.slots().PutBack(ctx, line.Base, line.Tip); err != nil {
			return l, err
		}
	}
	l.How, l.Commit = how.How, line.Tip
	tested := p.testedTip(ctx, &l.Of, how)
	if err = p.deliver(ctx, &l, how); err == nil {
		l.Tree, err = p.slots().Tree(ctx, l.Commit)
	}
	l.Green = l.Commit != line.Tip || tested // branchCommit has tested any other commit
	switch {
	case errors.Is(err, workspace.ErrBranch):
		return l, &UsageError{Err: err}
	case err != nil || how.DryRun:
		return l, err
	case how.How == boulder.LandedPR:
		l.PR, l.NoPR = p.pullRequest(ctx, &l.Of, &l)
	}
	if err = p.recordLanding(ctx, &l); err == nil {
		err = p.free(ctx, &l.Of, &l.Landed)
	}
	return l, err
}

// InFiles returns an error if the results of a boulder are in the user's files already, since it worked there.
func InFiles(b *boulder.Snapshot) error {
	head := &b.Boulder
	if head.Isolated() {
		return nil
	}
	return usagef("boulder %s worked in your files: what it did is in them already, and there is nothing to land%s", boulder.ShortID(head.ID),
		text.If(head.Trunk.InPlace != "", " (why there: "+head.Trunk.InPlace+")"))
}

// landable returns an error if the results of a boulder cannot land. What a crash left of a landing is removed.
func (p *Project) landable(ctx context.Context, b *boulder.Snapshot, how Land) error {
	head := &b.Boulder
	switch line := head.Trunk; {
	case !head.Isolated():
		return InFiles(b)
	case !head.Status.Terminal():
		return usagef("boulder %s is %s, and only what is over can land: wait for its end (`manager wait %[1]s`), continue it if nothing runs it (`manager resume %[1]s`),"+
			" or end it with `manager cancel -b %[1]s`", boulder.ShortID(head.ID), head.Status)
	case line.Landed != nil:
		if err := p.free(ctx, b, line.Landed); err != nil { // a crash may have interrupted it
			return err
		}
		if n := line.Landed.Marred(); n > 0 {
			return usagef("its results were written into your files, with %s; `manager land --undo %s` takes that back", text.Plural(n, "conflict"), boulder.ShortID(head.ID))
		}
		return usagef("its results have landed, or were dropped, already")
	case line.Tip == line.Base && how.How != boulder.LandedDropped:
		return usagef("it has no results")
	case !p.slots().Has(ctx, line.Tip):
		return usagef("boulder %s cannot land here: its results are commit %s, which this project does not have; an export leaves"+
			" commits out: land it where it ran", boulder.ShortID(head.ID), Short(line.Tip))
	}
	return nil
}

// deliver puts the results where they go, and notes in l where that is.
func (p *Project) deliver(ctx context.Context, l *Landing, how Land) (err error) {
	b := &l.Of
	switch line := &b.Boulder.Trunk; how.How {
	case boulder.LandedFiles:
		if !how.Merge {
			l.Files, err = p.slots().LandFiles(ctx, line.Base, line.Tip, how.DryRun)
			return err
		}
		merged, err := p.slots().MergeFiles(ctx, b.Boulder.ID, line.Base, line.Tip, how.DryRun)
		l.Files, l.Merged, l.Written = merged.Changes, merged.Conflicts, merged.Written
		for _, c := range merged.Conflicts {
			to := &l.Conflicts
			if c.Why != "" {
				to = &l.Left
			}
			*to = append(*to, c.Path)
		}
		return err
	case boulder.LandedBranch, boulder.LandedPR:
		how.Branch = cmp.Or(how.Branch, branchOf(&b.Boulder))
		l.Branch = how.Branch
		l.Commit, err = p.branchCommit(ctx, b, how)
		if err == nil {
			err = p.slots().Branch(ctx, how.Branch, l.Commit, true)
		}
		if err == nil && how.How == boulder.LandedPR {
			l.Remote, err = p.push(ctx, l.Commit, how)
		}
		if err == nil && !how.DryRun {
			err = p.slots().Branch(ctx, how.Branch, l.Commit, false)
		}
		if err == nil {
			l.Unsigned, err = p.slots().WantsSigned(ctx)
		}
	}
	return err
}

func (p *Project) recordLanding(ctx context.Context, l *Landing) error {
	return p.Steer(ctx, func(d *Access) error {
		return d.Orders.Order(ctx, l.Of.Boulder.ID, boulder.Order{Do: boulder.OrderLanded, Landed: &l.Landed})
	})
}

// UndoLanding takes back what [Project.Land] wrote into the user's files with conflicts, all of it or nothing, after which
// the results can land again. Conflicts of the outcome are files with markers that the user has edited since: Written has
// them as they were. It may be called again after a crash.
func (p *Project) UndoLanding(ctx context.Context, ref string, dryRun bool) (l Landing, err error) {
	if err := p.lockFiles(ctx); err != nil {
		return l, err
	}
	defer p.filesMu.Unlock()
	if l.Of, err = p.Snapshot(ctx, ref); err != nil {
		return l, err
	}
	head := &l.Of.Boulder
	was := head.Trunk.Landed
	if was == nil || was.Marred() == 0 {
		return l, usagef("its results were not written into your files with conflicts: there is nothing to undo")
	}
	if !dryRun {
		if err := p.slots().TakeUp(ctx, head.ID); err != nil {
			return l, err
		}
	}
	merged, err := p.slots().UndoMerge(ctx, head.ID, was.Written, was.Conflicts, dryRun)
	l.Landed = boulder.Landed{How: boulder.LandedUndone, Commit: was.Commit, Tree: was.Tree, Written: merged.Written}
	l.Files, l.Merged = merged.Changes, merged.Conflicts
	for _, c := range merged.Conflicts {
		l.Conflicts = append(l.Conflicts, c.Path)
	}
	if err == nil && !dryRun {
		err = p.recordLanding(ctx, &l)
	}
	return l, err
}

// checkMarkers returns an error if the user's files have conflict markers of a landing: what begins with them builds on them.
func (p *Project) checkMarkers(ctx context.Context) error {
	if p.files.Load() == nil {
		return nil // not needed so far, and not opened for this
	}
	found, err := p.slots().Unresolved(ctx)
	if err != nil || len(found) == 0 {
		return err
	}
	id := slices.Min(slices.Collect(maps.Keys(found)))
	return usagef("conflict markers, with which boulder %s landed, are in %s, and what begins now would build on them: resolve them"+
		" there, or take them out with `manager land --undo %[1]s`", boulder.ShortID(id), text.First(5, found[id]))
}

// testedTip reports whether all gates are known to be green on the tip. They run now if it was tested only with results that
// a redo took off.
func (p *Project) testedTip(ctx context.Context, b *boulder.Snapshot, how Land) bool {
	tip := b.Boulder.Trunk.Tip
	part := slices.ContainsFunc(b.SubTasks, func(t *boulder.SubTask) bool { return t.Integrated == tip && t.TestedWith != "" })
	if b.Green() || !part || how.DryRun || how.How == boulder.LandedDropped {
		return b.Green()
	}
	return p.testCommit(ctx, b, tip) == nil
}

// branchCommit returns the commit for a branch with the results. Unless how includes uncommitted changes of the user,
// the results are applied to the commit that was HEAD when the run began, and are tested again there.
func (p *Project) branchCommit(ctx context.Context, b *boulder.Snapshot, how Land) (commit string, err error) {
	line := b.Boulder.Trunk
	commit = line.Tip
	if err := p.slots().CheckBranch(ctx, how.Branch); err != nil {
		return "", err
	}
	if line.Base != b.Boulder.Base && !how.WithUncommitted {
		if commit, err = p.slots().Onto(ctx, line.Base, line.Tip, b.Boulder.Base); err == nil {
			err = p.testCommit(ctx, b, commit)
		}
		if err != nil {
			return "", fmt.Errorf("without what was not committed when the run began the results do not hold: %w"+
				" (--with-uncommitted publishes that too)", err)
		}
	}
	return commit, nil
}

var noSlug = text.Regexp(`[^a-z0-9]+`)

func branchOf(b *boulder.Boulder) string {
	slug := strings.Trim(noSlug().ReplaceAllString(strings.ToLower(b.Task), "-"), "-")
	return "manager/" + cmp.Or(strings.TrimRight(slug[:min(len(slug), 40)], "-"), b.ID)
}

// runAsUser runs a command with the user's environment, credentials and hooks, since git-lfs pushes in a hook.
func (p *Project) runAsUser(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	said := &text.LastBytes{Limit: 4 << 10}
	cmd.Dir, cmd.Env, cmd.Stderr = p.dir, append(slices.Clip(p.opts.Environ), "GH_PROMPT_DISABLED=1"), said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w%s", name, args[0], err, text.Prefixed(": ", strings.TrimSpace(said.String())))
	}
	return strings.TrimSpace(string(out)), err
}

// push pushes a commit as a new branch to the user's remote, which it returns. A branch that is at that commit already
// is left alone. A branch at another commit is an error that wraps [workspace.ErrBranch].
func (p *Project) push(ctx context.Context, commit string, how Land) (remote string, err error) {
	remotes, err := p.runAsUser(ctx, "git", "remote")
	if err != nil {
		return "", err
	}
	remote, _ = p.runAsUser(ctx, "git", "config", "remote.pushDefault") // fails if it is not set
	switch all := strings.Fields(remotes); {
	case remote != "":
	case slices.Contains(all, "origin"):
		remote = "origin"
	case len(all) == 1:
		remote = all[0]
	default:
		return "", errors.New("it is not clear where to push: add a remote `origin`, or set remote.pushDefault in git's configuration")
	}
	ref := "refs/heads/" + how.Branch
	there, err := p.runAsUser(ctx, "git", "ls-remote", "--", remote, ref)
	if at, _, _ := strings.Cut(there, "\t"); err == nil && at != "" && at != commit {
		err = fmt.Errorf("%w: %s has %s, at %s: give another name", workspace.ErrBranch, remote, how.Branch, at)
	}
	if err == nil && !how.DryRun {
		_, err = p.runAsUser(ctx, "git", "push", "--quiet", "--force-with-lease="+ref+":", "--", remote, commit+":"+ref)
	}
	return remote, err
}

// pullRequest creates a pull request for a pushed branch with gh, and returns its URL.
func (p *Project) pullRequest(ctx context.Context, b *boulder.Snapshot, l *Landing) (string, error) {
	body := b.Boulder.Task + "\n"
	for _, t := range b.SubTasks {
		if t.Integrated != "" {
			body += "\n- " + text.OneLine(t.Subject)
		}
	}
	body += "\n\n" + l.Tested(l.Tree)
	out, err := p.runAsUser(ctx, "gh", "pr", "create", "--head="+l.Branch,
		"--title="+p.secrets.Text(text.Clip(b.Boulder.Task, 70)), "--body="+p.secrets.Text(body))
	return out[strings.LastIndex(out, "\n")+1:], err
}

// testCommit runs all gates on a commit: those that [boulder.Snapshot.Green] wants.
func (p *Project) testCommit(ctx context.Context, b *boulder.Snapshot, commit string) error {
	at := p.gatesAt(&b.Boulder, commit)
	test := func(line string, of *boulder.SubTask) error {
		g, err := at(ctx, line)
		if err != nil {
			return err
		}
		if of != nil && of.MayStayRed(line) {
			g.NoWorse = executor.NoWorse(boulder.GateOf(of.Baseline, line), g)
		}
		if !g.Holds() {
			return fmt.Errorf("the gate `%s` is red there (%s):\n%s", line, g.End(), g.Output)
		}
		return nil
	}
	for _, t := range b.SubTasks {
		if t.Status != boulder.SubTaskCompleted {
			continue
		}
		for _, line := range slices.Concat(t.Gates, t.NoWorse) {
			if err := test(line, t); err != nil {
				return err
			}
		}
	}
	for _, line := range b.Boulder.IntegrationGates {
		if err := test(line, nil); err != nil {
			return err
		}
	}
	return nil
}

// free removes the slots and refs of a landed boulder, and the refs of boulders that landed or were dropped before
// keepDropped. What an undo needs is kept as long.
func (p *Project) free(ctx context.Context, b *boulder.Snapshot, landed *boulder.Landed) error {
	if p.NoDiffs() != "" { // imported: slots and refs are elsewhere
		return nil
	}
	if err := p.slots().EndLanding(b.Boulder.Trunk.Base, b.Boulder.Trunk.Tip); err != nil {
		return err
	}
	gone := landed.How != boulder.LandedDropped && landed.Marred() == 0
	if landed.Marred() > 0 {
		if err := p.slots().SetAside(ctx, b.Boulder.ID); err != nil {
			return err
		}
	}
	err := p.slots().Free(ctx, b.Boulder.ID, b.Boulder.Trunk.Base, gone, func(id string) bool {
		return landed.How != boulder.LandedDropped && slices.ContainsFunc(b.SubTasks, func(t *boulder.SubTask) bool {
			return t.ID == id && t.Integrated != ""
		})
	})
	if err != nil {
		return err
	}
	there, err := p.Read(ctx)
	if err != nil {
		return err
	}
	defer there.Close()
	return p.slots().Forget(ctx, func(id string) bool {
		old, err := there.Get(ctx, id)
		at := old.Boulder.Trunk.LandedAt
		return err == nil && !at.IsZero() && time.Since(at) > keepDropped
	})
}
