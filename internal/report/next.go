package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Step is something that the user can do next.
type Step struct {
	Command string `json:"command"` // to be typed as it is
	Why     string `json:"why"`
}

// subTasksShown is how many sub-tasks are pointed at one by one.
const subTasksShown = 3

func (r *Report) next() []Step {
	steps := []Step{}
	add := func(why, command string, args ...any) {
		steps = append(steps, Step{fmt.Sprintf(command, args...), why})
	}
	if n := len(r.Awaited()); n > 0 {
		add("answer what is waited for: "+text.Plural(n, "question"), "manager blockers clarify")
	}
	switch {
	case r.Running:
		add("see how far it is: it is being worked on", "manager status %s", r.BoulderID)
	case r.Status.Terminal():
		switch {
		case r.Results != nil && r.Results.Landed == nil:
			add("look at whose change is whose", "manager diff -b %s", r.BoulderID)
			add("see what would land in your files, which are as they were", "manager land %s --files --dry-run", r.BoulderID)
		case r.Results != nil && r.Results.Landed.Branch != "":
			add("look at what the branch brings", "git log -p %s..%s", r.Base[:min(len(r.Base), 12)], r.Results.Landed.Branch)
		case r.Base != "" && len(r.Files) > 0:
			add("look at what was changed since the plan was made", "git diff %s", r.Base[:min(len(r.Base), 12)])
		}
		undone := slices.IndexFunc(r.SubTasks, func(s SubTask) bool {
			return !s.completed() && s.Status != boulder.SubTaskSkipped
		})
		if r.Status != boulder.Completed && undone >= 0 {
			add("do anew what is not done; what is done is taken over", "manager run --fork %s --from %s", r.BoulderID,
				r.SubTasks[undone].ID)
		}
	default:
		steps = append(append(steps, r.retried()...), r.resumed())
	}
	for _, l := range r.Limited {
		add(fmt.Sprintf("ask %s again now: it is limited until %s", cmp.Or(l.Model, "the default model"), text.Until(l.Until, r.MadeAt)),
			"manager retry %s -b %s", l.SubTaskID, r.BoulderID)
	}
	if choices := r.Choices(); choices != "" {
		add("look at "+choices, "manager blockers list%s", text.If(r.Status.Terminal(), " --all -b "+r.BoulderID))
	}
	failed := 0
	for _, s := range r.SubTasks {
		if s.Status == boulder.SubTaskFailed && failed < subTasksShown {
			failed++
			add("why in full: "+text.Clip(s.Subject, 60), "manager show %s --why %s", r.BoulderID, s.ID)
		}
	}
	return steps
}

// Choices counts what agents chose, and were refused, where they could not ask; empty if there is nothing to look at.
func (r *Report) Choices() string {
	choices, refused := 0, 0
	for i := range r.Blockers {
		switch b := &r.Blockers[i]; {
		case b.Hard, b.Awaited, b.Status.Settled():
		case b.AsksPermission():
			refused++
		default:
			choices++
		}
	}
	return text.JoinedBy(" and ", text.If(choices > 0, text.Plural(choices, "choice")+" that agents made where they could not ask"),
		text.If(refused > 0, text.Plural(refused, "refused permission")))
}

// resumed is how to continue a boulder that stands still.
func (r *Report) resumed() Step {
	step := Step{"manager resume " + r.BoulderID, "go on where it stopped"}
	switch {
	case r.Status == boulder.AwaitingApproval:
		step.Why = "look at the plan, and have it run"
	case r.Status == boulder.Planning:
		step.Why = "plan again: there is no plan yet"
	case len(r.Awaited()) > 0:
		step.Why = "go on with the answers"
	}
	raised := raise("", r.Budget, r.Usage, r.WorkedMS, r.Attempts)
	for _, s := range r.SubTasks {
		if s.task.Parked {
			raised += s.raise()
		}
	}
	if raised != "" {
		step.Command += raised
		step.Why += ", with twice the budget that is used up, or what you think right"
	}
	return step
}

// retried are the sub-tasks to retry, and why: those that are over without being done, and those that stand still because
// of what no agent can mend, such as a gate whose program is missing. What waits for an answer, a larger budget or more
// turns is told of otherwise.
func (r *Report) retried() []Step {
	var over, mended []Step
	for _, s := range r.SubTasks {
		command := fmt.Sprintf("manager retry %s -b %s", s.ID, r.BoulderID)
		switch t := s.task; {
		case s.Status == boulder.SubTaskFailed:
			over = append(over, Step{command, "have it tried again in a fresh session: it failed"})
		case s.Status == boulder.SubTaskCancelled:
			over = append(over, Step{command, "have it tried again in a fresh session: it was cancelled"})
		case t.Parked && !t.AtLimit && len(t.AwaitedBy(t.Attempts)) == 0 && s.raise() == "":
			mended = append(mended, Step{command, "when this is mended: " + text.Clip(t.Reason, 160)})
		}
	}
	return append(over[:min(len(over), subTasksShown)], mended[:min(len(mended), subTasksShown)]...)
}

func (s *SubTask) raise() string { return raise(s.ID+":", s.Budget, s.Usage, s.WorkedMS, 0) }

// raise doubles the limits of a budget that are used up, as flags. Calls whose price is not known use a budget of money
// up whatever it is: setting it again accepts them. The attempts of a sub-task are no reason to park it.
func raise(of string, b *boulder.Budget, used boulder.Usage, workedMS int64, attempts int) string {
	if b == nil {
		return ""
	}
	flag := func(reached bool, name string, limit any) string {
		return text.If(reached, fmt.Sprint(" --budget ", of, name, "=", limit))
	}
	cost := 2 * b.Cost
	if used.Cost < b.Cost {
		cost = b.Cost
	}
	return flag(b.Tokens > 0 && used.Tokens() >= b.Tokens, "tokens", 2*b.Tokens) +
		flag(b.Cost > 0 && (used.Cost >= b.Cost || used.Unpriced > b.Unpriced), "cost", strconv.FormatFloat(cost, 'f', -1, 64)) +
		flag(b.Time > 0 && workedMS >= time.Duration(b.Time).Milliseconds(), "time", 2*time.Duration(b.Time)) +
		flag(b.Attempts > 0 && attempts >= b.Attempts, "attempts", 2*b.Attempts) +
		flag(b.Calls > 0 && used.Calls >= b.Calls, "calls", 2*b.Calls)
}
