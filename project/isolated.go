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

// Slots adapts the slots of a workspace to the executor.
type Slots struct{ *workspace.Slots }

// Prepare implements executor.Slots.
func (s Slots) Prepare(ctx context.Context, c boulder.SlotClaim) (executor.Slot, error) {
	slot, err := s.Slots.Prepare(ctx, c)
	if err != nil {
		return nil, err
	}
	return slot, nil
}

// LikeProject implements executor.Slots.
func (s Slots) LikeProject(ctx context.Context, c boulder.SlotClaim) (executor.Slot, func() error, string, error) {
	like, remove, why, err := s.Slots.LikeProject(ctx, c)
	if err != nil || like == nil {
		return nil, nil, why, err
	}
	return like, remove, "", nil
}

func (p *Project) setUp() *workspace.SetUp {
	c := p.cfg.Slots
	run := func(ctx context.Context, dir string, env []string, line string) boulder.Gate {
		p.note("Setting up a slot: %s", p.secrets.Text(line))
		return p.runCommand(ctx, dir, env, line)
	}
	return &workspace.SetUp{Copy: c.Copy, Commands: c.Setup, When: c.SetupWhen, Env: c.Environ(), Run: run}
}

// runCommand runs a configured command as gates run. env adds to the usual environment.
func (p *Project) runCommand(ctx context.Context, dir string, env []string, line string) boulder.Gate {
	usual, err := p.environ()
	if err != nil {
		return boulder.Gate{Command: line, ExitCode: -1, Output: err.Error()}
	}
	timeout := cmp.Or(p.cfg.GateTimeout, executor.DefaultGateTimeout)
	return executor.RunCommand(ctx, dir, slices.Concat(usual, env), line, timeout, p.secrets.Text)
}

// TakeBack implements executor.Slots.
func (s Slots) TakeBack(ctx context.Context, change boulder.TreeChange) error {
	_, err := s.Slots.TakeBack(ctx, change.From, change.To, false)
	return err
}

// isolate decides whether a new boulder works in slots, and creates the commit at which they begin. The request
// overrides the plan, and the plan the configuration. If slots are not possible, the user is told why it runs in
// place.
func (p *Project) isolate(ctx context.Context, req *Request) (err error) {
	var plan boulder.Plan
	if req.Plan != nil {
		plan = *req.Plan
	}
	req.Isolation = cmp.Or(req.Isolation, p.isolation(&plan))
	req.Scope = cmp.Or(plan.Scope, p.cfg.Scope)
	req.Generated = map[string]string{ // built in
		"go.sum": "go mod tidy", "package-lock.json": "npm install --package-lock-only --ignore-scripts",
		"pnpm-lock.yaml": "pnpm install --lockfile-only", "Cargo.lock": "cargo update --workspace", "uv.lock": "uv lock",
		"poetry.lock": "poetry lock",
	}
	maps.Copy(req.Generated, p.cfg.Generated)
	maps.Copy(req.Generated, plan.Generated)
	req.IntegrationGates = p.cfg.IntegrationGates
	if len(plan.IntegrationGates) > 0 {
		req.IntegrationGates = plan.IntegrationGates
	}
	if req.Isolation != boulder.IsolationAlways && req.Isolation != boulder.IsolationAuto || req.Loop != nil {
		return nil
	}
	for _, s := range plan.SubTasks {
		if req.Isolation == boulder.IsolationAlways && boulder.ReservedID(s.ID) {
			return usagef("sub-tasks of an isolated run cannot be called %q: give it another id in the plan, or run it with --in-place", s.ID)
		}
	}
	req.InPlace, err = p.slots().Unsupported(ctx)
	switch {
	case err != nil:
		return err
	case req.InPlace != "" && req.Isolation == boulder.IsolationAlways:
		p.warn("the sub-tasks work in place, without slots: %s", req.InPlace)
	case req.InPlace != "" && p.NoDiffs() == "": // else the note about missing diffs gives the same reason
		p.note("The sub-tasks work in place: %s.", req.InPlace)
	}
	if req.InPlace != "" {
		return nil
	}
	req.SlotBase, err = p.slots().Base(ctx, req.CleanBase, time.Now())
	return err
}

