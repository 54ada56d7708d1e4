package executor

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

const namedMissing = 20 // missing files in a message

// trial tries the gates of an isolated boulder.
type trial struct {
	*Executor
	boulder.Trial
	at      place // the slot
	gates   []boulder.TreeGate
	setUp   string         // [Slots.SetUpKey]
	inSlot  []boulder.Gate // the baseline of work in slots
	inPlace []boulder.Gate // the baseline of work in place
	missing []string       // ignored files that the slot lacks, before gates make some
	red     *boulder.Gate  // a gate that is red in the slot, and green in the project; nil: there is none
	failed  string         // why slots do not do; empty: they do
	// A copy of the project to compare with, made for the first red gate.
	like        place
	remove      func() error
	notCompared string // why there is no such copy
}

// Try implements orchestrator.Trier. It uses the slot of the first sub-task, so that it is warm when that starts. It
// runs nothing in the project, where commands leave files behind.
func (e *Executor) Try(ctx context.Context, what boulder.Trial, report func(boulder.Body) error) error {
	t := &trial{Executor: e, Trial: what, gates: []boulder.TreeGate{}}
	defer t.end()
	if err := t.all(ctx); err != nil {
		return err
	}
	outcome, err := t.outcome()
	if !outcome.InPlace {
		outcome.SetUp = t.setUp
	} else if err == nil {
		err = e.cfg.Slots.Free(ctx, what.BoulderID, what.Base, true, func(string) bool { return true })
	}
	if err != nil {
		return err
	}
	return e.reporting(report)(outcome)
}

// WhyNotSlots tries the gates of an isolated boulder as Try does, and says why slots do not do, with the end of the output of
// the gate that shows it; empty: they do.
func (e *Executor) WhyNotSlots(ctx context.Context, what boulder.Trial) (why string, err error) {
	what.Isolation = boulder.IsolationAuto
	t := &trial{Executor: e, Trial: what}
	defer t.end()
	if err := t.all(ctx); err != nil {
		return "", err
	}
	why = t.whyNot()
	if t.red != nil {
		why += ":\n" + t.red.Output
	}
	return why, nil
}

// all tries the gates, until slots are known not to do.
func (t *trial) all(ctx context.Context) error {
	claim := boulder.SlotClaim{BoulderID: t.BoulderID, Slot: 1, Base: t.Base, From: t.Base}
	var err error
	if t.at, err = t.slot(ctx, claim); err != nil {
		return err
	}
	if t.missing, err = t.at.slot.Missing(ctx); err != nil {
		return err
	}
	tree, err := t.cfg.Slots.Tree(ctx, t.Base)
	if err != nil {
		return err
	}
	for i := range t.SubTasks {
		if id := t.SubTasks[i].ID; t.Isolation == boulder.IsolationAuto && boulder.ReservedID(id) {
			t.failed = fmt.Sprintf("no sub-task in a slot can be called %q", id)
			return nil
		}
	}
	if t.setUp, err = t.cfg.Slots.SetUpKey(ctx); err != nil {
		return err
	}
	var passed []string
	if t.cfg.PassedBefore != nil {
		passed = t.cfg.PassedBefore(ctx, tree, t.setUp)
	}
	if err = t.gatesAt(ctx, tree, claim, passed); err == nil && t.failed != "" && len(passed) > 0 {
		// It may need what the others would have made.
		t.failed, t.red, t.gates, t.inSlot, t.inPlace = "", nil, []boulder.TreeGate{}, nil, nil
		err = t.gatesAt(ctx, tree, claim, nil)
	}
	return err
}

// gatesAt tries the gates that have not passed before.
func (t *trial) gatesAt(ctx context.Context, tree string, claim boulder.SlotClaim, passed []string) error {
	for _, line := range t.Commands() {
		g, err := boulder.Gate{Command: line}, error(nil)
		reused := slices.Contains(passed, line)
		if !reused {
			g, err = t.run(ctx, t.at, line)
		}
		t.inSlot = append(t.inSlot, g)
		t.gates = append(t.gates, boulder.TreeGate{Command: line, Tree: tree, Passed: g.Green(), Reused: reused})
		if err == nil && !g.Green() {
			err = t.compare(ctx, claim, g)
		} else if err == nil {
			t.inPlace = append(t.inPlace, g)
		}
		if err != nil || t.failed != "" {
			return err
		}
	}
	return nil
}

