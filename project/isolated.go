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

// Slots are those of a workspace, as the executor wants them.
type Slots struct{ *workspace.Slots }

// Prepare implements executor.Slots.
func (s Slots) Prepare(ctx context.Context, c boulder.SlotClaim) (executor.Slot, error) {
	slot, err := s.Slots.Prepare(ctx, c)
	if err != nil {
		return nil, err
	}
	return slot, nil
}

func (p *Project) setUp() *workspace.SetUp {
	c := p.cfg.Slots
	run := func(ctx context.Context, dir string, env []string, line string) boulder.Gate {
		p.note("Setting up a slot: %s", p.secrets.Text(line))
		return p.runCommand(ctx, dir, env, line)
	}
	return &workspace.SetUp{Copy: c.Copy, Commands: c.Setup, When: c.SetupWhen, Env: c.Environ(), Run: run}
}

// runCommand runs a command of the user's, as gates run, with some variables besides the usual ones.
func (p *Project) runCommand(ctx context.Context, dir string, env []string, line string) boulder.Gate {
	usual, err := p.environ()
	if err != nil {
		return boulder.Gate{Command: line, ExitCode: -1, Output: err.Error()}
	}
	timeout := cmp.Or(p.cfg.GateTimeout, executor.DefaultGateTimeout)
	return executor.RunCommand(ctx, dir, slices.Concat(usual, env), line, timeout, p.secrets.Text)
}

// TakeBack implements executor.Slots.
func (s Slots) TakeBack(ctx context.Context, change boulder.Span) error {
	_, err := s.Slots.TakeBack(ctx, change.From, change.To, false)
	return err
}

