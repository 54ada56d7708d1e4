package project

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/project/internal/awake"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/workspace"
)

// KeptAwakeBy returns the program that keeps this machine from going to sleep while a server runs boulders, or "".
func (p *Project) KeptAwakeBy(ctx context.Context) string { return awake.By(ctx) }

// SlotSpace returns the size of a slot, which is that of the files that git tracks or would track, and the free space where slots
// are made; in bytes. Both are 0 outside of git.
func (p *Project) SlotSpace(ctx context.Context) (size, free uint64, err error) {
	work, err := workspace.Open(ctx, p.dir)
	if err != nil || work.Reason() != "" {
		return 0, 0, err
	}
	names, err := work.Files(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, name := range names {
		if info, err := os.Lstat(filepath.Join(p.dir, filepath.FromSlash(name))); err == nil && info.Mode().IsRegular() {
			size += uint64(info.Size())
		}
	}
	home, err := p.SlotHome(ctx)
	if err != nil {
		home = p.dir
	}
	free, err = statedir.Free(existing(home))
	return size, free, err
}

// Scratch returns the directories that a run writes to besides the project: that of temporary files, and that of OpenCode's
// data, or the nearest above it that is there.
func (p *Project) Scratch() (dirs []string) {
	data := p.getenv("XDG_DATA_HOME")
	if data == "" {
		data = filepath.Join(p.getenv("HOME"), ".local", "share")
	}
	for _, dir := range []string{os.TempDir(), filepath.Join(data, "opencode"), filepath.Join(p.dir, store.DirName)} {
		dirs = append(dirs, existing(dir))
	}
	return dirs
}

// Before is what the gates of a plan show before the work.
type Before struct {
	Gates []GateBefore
	// InPlace says why the sub-tasks would not work in slots although they could; empty: not known, or they would.
	InPlace string
	// Proposed is a second trial, with what the configuration does not bring into slots; nil: the first did not fail for slots, or
	// nothing is known that could be brought.
	Proposed *Proposed
	// TriedFor is the boulder whose trial this was, on the same files; empty: it was now.
	TriedFor string
}

// Proposed is what a trial of gates in slots with another set-up has shown.
type Proposed struct {
	Line string // of the configuration
	Why  string // why it does not do, with the end of the output; empty: it does
}

// GateBefore is a gate before the work.
type GateBefore struct {
	Command    string
	Green      bool
	Run        *boulder.Gate // nil: how it ended is not known
	Own        []string      // the sub-tasks whose own gate it is; none: the configuration has it
	MayStayRed bool
}

// GatesBefore says whether the gates of a plan are green on the present files, as the trial of an isolated boulder on them has
// shown. Without one it has try say how many would be run, for at most how long each; if that returns true, it runs them in a
// slot, as a run does, and frees the slot. It returns nil if they were not run, and why, if that is not for try. With an error
// that wraps [boulder.ErrSlots], all that it may return is Proposed.
func (p *Project) GatesBefore(ctx context.Context, plan *boulder.Plan, try func(gates int, most time.Duration) bool) (b *Before, why string, err error) {
	what, err := p.trialOf(plan)
	if err != nil || len(what.Commands()) == 0 {
		return nil, "", err
	}
	if err = p.OpenWorkspace(ctx); err != nil {
		return nil, "", err
	}
	if why, err = p.slots().Unsupported(ctx); why != "" || err != nil {
		return nil, why, err
	}
	if what.Base, err = p.slots().Base(ctx, false, time.Now()); err != nil {
		return nil, "", err
	}
	if b, err = p.triedBefore(ctx, what); b != nil || err != nil {
		return b, "", err
	}
	there, err := p.Read(ctx)
	if err != nil {
		return nil, "", err
	}
	holder := there.Holder
	there.Close()
	switch {
	case holder != nil:
		return nil, "another process is at work here", nil
	case !try(len(what.Commands()), cmp.Or(p.cfg.GateTimeout, executor.DefaultGateTimeout)):
		return nil, "", nil
	}
	b, err = p.tryGates(ctx, what)
	slotsFail := errors.Is(err, boulder.ErrSlots)
	if p.isolation(plan) == boulder.IsolationOff { // then slots matter for this trial alone
		if slotsFail {
			return nil, text.Error(err), nil
		}
		if b != nil {
			b.InPlace = ""
		}
		return b, "", err
	}
	_, ofSetUp := errors.AsType[*boulder.SetUpError](err) // with more, it would fail as well
	if slotsFail && !ofSetUp || err == nil && b.InPlace != "" {
		proposed, proposedErr := p.tryProposed(ctx, what)
		b = cmp.Or(b, &Before{})
		b.Proposed, err = proposed, errors.Join(err, proposedErr)
	}
	return b, "", err
}

func (p *Project) isolation(plan *boulder.Plan) boulder.Isolation {
	return cmp.Or(plan.Isolation, p.cfg.Isolation, p.opts.Isolation)
}

// trialOf returns the trial of the gates of a plan, which an isolated run would begin with.
func (p *Project) trialOf(plan *boulder.Plan) (what boulder.Trial, err error) {
	s, err := p.begun(plan, true)
	if err != nil {
		return what, err
	}
	what = boulder.Trial{BoulderID: trialID, Isolation: p.isolation(plan), Gates: p.cfg.IntegrationGates}
	if what.Isolation != boulder.IsolationAlways {
		what.Isolation = boulder.IsolationAuto
	}
	if len(plan.IntegrationGates) > 0 {
		what.Gates = plan.IntegrationGates
	}
	for _, t := range s.SubTasks {
		what.SubTasks = append(what.SubTasks, *t)
	}
	return what, nil
}

// begun returns a boulder with a plan, before anything is done. gates says whether the plan's gates may run.
func (p *Project) begun(plan *boulder.Plan, gates bool) (*boulder.State, error) {
	done, now := p.Criteria(nil), time.Now()
	rev := boulder.PlanRevision{Number: 1, Plan: plan.Clone(), Hash: plan.Hash(), Origin: plan.Origin(), AdoptedAt: now}
	s := boulder.NewState()
	for _, body := range []boulder.Body{
		boulder.Created{Boulder: boulder.Boulder{ID: trialID, Task: plan.Task, Project: p.dir, Settings: boulder.Settings{
			Gates: p.cfg.Gates, NoWorse: p.cfg.NoWorse, DoneWhen: done.Words, Checks: done.Checks,
		}}},
		boulder.Planned{Revision: 1, Origin: rev.Origin, Plan: rev},
		boulder.Decomposed{Revision: 1, Origin: rev.Origin, Plan: rev, GatesApproved: gates},
	} {
		if _, err := s.Apply(boulder.Event{Time: now, BoulderID: trialID, Body: body}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// trialID stands for a boulder in names of a slot and of refs, which are gone after the trial.
const trialID = "doctor"

// triedBefore returns what the trial of an isolated boulder on the same files has shown of all gates, or nil.
func (p *Project) triedBefore(ctx context.Context, what boulder.Trial) (b *Before, err error) {
	tree, err := p.slots().Tree(ctx, what.Base)
	if err != nil {
		return nil, err
	}
	err = p.each(ctx, func(d *boulder.Snapshot) {
		l := &d.Boulder.Trunk
		if b != nil || l.Base == "" || l.Trial {
			return
		}
		if same, err := p.slots().Tree(ctx, l.Base); err != nil || same != tree {
			return
		}
		found := before(what, func(line string) (green, known bool) {
			green = l.Passed(line, tree)
			return green, green || slices.Contains(l.Red, line)
		})
		if len(found.Gates) == len(what.Commands()) {
			found.TriedFor = d.Boulder.ID
			b = found
		}
	})
	return b, err
}

// trier returns what tries gates in slots.
func (p *Project) trier(slots *workspace.Slots) (*executor.Executor, error) {
	env, err := p.environ()
	if err != nil {
		return nil, err
	}
	run := p.looks()
	run.Slots, run.BlockersFiles, run.GateTimeout, run.Env = Slots{slots}, p.blockersFiles(), p.cfg.GateTimeout, env
	return executor.New(run)
}

// freeTrial frees the slot of a trial.
func (p *Project) freeTrial(ctx context.Context, what boulder.Trial) error {
	return p.slots().Free(context.WithoutCancel(ctx), trialID, what.Base, true, func(string) bool { return true })
}

// tryProposed tries gates in slots with what they lack, as far as that is known, or returns nil.
func (p *Project) tryProposed(ctx context.Context, what boulder.Trial) (*Proposed, error) {
	lacks, err := p.lacking(ctx)
	if err != nil {
		return nil, err
	}
	setUp, more := p.withMissing(lacks)
	if !more {
		return nil, nil
	}
	proposed := &Proposed{Line: p.slotsLine(lacks)}
	e, err := p.trier(p.slotsOf(p.work(), setUp))
	if err != nil {
		return nil, err
	}
	p.note("Trying them again, in a copy with %s", proposed.Line)
	proposed.Why, err = e.WhyNotSlots(ctx, what)
	if failed, ok := errors.AsType[*boulder.SetUpError](err); ok {
		proposed.Why, err = failed.Error(), nil
	}
	if err = errors.Join(err, p.freeTrial(ctx, what)); err != nil {
		return nil, err
	}
	return proposed, nil
}

func (p *Project) tryGates(ctx context.Context, what boulder.Trial) (*Before, error) {
	e, err := p.trier(p.slots())
	if err != nil {
		return nil, err
	}
	var tried boulder.Isolated
	err = e.Try(ctx, what, func(body boulder.Body) error {
		tried, _ = body.(boulder.Isolated)
		return nil
	})
	if err = errors.Join(err, p.freeTrial(ctx, what)); err != nil {
		return nil, err
	}
	b := before(what, func(line string) (green, known bool) {
		i := slices.IndexFunc(tried.Gates, func(g boulder.TreeGate) bool { return g.Command == line })
		return i >= 0 && tried.Gates[i].Passed, i >= 0
	})
	for i := range b.Gates {
		g := &b.Gates[i]
		if g.Run = boulder.GateOf(tried.Baseline, g.Command); g.Run != nil {
			g.Green = g.Run.Green()
		}
	}
	if tried.InPlace {
		b.InPlace = tried.Reason
	}
	return b, nil
}

// before lists the commands of a trial of which it is known whether they are green.
func before(what boulder.Trial, green func(line string) (green, known bool)) *Before {
	b := &Before{}
	for _, line := range what.Commands() {
		passed, known := green(line)
		if !known {
			continue
		}
		g := GateBefore{Command: line, Green: passed, MayStayRed: !slices.Contains(what.Gates, line)}
		for i := range what.SubTasks {
			if t := &what.SubTasks[i]; slices.Contains(t.Gates, line) {
				g.Own, g.MayStayRed = append(g.Own, t.ID), false
			}
		}
		if len(g.Own) == len(what.SubTasks) && len(g.Own) > 1 {
			g.Own = nil
		}
		b.Gates = append(b.Gates, g)
	}
	return b
}

// AskRules returns the rules of OpenCode by which an agent asks for permissions, and that no later one overrides as a whole.
// Empty: the agent of sub-tasks that name none. Call [Project.ConnectOpenCode] before.
func (p *Project) AskRules(ctx context.Context, agent string) (asks []opencode.Rule, err error) {
	client, err := p.Client(ctx)
	if err != nil {
		return nil, err
	}
	rules, err := client.In(p.dir).AgentRules(ctx, cmp.Or(agent, p.agent()))
	return asksOf(rules), err
}

func asksOf(rules []opencode.Rule) (asks []opencode.Rule) {
	for i, r := range rules {
		overrides := func(later opencode.Rule) bool {
			return (later.Permission == r.Permission || later.Permission == "*") && (later.Pattern == r.Pattern || later.Pattern == "*")
		}
		if r.Action == opencode.Ask && !slices.ContainsFunc(rules[i+1:], overrides) {
			asks = append(asks, r)
		}
	}
	return asks
}

// SaidBefore returns the lines that were not among those of its last call, and stores these.
func (p *Project) SaidBefore(lines []string) (news []string) {
	var before []string
	const name = store.DirName + "/night.json"
	if data, err := os.ReadFile(filepath.Join(p.dir, filepath.FromSlash(name))); err == nil {
		_ = json.Unmarshal(data, &before) // unreadable: all are new
	}
	for _, line := range lines {
		if !slices.Contains(before, line) {
			news = append(news, line)
		}
	}
	data, err := json.Marshal(lines)
	if err == nil {
		_, err = store.EnsureDir(p.dir)
	}
	if err == nil {
		err = statedir.Write(p.dir, name, data)
	}
	if err != nil {
		p.log.Warn("it is not stored what was warned of", "error", err)
	}
	return news
}
