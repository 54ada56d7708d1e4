package cli

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

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/session"
)

// leastFree is the free space below which a disk is called short, in bytes. Chosen, not measured.
const leastFree = 1 << 30

// night looks for what would stop a run while nobody is there.
type night struct {
	*app
	plan  *boulder.Plan // nil: it is not known
	tries bool          // gates that were not tried on the present files are run
}

// checks are those that start nothing. What choices says depends on nothing but settings.
func (n *night) checks() (state, choices []namedCheck) {
	return []namedCheck{{"space", n.space}, {"scratch", n.scratch}},
		[]namedCheck{{"asking", n.asking}, {"notify", n.notify}, {"awake", n.awake}}
}

// gates names commands that cannot run here as it is now.
func (n *night) gates(ctx context.Context) (detail, do string, err error) {
	if n.plan == nil {
		return n.withoutPlan(ctx)
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
	return n.before(ctx)
}

// withoutPlan looks at what is known of gates before there is a plan.
func (n *night) withoutPlan(ctx context.Context) (detail, do string, err error) {
	detail = "there is no plan file yet: its gates are not known"
	tests := n.project.Criteria(nil).Checks.Tests
	if c := n.project.Config(); len(tests)+len(c.Gates)+len(c.NoWorse)+len(c.IntegrationGates) == 0 {
		return "", "", nothing(detail)
	}
	known := *n
	known.plan = &boulder.Plan{Task: "Pass the tests", SubTasks: []boulder.Spec{{ID: "tests", Description: "Pass the tests", NoWorse: tests}}}
	tried, do, err := known.before(ctx)
	if none, is := errors.AsType[nothing](err); is {
		return "", "", nothing(text.JoinedBy("; without it, ", detail, string(none)))
	}
	return text.JoinedBy("; without it, ", detail, tried), do, err
}

// before says whether the gates are green before the work.
func (n *night) before(ctx context.Context) (detail, do string, err error) {
	b, why, err := n.project.GatesBefore(ctx, n.plan, func(gates int, most time.Duration) bool {
		if n.tries {
			n.note("Trying %s in a copy of your files, each for at most %s.", text.Plural(gates, "gate"), text.Elapsed(most))
		}
		return n.tries
	})
	switch {
	case errors.Is(err, boulder.ErrSlots):
		tried, do := proposed(b)
		if tried != "" {
			err = fmt.Errorf("%w\n%s", err, tried)
		}
		return "", cmp.Or(do, "have the slots get what they lack") + ", or run it with --in-place; see docs/isolation.md", err
	case err != nil:
		return "", "", err
	case why != "":
		return "", "", nothing("whether the gates are green at the base is not known: " + why)
	case b == nil:
		return "", "", nil
	}
	green := 0
	var lines []string
	for _, g := range b.Gates {
		if g.Green {
			green++
			continue
		}
		line := fmt.Sprintf("red at the base: `%s`", g.Command)
		if g.Run != nil {
			line += " (" + g.Run.End() + ")"
		}
		switch {
		case g.Run != nil && g.Run.TimedOut:
			do = "correct the gate that did not end (is it a watch mode?), or raise gate_timeout"
			lines = append(lines, line)
		case g.MayStayRed:
			lines = append(lines, line+", and may stay as red")
		case len(g.Own) > 0:
			lines = append(lines, line+"; this has to turn it green: "+strings.Join(g.Own, ", "))
		default:
			do = cmp.Or(do, "mend that first, or put the gate into no_worse: nothing is complete before it is green")
			lines = append(lines, line+", and no single sub-task is there to mend it")
		}
	}
	if b.InPlace != "" {
		lines = append(lines, "the sub-tasks would work in your files, side by side: "+b.InPlace)
		tried, add := proposed(b)
		if tried != "" {
			lines = append(lines, tried)
		}
		do = cmp.Or(do, add)
	}
	tried := fmt.Sprintf("%d of %s green at the base", green, text.Are(len(b.Gates), "gate"))
	return strings.Join(append([]string{tried + text.Prefixed(", as tried for boulder ", b.TriedFor)}, lines...), "\n"), do, nil
}

// proposed says what the trial with what slots lack has shown, and what to do then.
func proposed(b *project.Before) (tried, do string) {
	if b == nil || b.Proposed == nil {
		return "", ""
	}
	tried = "tried again in a copy with " + b.Proposed.Line
	if b.Proposed.Why == "" {
		return tried + ": it brings what the gates need", "add to the configuration: " + b.Proposed.Line
	}
	const shown = 10
	why := strings.Split(strings.TrimSpace(b.Proposed.Why), "\n")
	return tried + ": that is not enough: " + strings.Join(slices.Concat(why[:1], why[max(1, len(why)-shown):]), "\n"),
		"find out what the copy lacks, and add it to slots in the configuration"
}

// space compares the size of slots with the free space.
func (n *night) space(ctx context.Context) (detail, do string, err error) {
	size, free, err := n.project.SlotSpace(ctx)
	if err != nil || size == 0 {
		return "", "", err
	}
	slots := uint64(n.project.Config().Limits.Global)
	if n.plan != nil {
		slots = min(slots, uint64(len(n.plan.SubTasks)))
	}
	slots++ // the copy in which results are tested
	detail = fmt.Sprintf("a copy of the project takes %s, at most %d of them %s; %s are free", megabytes(size), slots, megabytes(size*slots), megabytes(free))
	if size*slots+leastFree > free {
		do = "free some space, or lower limits.global"
	}
	return detail, do, nil
}

func megabytes(n uint64) string {
	return cmp.Or(text.If(n < 1e6, "less than 1 MB"), fmt.Sprintf("%d MB", n/1e6))
}

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

// asking says what becomes of questions.
func (n *night) asking(context.Context) (detail, do string, err error) {
	if n.diverts() {
		return "questions are recorded, and what does not need the answer is done first", "", nil
	}
	return "questions of agents are refused: they go on without an answer", "--blockers records them for you", nil
}

func (n *night) diverts() bool {
	return n.blockers || n.project.Blockers().On(boulder.BlockerScope{Diverted: n.project.Config().Blockers.Enabled})
}

// usual is what OpenCode 1.18.33 asks for without a configuration.
var usual = []opencode.Rule{
	{Permission: "external_directory", Pattern: "*", Action: opencode.Ask},
	{Permission: "read", Pattern: "*.env", Action: opencode.Ask}, {Permission: "read", Pattern: "*.env.*", Action: opencode.Ask},
}

// rights says what the agents of the plan ask for, and what becomes of it.
func (n *night) rights(ctx context.Context) (detail, do string, err error) {
	agents := []string{""}
	if n.plan != nil {
		agents = nil
		for _, s := range n.plan.SubTasks {
			agents = append(agents, s.Agent)
		}
	}
	slices.Sort(agents)
	var lines []string
	for _, agent := range slices.Compact(agents) {
		rules, err := n.project.AskRules(ctx, agent)
		if err != nil {
			return "", "", err
		}
		by := map[string][]string{} // what is asked for, by what becomes of it
		for _, r := range rules {
			what, refused := n.answered(r)
			if !refused && isDoomLoop(r) {
				continue // OpenCode asks for it by itself, and so it is with all agents
			}
			by[what] = append(by[what], r.Permission+text.If(r.Pattern != "*", " "+r.Pattern))
			if refused && !slices.Contains(usual, r) {
				do = "allow in OpenCode's configuration what the work needs, or see blockers.permissions and on_ask"
			}
		}
		for _, what := range slices.Sorted(maps.Keys(by)) {
			lines = append(lines, fmt.Sprintf("%s asks for %s: %s", cmp.Or(agent, "the agent"), strings.Join(by[what], ", "), what))
		}
	}
	return cmp.Or(strings.Join(lines, "\n"), "no agent asks for a permission"), do, nil
}

func isDoomLoop(r opencode.Rule) bool {
	return session.IsDoomLoop(opencode.Request{Permission: r.Permission})
}

// answered says what becomes of an ask.
func (n *night) answered(r opencode.Rule) (what string, refused bool) {
	action, wait := blockers.Deny, time.Duration(0)
	on := n.diverts()
	if c := n.project.Config(); on || isDoomLoop(r) {
		action, wait = c.Blockers.Permission(r.Permission, r.Pattern)
	} else if c.OnAsk == executor.AsksAllow {
		action = blockers.Allow
	}
	switch {
	case action == blockers.Allow:
		return "granted", false
	case action == blockers.AskMe:
		return "your answer is waited for, at most " + text.Elapsed(wait) + ", then it is refused", true
	case on:
		return "refused and recorded for you, and the agent goes on", true
	}
	return "refused, and the agent goes on", true
}

// probe asks each model that the plan and the ledgers may use once. model is that of sub-tasks that name none.
func (n *night) probe(ctx context.Context, model boulder.Models) (detail, do string, err error) {
	plan := cmp.Or(n.plan, &boulder.Plan{SubTasks: make([]boulder.Spec, 1)})
	var lines []string
	var spent boulder.Usage
	alone := false
	all := n.project.Probe(ctx, plan, model)
	for _, one := range all {
		spent = spent.Add(one.Usage)
		if one.Err != nil {
			do = "see to it, or name another model: a list, as in model: [this, that], lets one take the place of another"
			alone = alone || one.Alone
			lines = append(lines, text.OneLine(one.Err.Error()))
		}
	}
	answered := fmt.Sprintf("%d of %s answered: %s, %s", len(all)-len(lines), text.Plural(len(all), "model"),
		text.Plural(int(spent.Calls), "call"), view.Usage(spent))
	detail = strings.Join(append([]string{answered}, lines...), "\n")
	if alone {
		return "", do, errors.New(detail)
	}
	return detail, do, nil
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

// warnOfNight warns of what could stop a detached run while nobody is there; of settings only where it has not said the same
// the last time.
func (a *app) warnOfNight(ctx context.Context, plan *boulder.Plan) {
	n := &night{app: a, plan: plan}
	state, choices := n.checks()
	if plan != nil {
		state = append(state, namedCheck{"gates", n.before})
	}
	if a.opts.Attach != "" { // else OpenCode would have to be started for it
		choices = append(choices, namedCheck{"rights", n.rights})
	}
	warnings := func(checks []namedCheck) (lines []string) {
		for _, c := range look(ctx, checks) {
			if c.Finding == view.Broken || c.Finding == view.Notice {
				lines = append(lines, text.OneLine(c.Detail)+text.Prefixed("; ", text.OneLine(c.Do)))
			}
		}
		return lines
	}
	for _, line := range slices.Concat(warnings(state), a.project.SaidBefore(warnings(choices))) {
		a.warn("%s", line)
	}
}
