package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// whysShown is how many sub-tasks are pointed at one by one.
const whysShown = 3

// next says what a person can do now, as commands that can be typed as they are.
func next(r *Report, in Input) []Step {
	steps := []Step{}
	if n := len(r.Awaited()); n > 0 {
		steps = append(steps, Step{"manager blockers clarify", "answer what is waited for: " + text.Plural(n, "question")})
	}
	switch {
	case r.Running:
		steps = append(steps, Step{"manager status " + r.BoulderID, "see how far it is: it is being worked on"})
	case r.Status.Terminal():
		steps = append(steps, over(r)...)
	default:
		steps = append(steps, retries(r)...)
		steps = append(steps, mends(r, in)...)
		steps = append(steps, resume(r, in))
	}
	if n := r.Choices(); n > 0 {
		step := Step{"manager blockers list", "look at " + text.Plural(n, "choice") + " that agents made where they could not ask"}
		if r.Status.Terminal() {
			step.Command += " --all -b " + r.BoulderID
		}
		steps = append(steps, step)
	}
	return append(steps, whys(r)...)
}

// Choices counts the soft blockers that nobody has looked at.
func (r *Report) Choices() int {
	n := 0
	for _, b := range r.Blockers {
		if !b.Hard && !b.Awaited && !b.Status.Settled() {
			n++
		}
	}
	return n
}

// resume is how to go on with a boulder that stands still.
func resume(r *Report, in Input) Step {
	step := Step{"manager resume " + r.BoulderID, "go on where it stopped"}
	switch {
	case r.Status == boulder.AwaitingApproval:
		step.Why = "look at the plan, and have it run"
	case r.Status == boulder.Planning:
		step.Why = "plan again: there is no plan yet"
	case len(r.Awaited()) > 0:
		step.Why = "go on with the answers"
	}
	var raised []string
	for _, x := range raise(r.Budget, r.Usage, time.Duration(r.WorkedMS)*time.Millisecond, r.Attempts) {
		raised = append(raised, "--budget "+x)
	}
	for i, s := range r.SubTasks {
		if t := subTask(in, s.ID); t == nil || !t.Parked {
			continue
		}
		// A sub-task's attempts are no reason to park it.
		for _, x := range raise(s.Budget, s.Usage, time.Duration(r.SubTasks[i].WorkedMS)*time.Millisecond, 0) {
			raised = append(raised, "--budget "+s.ID+":"+x)
		}
	}
	if len(raised) > 0 {
		step.Command += " " + strings.Join(raised, " ")
		step.Why += ", with twice the budget that is used up, or what you think right"
	}
	return step
}

func subTask(in Input, id string) *boulder.SubTask {
	i := slices.IndexFunc(in.SubTasks, func(t boulder.SubTask) bool { return t.ID == id })
	if i < 0 {
		return nil
	}
	return &in.SubTasks[i]
}

// raise doubles the limits of a budget that are used up, in the words of --budget. Calls whose price is not known use a
// budget of money up whatever it is: setting it again accepts them.
func raise(b *boulder.Budget, used boulder.Usage, worked time.Duration, attempts int) []string {
	if b == nil {
		return nil
	}
	var all []string
	add := func(reached bool, name, limit string) {
		if reached {
			all = append(all, name+"="+limit)
		}
	}
	add(b.Tokens > 0 && used.Tokens() >= b.Tokens, "tokens", strconv.FormatInt(2*b.Tokens, 10))
	cost := 2 * b.Cost
	if used.Cost < b.Cost {
		cost = b.Cost
	}
	reached := used.Cost >= b.Cost || used.Unpriced > b.Unpriced
	add(b.Cost > 0 && reached, "cost", strconv.FormatFloat(cost, 'f', -1, 64))
	add(b.Time > 0 && worked >= time.Duration(b.Time), "time", (2 * time.Duration(b.Time)).String())
	add(b.Attempts > 0 && attempts >= b.Attempts, "attempts", strconv.Itoa(2*b.Attempts))
	add(b.Calls > 0 && used.Calls >= b.Calls, "calls", strconv.FormatInt(2*b.Calls, 10))
	return all
}

// retries are for sub-tasks that are over without being done, while the boulder is not.
func retries(r *Report) []Step {
	why := map[boulder.SubTaskStatus]string{
		boulder.SubTaskFailed: "it failed", boulder.SubTaskCancelled: "it was cancelled",
	}
	var steps []Step
	for _, s := range r.SubTasks {
		if why[s.Status] == "" || len(steps) == whysShown {
			continue
		}
		steps = append(steps, Step{
			fmt.Sprintf("manager retry %s -b %s", s.ID, r.BoulderID),
			"have it tried again in a fresh session: " + why[s.Status],
		})
	}
	return steps
}

// mends are for sub-tasks that stand still because of something that an agent cannot mend, such as a gate whose program is
// missing. Those that wait for an answer, a larger budget or more turns are told of otherwise.
func mends(r *Report, in Input) []Step {
	var steps []Step
	for i, s := range r.SubTasks {
		t := subTask(in, s.ID)
		if t == nil || !t.Parked || t.AtLimit || len(t.AwaitedBy(t.Attempts)) > 0 || len(steps) == whysShown ||
			len(raise(s.Budget, s.Usage, time.Duration(r.SubTasks[i].WorkedMS)*time.Millisecond, 0)) > 0 {
			continue
		}
		steps = append(steps, Step{
			fmt.Sprintf("manager retry %s -b %s", s.ID, r.BoulderID), "when this is mended: " + text.Clip(t.Reason, 160),
		})
	}
	return steps
}

// over is for a boulder that is over.
func over(r *Report) []Step {
	var steps []Step
	if r.Base != "" && len(r.Files) > 0 {
		steps = append(steps, Step{
			"git diff " + r.Base[:min(len(r.Base), 12)], "look at what was changed since the plan was made",
		})
	}
	if r.Status == boulder.Completed {
		return steps
	}
	for _, s := range r.SubTasks {
		if !s.completed() && s.Status != boulder.SubTaskSkipped {
			return append(steps, Step{
				fmt.Sprintf("manager run --fork %s --from %s", r.BoulderID, s.ID),
				"do anew what is not done; what is done is taken over",
			})
		}
	}
	return steps
}

// whys point at the chain of decisions of what was not done.
func whys(r *Report) []Step {
	var steps []Step
	for _, s := range r.SubTasks {
		if s.Status == boulder.SubTaskFailed && len(steps) < whysShown {
			steps = append(steps, Step{
				fmt.Sprintf("manager show %s --why %s", r.BoulderID, s.ID), "why in full: " + text.Clip(s.Subject, 60),
			})
		}
	}
	return steps
}