const keepDropped = 30 * 24 * time.Hour

// Land says where the results of an isolated boulder go.
type Land struct {
	How             string // [boulder.LandedFiles], [boulder.LandedBranch], [boulder.LandedPR] or [boulder.LandedDropped]
	Branch          string // defaults to manager/ and the beginning of the task
	DryRun          bool
	WithUncommitted bool // a branch may include what was not committed when the run began
}

// Landing is the outcome of [Project.Land].
type Landing struct {
	boulder.Landed
	Of     boulder.Snapshot   // the boulder before landing
	Green  bool               // all gates are known to pass on Tree
	Files  []workspace.Change // of [boulder.LandedFiles]
	Remote string             // to which [boulder.LandedPR] pushes
	NoPR   error              // why no pull request was made
	// Unsigned: the commits of the branch are not signed, although the user's git signs.
	Unsigned bool
}

// Tested says in a sentence what the gates have shown. tree is the name of the tree in it.
func (l *Landing) Tested(tree string) string {
	has := func(t *boulder.SubTask) bool { return len(t.Gates)+len(t.NoWorse) > 0 }
	switch {
	case !slices.ContainsFunc(l.Of.SubTasks, has) && len(l.Of.Boulder.IntegrationGates) == 0:
		return "No gate has tested tree " + tree + "."
	case !l.Green:
		return "Not all of its gates are known to be green on tree " + tree + "."
	}
	return "Its gates were green on tree " + tree + "."
}

