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

// Action is something to do. [Apply] and [Finish] are decisions: the caller of Compute carries them out and asks again.
// [Run], [Judge], [Integrate], [Try], [AskPlan], [Look] and [AskReplan] are work that should be under way: start it if it is not.
// [Wake] asks for another call at a time; [Stop] ends the run.
type Action interface{ isAction() }

func (Apply) isAction()     {}
func (Run) isAction()       {}
func (Judge) isAction()     {}
func (Integrate) isAction() {}
func (Try) isAction()       {}
func (AskPlan) isAction()   {}
func (Look) isAction()      {}
func (AskReplan) isAction() {}
func (Finish) isAction()    {}
func (Stop) isAction()      {}
func (Wake) isAction()      {}

// Apply means that the state should get an event. The caller adds the tag and the prompt of a [boulder.Starting] and the id
// of a blocker, puts a prompt before that of a [boulder.Continuation], and stops a turn at work before a [boulder.Parked].
type Apply struct{ Body boulder.Body }

// apply returns the action for an event, or nil if there is none.
func apply(b boulder.Body) Action {
	if b == nil {
		return nil
	}
	return Apply{b}
}

// Run means that the attempt's newest turn should be running.
type Run struct{ Open *boulder.Open }

// Judge means that the attempt's newest turn should be with the judge.
type Judge struct{ Open *boulder.Open }

// AskPlan means that the Task Ledger should be making the first plan.
type AskPlan struct{}

// Look means that the runner should be looking at the project, for a plan, a replan or a review.
type Look struct{}

// AskReplan means that the Task Ledger should be replanning, or the user deciding about its proposal.
type AskReplan struct{}

// Finish ends the boulder: no attempt is ready or live.
type Finish struct {
	Status boulder.Status
	// Verify are completed sub-tasks whose gates have to rerun first, because other work ended after them.
	Verify []*boulder.SubTask
	// Last is the sub-task that ended last, if it worked alone: no file has changed since its gates ran.
	Last *boulder.SubTask
	// Check means that, after that, the Progress Ledger has to be asked whether the whole request is met.
	Check bool
}

// Stop ends the run, which must not or cannot continue as it is; turns at work end, and are resumed later. Without
// Budget, AtLimit and SubTaskID the reason is a repeated infrastructure error that meets every sub-task, or a provider's
// limit that ends too late to wait for.
type Stop struct {
	Reason    string
	SubTaskID string // everything left waits for the user: the first such sub-task
	Budget    bool   // a budget is used up: of the run, or of the sub-task
	AtLimit   bool   // a loop has had all its turns
}

// Wake asks for another Compute at this time, the earliest of those wanted.
type Wake struct{ At time.Time }

// park makes a sub-task wait for the user, and first for any answers. reason may be empty if it awaits an answer.
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

func retry(o *boulder.Open, reason string, status boulder.AttemptStatus) boulder.Retry {
	b := boulder.Retry{
		AttemptRef: o.Attempt.AttemptRef, Reason: reason, Status: status, Next: o.Attempt.Attempt + 1, Digest: reason,
	}
	if o.Turn != nil && o.Turn.Verdict != nil {
		b.Digest = prompts.Digest(*o.Turn)
	}
	return b
}

// uncounted returns a retry that uses up no try: the agent did not fail.
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

// RefuseReplan gives up the replan in progress. The sub-task that asked for it fails, unless it is completed.
func RefuseReplan(s *boulder.State, why string) []boulder.Body {
	r := s.Boulder.Replan
	bodies := []boulder.Body{boulder.ReplanRefused{AttemptRef: r.AttemptRef, Reason: why}}
	if r.Attempt == 0 || s.Open(r.SubTaskID) == nil {
		return bodies
	}
	return append(bodies, fail(r.AttemptRef, r.Reason+" ("+why+")", boulder.AttemptFailed))
}

// raise turns the verdict into a hard blocker, which parks the sub-task like one that the agent raised.
func (c *computing) raise(o *boulder.Open) boulder.BlockerRaised {
	v := o.Turn.Verdict
	said := fmt.Sprintf("The judge said of %s in a row that only you can remove what is in the way (%s). %s",
		text.Plural(o.SubTask.NeedsUser, "turn"), strings.ReplaceAll(v.BlockedBy, "_", " "), v.Summary)
	question := cmp.Or(v.StuckReason, v.Summary)
	if v.Needs() == "" {
		question = "Its agent cannot do what is left" + blockedItems(o.Turn.Evidence)
		said = "Its list has only blocked items left, and the judge says that it is not complete. " + v.Summary
	}
	return c.blocker(o, cmp.Or(v.Needs(), boulder.BlockerOther), question, said+text.Prefixed("\nLeft to do: ", strings.Join(v.Remaining, "; ")))
}

func (c *computing) blocker(o *boulder.Open, category boulder.BlockerCategory, question, about string) boulder.BlockerRaised {
	return boulder.BlockerRaised{AttemptRef: o.Attempt.AttemptRef, Blocker: boulder.Blocker{
		BlockerScope: boulder.BlockerScope{
			BoulderID: c.s.Boulder.ID, SubTaskID: o.SubTask.ID, Attempt: o.Attempt.Attempt, SessionID: o.Attempt.SessionID,
		},
		Category: category, Question: text.Cut(question, boulder.MaxQuestion), Hard: true, Context: text.Cut(about, boulder.MaxContext),
		Status: boulder.BlockerPending, CreatedAt: c.now,
	}}
}
