package cli

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/internal/text"
)

// leastFree is the free space below which a disk is called short, in bytes. Chosen, not measured.
const leastFree = 1 << 30

// night looks for what would stop a run while nobody is there.
type night struct {
	*app
	plan *boulder.Plan // nil: it is not known
}

// checks are those that start nothing and need no plan.
func (n *night) checks() []namedCheck {
	return []namedCheck{
		{"space", n.space}, {"scratch", n.scratch}, {"asking", n.asking}, {"notify", n.notify}, {"awake", n.awake},
	}
}

// gates names commands that cannot run here as it is now.
func (n *night) gates(ctx context.Context) (detail, do string, err error) {
	if n.plan == nil {
		return "there is no plan file yet: its gates are not known", "", nil
	}
	var all, missing []string
	for _, s := range n.plan.SubTasks {
		for _, line := range slices.Concat(s.Gates, s.NoWorse) {
			all = append(all, line)
			if what := n.project.Missing(ctx, line); what != "" {
				missing = append(missing, fmt.Sprintf("%s: %s, and `%s` needs it", s.ID, what, line))
			}
		}
	}
	switch {
	case len(missing) > 0:
		return strings.Join(missing, "\n"), "install it, or correct the gate: a gate that cannot run parks its sub-task", nil
	case len(all) == 0:
		return "none: the judge alone decides what is done", "add commands that must exit 0 to the plan's gates", nil
	}
	return text.Plural(len(all), "gate") + ", whose programs are there; an isolated run tries them before the first prompt", "", nil
}

// space compares the size of slots with the free space.
func (n *night) space(ctx context.Context) (detail, do string, err error) {
	size, free, err := n.project.SlotSpace(ctx)
	if err != nil || size == 0 {
		return "", "", err
	}
	slots := uint64(n.project.Config().Limits.Global) + 1 // and the copy in which results are tested
	detail = fmt.Sprintf("a slot takes %s, %d of them %s; %s are free", megabytes(size), slots, megabytes(size*slots), megabytes(free))
	if size*slots+leastFree > free {
		do = "free some space, or lower limits.global"
	}
	return detail, do, nil
}

func megabytes(n uint64) string { return fmt.Sprintf("%d MB", n/1e6) }

// scratch checks the directories outside of the project that a run writes to.
func (n *night) scratch(context.Context) (detail, do string, err error) {
	var lines []string
	for _, dir := range n.project.Scratch() {
		if err := statedir.Writable(dir); err != nil {
			return "", "make it writable, or set TMPDIR or XDG_DATA_HOME", fmt.Errorf("cannot write to %s: %w", dir, err)
		}
		free, err := statedir.Free(dir)
		if err != nil {
			return "", "", err
		}
		if free < leastFree {
			do = "free some space there"
		}
		lines = append(lines, fmt.Sprintf("%s: %s free", dir, megabytes(free)))
	}
	return strings.Join(lines, "\n"), do, nil
}

// asking says what becomes of questions and permission requests.
func (n *night) asking(context.Context) (detail, do string, err error) {
	if n.blockers || n.project.Blockers().On(boulder.BlockerScope{Diverted: n.project.Config().Blockers.Enabled}) {
		return "questions are recorded, and what does not need the answer is done first", "", nil
	}
	return "questions of agents are refused: they go on without an answer", "--blockers records them for you", nil
}

// notify says whether somebody is told of the end.
func (n *night) notify(context.Context) (detail, do string, err error) {
	const set = "set notify in the configuration: a command, or a webhook"
	to, err := n.project.Notifier()
	switch {
	case err != nil:
		return "", set, err
	case len(to.Command) > 0:
		if _, err := exec.LookPath(to.Command[0]); err != nil {
			return "", set, fmt.Errorf("notifications cannot be sent: %w", err)
		}
		return "by " + to.Command[0] + text.If(to.Webhook != nil, " and a webhook"), "", nil
	case to.Webhook != nil:
		return "by a webhook at " + to.Webhook.Host, "", nil
	}
	return "nobody is told when the run ends or waits", set, nil
}

func (n *night) awake(ctx context.Context) (detail, do string, err error) {
	if by := n.project.KeptAwakeBy(ctx); by != "" {
		return "the background server keeps this machine from going to sleep by itself (" + by + ")", "", nil
	}
	return "nothing keeps this machine from going to sleep", "switch its sleep off if it has one: work stands still meanwhile", nil
}

// warnOfNight warns of what could stop a detached run while nobody is there.
func (a *app) warnOfNight(ctx context.Context) {
	for _, c := range look(ctx, (&night{app: a}).checks()) {
		if c.Finding == view.Broken || c.Finding == view.Notice {
			a.warn("%s%s", text.OneLine(c.Detail), text.Prefixed("; ", text.OneLine(c.Do)))
		}
	}
}