func (t *trial) run(ctx context.Context, at place, line string) (boulder.Gate, error) {
	g := RunGate(ctx, at.path, at.env, line, t.cfg.GateTimeout, t.cfg.Redact.Text)
	if ctx.Err() != nil {
		return g, context.Cause(ctx)
	}
	return g, nil
}

// compare looks whether a gate that is red in the slot is green with all that the project has.
func (t *trial) compare(ctx context.Context, claim boulder.SlotClaim, red boulder.Gate) error {
	if t.like.path == "" && t.notCompared == "" {
		like, remove, why, err := t.cfg.Slots.LikeProject(ctx, claim)
		if err != nil {
			return err
		}
		if t.remove, t.notCompared = remove, why; like != nil {
			t.like = place{path: like.Dir(), files: like, env: t.cfg.Env, slot: like}
		}
	}
	switch {
	case t.notCompared != "":
		return nil
	case t.like.path == "": // the project has nothing that the slot lacks
		t.inPlace = append(t.inPlace, red)
		return nil
	}
	there, err := t.run(ctx, t.like, red.Command)
	if err != nil {
		return err
	}
	t.inPlace = append(t.inPlace, there)
	if there.Green() {
		t.red = &red
		t.failed = fmt.Sprintf("the gate `%s` is red in a slot (%s), and green in the project", red.Command, red.End()) +
			text.If(t.Isolation != boulder.IsolationAuto, ":\n"+red.Output)
	}
	return nil
}

// outcome says where the sub-tasks work, or returns an error if they have to work in slots and cannot.
func (t *trial) outcome() (boulder.Isolated, error) {
	auto := t.Isolation == boulder.IsolationAuto
	reused := 0
	for _, g := range t.gates {
		if g.Reused {
			reused++
		}
	}
	tried := text.Plural(len(t.gates)-reused, "gate") + " tried there"
	if reused > 0 {
		tried += ", " + text.Plural(reused, "gate") + " known to pass there on these files"
	}
	unsure := auto && (len(t.gates) == 0 || t.notCompared != "")
	if t.failed == "" && t.notCompared == "" && !unsure {
		return boulder.Isolated{Reason: tried, Gates: t.gates, Baseline: t.inSlot}, nil
	}
	files := text.First(namedMissing, t.missing)
	only := text.Prefixed("; ignored files that only the project has: ", files)
	add := ""
	if t.cfg.Lacking != nil {
		add = t.cfg.Lacking(t.missing)
	}
	switch {
	case t.failed != "" && !auto:
		return boulder.Isolated{}, fmt.Errorf("%w: %s%s%s\nHave them copied (slots.copy in the configuration, or .worktreeinclude) or made (slots.setup), or run it"+
			" with --in-place; see docs/isolation.md", boulder.ErrSlots, t.failed, text.Prefixed("\nIgnored files that only the project has: ", files),
			text.Prefixed("\nWhat may bring them, in the configuration: ", add))
	case t.failed == "" && !auto:
		return boulder.Isolated{Reason: tried + "; red ones were not compared with the project: " + t.notCompared + only, Gates: t.gates, Baseline: t.inSlot}, nil
	case t.failed == "" && files == "":
		return boulder.Isolated{Reason: cmp.Or(text.If(len(t.gates) > 0, tried), "they have all that the project has"), Gates: t.gates, Baseline: t.inSlot}, nil
	}
	reason := cmp.Or(t.whyNot(), "no gate tells whether a slot has what they need")
	apart := cmp.Or(add, "slots.copy and slots.setup in the configuration, which bring what copies lack,")
	if t.failed == "" { // else --isolate refuses, too
		apart += ", a gate that shows it, or --isolate"
	}
	return boulder.Isolated{
		InPlace: true, Reason: reason + only + "; they share your files, and are kept apart by " + apart, Gates: t.gates, Baseline: t.inPlace,
	}, nil
}

// whyNot says why slots do not do; empty: no gate shows that.
func (t *trial) whyNot() string {
	return cmp.Or(t.failed, text.Prefixed("gates are red in a slot, which is not compared with the project: ", t.notCompared))
}

func (t *trial) end() {
	if t.remove == nil {
		return
	}
	if err := t.remove(); err != nil {
		t.cfg.Logger.Warn("a copy of the project was not removed", "error", err)
	}
}