// Land brings the results of a finished boulder to where the user wants them, records that in its log, and removes its
// slots and refs. A conflict or a red gate is an error and changes nothing. It may be called again after a crash.
func (p *Project) Land(ctx context.Context, ref string, how Land) (l Landing, err error) {
	if err := p.lockFiles(ctx); err != nil {
		return l, err
	}
	defer p.filesMu.Unlock()
	l.Of, err = p.Snapshot(ctx, ref) // under the lock, so that it is up to date
	b, head := &l.Of, &l.Of.Boulder
	switch line := head.Trunk; {
	case err != nil:
		return l, err
	case !head.Isolated():
		return l, usagef("boulder %s worked in place%s: there is nothing to land", head.ID, text.Prefixed(", because ", head.Trunk.InPlace))
	case !head.Status.Terminal():
		return l, usagef("boulder %s is %s, and only what is over can land: wait for its end (`manager wait %[1]s`), continue it if nothing runs it (`manager resume %[1]s`),"+
			" or end it with `manager cancel -b %[1]s`", head.ID, head.Status)
	case line.Landed != nil:
		if err := p.free(ctx, b, line.Landed.How); err != nil { // a crash may have interrupted it
			return l, err
		}
		return l, usagef("its results have landed, or were dropped, already")
	case line.Tip == line.Base && how.How != boulder.LandedDropped:
		return l, usagef("it has no results")
	case !p.slots().Has(ctx, line.Tip):
		return l, usagef("boulder %s cannot land here: its results are commit %s, which this project does not have; an export leaves"+
			" commits out: land it where it ran", head.ID, Short(line.Tip))
	}
	tip := head.Trunk.Tip
	if tip != head.Trunk.Base {
		if err := p.slots().MoveTip(ctx, head.ID, head.Trunk.Before, tip); err != nil {
			return l, err
		}
	}
	if how.How != boulder.LandedFiles && !how.DryRun { // a landing in the files that was interrupted is not wanted any more
		if err := p.slots().PutBack(ctx, head.Trunk.Base, tip); err != nil {
			return l, err
		}
	}
	l.How, l.Commit = how.How, tip
	switch how.How {
	case boulder.LandedFiles:
		l.Files, err = p.slots().LandFiles(ctx, head.Trunk.Base, tip, how.DryRun)
	case boulder.LandedBranch, boulder.LandedPR:
		how.Branch = cmp.Or(how.Branch, branchOf(head))
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
	if err == nil {
		l.Tree, err = p.slots().Tree(ctx, l.Commit)
	}
	l.Green = l.Commit != tip || b.Green() // branchCommit has tested any other commit
	switch {
	case errors.Is(err, workspace.ErrBranch):
		return l, &UsageError{Err: err}
	case err != nil || how.DryRun:
		return l, err
	case how.How == boulder.LandedPR:
		l.PR, l.NoPR = p.pullRequest(ctx, b, &l)
	}
	err = p.Steer(ctx, func(d *Access) error {
		return d.Orders.Order(ctx, head.ID, boulder.Order{Do: boulder.OrderLanded, Landed: &l.Landed})
	})
	if err == nil {
		err = p.free(ctx, b, how.How)
	}
	return l, err
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

// testCommit runs all gates on a commit.
func (p *Project) testCommit(ctx context.Context, b *boulder.Snapshot, commit string) error {
	var commands []string
	for _, t := range b.SubTasks {
		if t.Status == boulder.SubTaskCompleted {
			commands = append(commands, t.Gates...)
		}
	}
	at := p.gatesAt(&b.Boulder, commit)
	for _, line := range slices.Concat(commands, b.Boulder.IntegrationGates) {
		if g, err := at(ctx, line); err != nil {
			return err
		} else if !g.Green() {
			return fmt.Errorf("the gate `%s` is red there (%s):\n%s", line, g.End(), g.Output)
		}
	}
	return nil
}

// free removes the slots and refs of a landed boulder, and the refs of boulders that were dropped before keepDropped.
func (p *Project) free(ctx context.Context, b *boulder.Snapshot, how string) error {
	if p.NoDiffs() != "" { // imported: slots and refs are elsewhere
		return nil
	}
	if err := p.slots().EndLanding(b.Boulder.Trunk.Base, b.Boulder.Trunk.Tip); err != nil {
		return err
	}
	err := p.slots().Free(ctx, b.Boulder.ID, b.Boulder.Trunk.Base, how != boulder.LandedDropped, func(id string) bool {
		return how != boulder.LandedDropped && slices.ContainsFunc(b.SubTasks, func(t *boulder.SubTask) bool {
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

// Change is what one sub-task changed.
type Change struct {
	SubTask  *boulder.SubTask
	From, To string   // commits, or snapshots if it worked in place
	Files    []string // only these are shown; nil: all
	OnTip    bool     // part of the results of an isolated boulder
}

// Changes returns the change of each sub-task: the commits on the line of an isolated boulder, in order, else what each
// changed in place. only selects one sub-task, with what its slot holds so far; that it has no change is an error then.
func Changes(b *boulder.Snapshot, events []boulder.Event, only string) (all []Change, err error) {
	byID := map[string]*boulder.SubTask{}
	for _, t := range b.SubTasks {
		byID[t.ID] = t
		c := Change{SubTask: t, From: t.Snapshot, To: t.Tree}
		if t.Shared {
			c.Files = append([]string{}, t.Files...)
		}
		if b.Boulder.Isolated() {
			c = Change{SubTask: t, From: t.Work + "^", To: t.Work} // not t.From, which moves on after a conflict
		}
		wanted := only == t.ID && t.Integrated == "" || only == "" && !b.Boulder.Isolated()
		if wanted && c.From != "" && c.To != "" {
			all = append(all, c)
		}
	}
	tip := b.Boulder.Trunk.Base
	for _, e := range events {
		switch i := e.Body.(type) {
		case boulder.Redone:
			tip = i.Tip
		case boulder.Integrated:
			if t := byID[i.SubTaskID]; t != nil && t.Integrated == i.Commit && (only == "" || only == t.ID) {
				all = append(all, Change{SubTask: t, From: tip, To: i.Commit, OnTip: true})
			}
			tip = i.Commit
		}
	}
	if t := byID[only]; t != nil && len(all) == 0 {
		return nil, fmt.Errorf("sub-task %q has no change to show: no snapshot was taken after a turn of it", t.ID)
	}
	return all, nil
}

// Patch returns git's full output for a change; how is -p, --binary, --stat or --name-only. Call [Project.OpenWorkspace] before.
func (p *Project) Patch(ctx context.Context, c Change, how string) (string, error) {
	if c.Files != nil && len(c.Files) == 0 {
		return "", nil
	}
	return p.work().Patch(ctx, c.From, c.To, how, slices.Clone(c.Files))
}
