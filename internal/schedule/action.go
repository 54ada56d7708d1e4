package schedule

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/prompts"
)

// Action is something to do. A decision is an event ([boulder.Body]): whoever drives Compute applies it and asks again. It
// adds what it alone knows: the tag and the prompt of a [boulder.Starting]; the prompt of a [boulder.Continuation], before
// what that one has. For a [boulder.Parked] it first stops a turn that is at work. [Finish] is a decision as well.
//
// [Run], [Judge], [Raise], [Integrate] and [AskReplan] are work that should be under way now: start what is not. [Wake]
// asks to be called again at a time; [Stop] ends the run.
type Action any

// Run says that the attempt's newest turn should be running.
type Run struct{ Open *boulder.Open }

// Judge says that the attempt's newest turn should be being judged.
type Judge struct{ Open *boulder.Open }

// Raise says that a hard blocker should be being recorded, which the verdict on the attempt's newest turn calls for.
type Raise struct {
	Open    *boulder.Open
	Blocker boulder.Blocker // without id and status
}

// AskReplan says that the Task Ledger should be being asked for the replan that was begun, or the user about the one
// that it made.
type AskReplan struct{}

// Finish says that nothing is ready or live any more.
type Finish struct {
	Status boulder.Status
	// Verify are completed sub-tasks whose gates ran before other work had ended: they have to run once more before.
	Verify []*boulder.SubTask
	// Last is the sub-task that ended last, if it worked alone: nothing was changed since its gates ran.
	Last *boulder.SubTask
}

// Stop ends the run because it must not, or cannot, go on as it is. Turns that are at work are ended; they can be taken
// up again. Without Budget, AtLimit and SubTaskID it is a fault that does not end and meets every sub-task.
type Stop struct {
	Reason    string
	SubTaskID string // everything that is left waits for the user: the first sub-task that does
	Budget    bool   // a budget is used up: the run's, or that of the sub-task
	AtLimit   bool   // for more turns of a loop
}

// Wake asks for another Compute at this time; the earliest one is given.
type Wake struct{ At time.Time }

// park lets a sub-task wait for the user, for an answer before anything else. The reason may be empty if it waits for one.
func park(o *boulder.Open, reason string) boulder.Parked {
	b := boulder.Parked{AttemptRef: o.Attempt.AttemptRef, Reason: reason}
	awaited := o.SubTask.AwaitedBy(o.Attempt.Attempt)
	if len(awaited) > 0 {
		needs := boulder.Awaited(awaited)
		if reason != "" {
			needs += "; " + reason
		}
		b.Reason = "waits for " + needs
		if o.Turn != nil && o.Turn.Evidence != nil {
			b.Digest = prompts.WaitDigest("needed "+needs, *o.Turn.Evidence)
		}
	}
	if b.Digest == "" {
		b.Digest = "The attempt was stopped: " + b.Reason
	}
	for _, a := range awaited {
		b.Awaits = append(b.Awaits, a.ID)
	}
	return b
}

// retry ends an attempt, and tells the next one why.
func retry(o *boulder.Open, reason string, status boulder.AttemptStatus) boulder.Retry {
	b := boulder.Retry{
		AttemptRef: o.Attempt.AttemptRef, Reason: reason, Status: status, Next: o.Attempt.Attempt + 1, Digest: reason,
	}
	if o.Turn != nil && o.Turn.Verdict != nil {
		b.Digest = prompts.Digest(*o.Turn)
	}
	return b
}

// uncounted is a retry that is not a try: the attempt failed at nothing.
func uncounted(o *boulder.Open, reason string, status boulder.AttemptStatus) boulder.Retry {
	b := retry(o, reason, status)
	b.Uncounted, b.Digest = true, ""
	if o.Turn != nil && o.Turn.Evidence != nil {
		b.Digest = prompts.WaitDigest("could not know that "+reason, *o.Turn.Evidence)
	}
	return b
}

func fail(ref boulder.AttemptRef, reason string, status boulder.AttemptStatus) boulder.SubTaskDone {
	return boulder.SubTaskDone{AttemptRef: ref, Summary: reason, Status: boulder.SubTaskFailed, AttemptStatus: status}
}

func proceed(o *boulder.Open, reason string) boulder.Continuation {
	return boulder.Continuation{
		AttemptRef: o.Attempt.AttemptRef, Reason: reason, Remaining: append([]string{}, o.Turn.Verdict.Remaining...),
		Turn: o.Turn.Number + 1,
	}
}

func complete(o *boulder.Open) boulder.SubTaskDone {
	return boulder.SubTaskDone{
		AttemptRef: o.Attempt.AttemptRef, Completed: true, Summary: o.Turn.Verdict.Summary, Output: o.Turn.Verdict.OutputData,
		Status: boulder.SubTaskCompleted, AttemptStatus: boulder.AttemptCompleted,
	}
}

// RefuseReplan gives up the replan that is being made. The sub-task that asked for it fails, unless it is completed.
func RefuseReplan(s *boulder.State, why string) []boulder.Body {
	r := s.Boulder.Replan
	bodies := []boulder.Body{boulder.ReplanRefused{AttemptRef: r.AttemptRef, Reason: why}}
	if r.Attempt == 0 || s.Open(r.SubTaskID) == nil {
		return bodies
	}
	return append(bodies, fail(r.AttemptRef, r.Reason+" ("+why+")", boulder.AttemptFailed))
}

// raise makes the judge's words a hard blocker. Recorded, it parks the sub-task as one of the agent's does.
func (c *computing) raise(o *boulder.Open) Raise {
	v := o.Turn.Verdict
	said := fmt.Sprintf("The judge said of %s in a row that only you can remove what is in the way (%s). %s",
		text.Plural(o.SubTask.NeedsUser, "turn"), strings.ReplaceAll(v.BlockedBy, "_", " "), v.Summary)
	return c.blocker(o, needs(*v), cmp.Or(v.StuckReason, v.Summary), said+text.Prefixed("\nLeft to do: ", strings.Join(v.Remaining, "; ")))
}

func (c *computing) blocker(o *boulder.Open, category boulder.BlockerCategory, question, about string) Raise {
	return Raise{o, boulder.Blocker{
		BlockerScope: boulder.BlockerScope{
			BoulderID: c.s.Boulder.ID, SubTaskID: o.SubTask.ID, Attempt: o.Attempt.Attempt, SessionID: o.Attempt.SessionID,
		},
		Category: category, Question: question, Hard: true, Context: about,
	}}
}

// NotRaised parks a sub-task whose blocker could not be recorded: it needs the user all the same.
func NotRaised(o *boulder.Open, b boulder.Blocker, why error) boulder.Parked {
	return park(o, fmt.Sprintf("only you can remove what is in the way: %s (not recorded as a blocker: %v)", b.Question, why))
}