// isolate decides whether a new boulder may work in slots, makes what they begin with, and takes in what else keeps sub-tasks
// apart. What the request says goes before the plan, and that before the configuration. Where there can be no slots it runs
// in place, and the user is told why.
func (p *Project) isolate(ctx context.Context, req *Request) (err error) {
	var plan boulder.Plan
	if req.Plan != nil {
		plan = *req.Plan
	}
	req.Isolation = cmp.Or(req.Isolation, plan.Isolation, p.cfg.Isolation, p.opts.Isolation)
	req.Scope = cmp.Or(plan.Scope, p.cfg.Scope)
	req.Generated = map[string]string{ // what needs no configuration
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
	req.InPlace, err = p.slots.Unsupported(ctx)
	switch {
	case err != nil:
		return err
	case req.InPlace != "" && req.Isolation == boulder.IsolationAlways:
		p.warn("the sub-tasks work in place, without slots: %s", req.InPlace)
	case req.InPlace != "" && p.NoDiffs() == "": // else that is told
		p.note("The sub-tasks work in place: %s.", req.InPlace)
	}
	if req.InPlace != "" {
		return nil
	}
	req.SlotBase, err = p.slots.Base(ctx, req.CleanBase, time.Now())
	return err
}

const keepDropped = 30 * 24 * time.Hour

// Land is what becomes of the results of an isolated boulder.
type Land struct {
	How             string // [boulder.LandedFiles], [boulder.LandedBranch], [boulder.LandedPR] or [boulder.LandedDropped]
	Branch          string // its name; empty: manager/ and the beginning of the task
	DryRun          bool
	WithUncommitted bool // a branch may have what the user had not committed when the run began
}

// Landing is what came of a [Land].
type Landing struct {
	boulder.Landed
	Of     boulder.Snapshot   // the boulder, as it was before
	Green  bool               // all gates are known to pass on Tree
	Files  []workspace.Change // of [boulder.LandedFiles]
	Remote string             // to which [boulder.LandedPR] pushes
	NoPR   error              // why no pull request was made there
}

// Tested says in a sentence what gates have shown of the tree, under a name of it.
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

// Land brings the results of a boulder that is over to where the user wants them, notes that in its log, and removes
// its slots and refs. A conflict or a red gate is an error, after which everything is as it was. After a crash it may
// be called again.
func (p *Project) Land(ctx context.Context, ref string, how Land) (l Landing, err error) {
	if err := p.enterGround(ctx); err != nil {
		return l, err
	}
	defer p.ground.Unlock()
	l.Of, err = p.Snapshot(ctx, ref) // now that no other process lands it
	b, head := &l.Of, &l.Of.Boulder
	switch line := head.Line; {
	case err != nil:
		return l, err
	case !head.Isolated():
		return l, usagef("boulder %s worked in place%s: there is nothing to land", head.ID, text.Prefixed(", because ", head.Line.InPlace))
	case !head.Status.Terminal():
		return l, usagef("boulder %s is %s, and only what is over can land: wait for its end (`manager wait %[1]s`), continue it if nothing runs it (`manager resume %[1]s`),"+
			" or end it with `manager cancel -b %[1]s`", head.ID, head.Status)
	case line.Landed != nil:
		if err := p.free(ctx, b, line.Landed.How); err != nil { // a crash may have kept that from its end
			return l, err
		}
		return l, usagef("the results of boulder %s have landed, or were dropped, already", head.ID)
	case line.Tip == line.Base && how.How != boulder.LandedDropped:
		return l, usagef("boulder %s has no results", head.ID)
	}
	tip := head.Line.Tip
	if tip != head.Line.Base {
		if err := p.slots.MoveTip(ctx, head.ID, head.Line.Before, tip); err != nil {
			return l, err
		}
	}
	l.How, l.Commit = how.How, tip
	switch how.How {
	case boulder.LandedFiles:
		l.Files, err = p.slots.LandFiles(ctx, head.Line.Base, tip, how.DryRun)
	case boulder.LandedBranch, boulder.LandedPR:
		how.Branch = cmp.Or(how.Branch, branchOf(head))
		l.Branch = how.Branch
		l.Commit, err = p.branchCommit(ctx, b, how)
		if err == nil {
			err = p.slots.Branch(ctx, how.Branch, l.Commit, true)
		}
		if err == nil && how.How == boulder.LandedPR {
			l.Remote, err = p.push(ctx, l.Commit, how)
		}
		if err == nil && !how.DryRun {
			err = p.slots.Branch(ctx, how.Branch, l.Commit, false)
		}
	}
	if err == nil {
		l.Tree, err = p.slots.Tree(ctx, l.Commit)
	}
	l.Green = l.Commit != tip || b.Green() // another commit was tested
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

// branchCommit is what a branch of the results is to be at. What the user had not committed is not in it: the results
// are applied onto the commit that was HEAD, and tested there once more.
func (p *Project) branchCommit(ctx context.Context, b *boulder.Snapshot, how Land) (commit string, err error) {
	line := b.Boulder.Line
	commit = line.Tip
	if err := p.slots.CheckBranch(ctx, how.Branch); err != nil {
		return "", err
	}
	if line.Base != b.Boulder.Base && !how.WithUncommitted {
		if commit, err = p.slots.Onto(ctx, line.Base, line.Tip, b.Boulder.Base); err == nil {
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

// usersOwn runs a command as if the user had typed it, with their credentials and hooks: git-lfs pushes by one.
func (p *Project) usersOwn(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	said := &text.LastBytes{Limit: 4 << 10}
	cmd.Dir, cmd.Env, cmd.Stderr = p.dir, append(slices.Clip(p.opts.Environ), "GH_PROMPT_DISABLED=1"), said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w%s", name, args[0], err, text.Prefixed(": ", strings.TrimSpace(said.String())))
	}
	return strings.TrimSpace(string(out)), err
}

// push pushes a commit as a new branch of the user's remote, and returns which that is. One that is there already, at
// that commit, stays; one that is elsewhere is an error that wraps [workspace.ErrBranch].
func (p *Project) push(ctx context.Context, commit string, how Land) (remote string, err error) {
	remotes, err := p.usersOwn(ctx, "git", "remote")
	if err != nil {
		return "", err
	}
	remote, _ = p.usersOwn(ctx, "git", "config", "remote.pushDefault") // fails where it is not set
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
	there, err := p.usersOwn(ctx, "git", "ls-remote", "--", remote, ref)
	if at, _, _ := strings.Cut(there, "\t"); err == nil && at != "" && at != commit {
		err = fmt.Errorf("%w: %s has %s, at %s: give another name", workspace.ErrBranch, remote, how.Branch, at)
	}
	if err == nil && !how.DryRun {
		_, err = p.usersOwn(ctx, "git", "push", "--quiet", "--force-with-lease="+ref+":", "--", remote, commit+":"+ref)
	}
	return remote, err
}

// pullRequest makes one of a pushed branch, with gh, and returns its address.
func (p *Project) pullRequest(ctx context.Context, b *boulder.Snapshot, l *Landing) (string, error) {
	body := b.Boulder.Task + "\n"
	for _, t := range b.SubTasks {
		if t.Integrated != "" {
			body += "\n- " + text.OneLine(t.Subject)
		}
	}
	body += "\n\n" + l.Tested(l.Tree)
	out, err := p.usersOwn(ctx, "gh", "pr", "create", "--head="+l.Branch,
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

// free removes the slots and refs of a boulder whose results have left it, and the refs of what was dropped long ago.
func (p *Project) free(ctx context.Context, b *boulder.Snapshot, how string) error {
	err := p.slots.Free(ctx, b.Boulder.ID, b.Boulder.Line.Base, how != boulder.LandedDropped, func(id string) bool {
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
	return p.slots.Forget(ctx, func(id string) bool {
		old, err := there.Get(ctx, id)
		at := old.Boulder.Line.LandedAt
		return err == nil && !at.IsZero() && time.Since(at) > keepDropped
	})
}

// Change is what one sub-task changed.
type Change struct {
	SubTask  *boulder.SubTask
	From, To string   // commits, or snapshots where it worked in place
	Files    []string // no others are shown; nil: all
	OnTip    bool     // it is a part of the results of an isolated boulder
}

// Changes tells whose change is whose: what is on the line of an isolated boulder, in that order, or what each sub-task
// left in place. With the id of a sub-task only its own, and also what it has in its slot so far; that there is none is
// an error then.
func Changes(b *boulder.Snapshot, events []boulder.Event, only string) (all []Change, err error) {
	byID := map[string]*boulder.SubTask{}
	for _, t := range b.SubTasks {
		byID[t.ID] = t
		c := Change{SubTask: t, From: t.Snapshot, To: t.Tree}
		if t.Shared {
			c.Files = append([]string{}, t.Files...)
		}
		if b.Boulder.Isolated() {
			c = Change{SubTask: t, From: t.Work + "^", To: t.Work} // From has moved on if it had a conflict
		}
		wanted := only == t.ID && t.Integrated == "" || only == "" && !b.Boulder.Isolated()
		if wanted && c.From != "" && c.To != "" {
			all = append(all, c)
		}
	}
	tip := b.Boulder.Line.Base
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

// Patch is what git prints of a change, uncut; how is -p, --stat or --name-only. Call [Project.OpenWorkspace] before.
func (p *Project) Patch(ctx context.Context, c Change, how string) (string, error) {
	if c.Files != nil && len(c.Files) == 0 {
		return "", nil
	}
	return p.work.Patch(ctx, c.From, c.To, how, slices.Clone(c.Files))
}
