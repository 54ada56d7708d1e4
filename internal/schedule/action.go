package schedule

import (
	"encoding/json"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// Action is something to do. [Run], [Judge] and [AskReplan] are work that should be under way now: whoever drives
// Compute starts what it has not started yet. [Wake] asks to be called again at a time; [Stop] ends the run.
// All the others are decisions: each becomes an event, after which Compute is asked again.
type Action any

// Start gives a queued attempt a slot.
type Start struct{ Open *boulder.Open }

// Complete ends a sub-task whose newest turn was judged complete.
type Complete struct {
	Open *boulder.Open
	// Skip are the sub-tasks that are not needed any more, because the goal is achieved; dependents come first.
	Skip []*boulder.SubTask
}

// Continue tells the attempt's session to go on.
type Continue struct {
	Open   *boulder.Open
	Reason string
	// Track and NotBefore are those of a loop, see [boulder.Continuation]. Forgotten are open items that a compaction
	// took off the agent's list.
	Track     json.RawMessage
	NotBefore time.Time
	Forgotten []string
}

// Retry ends an attempt and queues the next one.
type Retry struct {
	Open      *boulder.Open
	Reason    string
	Status    boulder.AttemptStatus // what the ended attempt becomes
	Uncounted bool                  // the ended attempt is not a try
	Track     json.RawMessage       // of a loop, see [boulder.Continuation]
}

// Replan begins to make anew what remains of the plan.
type Replan struct {
	Ref      boulder.AttemptRef // attempt 0: the sub-task is completed
	Reason   string
	Replaces []string
}

// Park ends an attempt because its sub-task needs a person. A turn that is at work is stopped first.
type Park struct {
	Open    *boulder.Open
	Awaits  []boulder.RaisedBlocker // an answer to these, before anything else
	Reason  string                  // may be empty with Awaits
	AtLimit bool                    // a loop has had all its turns
	Program string                  // a gate needs it, and it was not found
}

// Needs says what the sub-task needs, as what follows "waits for" or "needed"; empty if it awaits no answer.
func (p Park) Needs() string {
	if len(p.Awaits) == 0 {
		return ""
	}
	if p.Reason == "" {
		return boulder.Awaited(p.Awaits)
	}
	return boulder.Awaited(p.Awaits) + "; " + p.Reason
}

// Why is the reason for people.
func (p Park) Why() string {
	if needs := p.Needs(); needs != "" {
		return "waits for " + needs
	}
	return p.Reason
}

// Warn gives the soft warning of a budget.
type Warn struct{ Warning boulder.BudgetWarning }

// Fail ends a sub-task without success.
type Fail struct {
	Open   *boulder.Open
	Reason string
	Status boulder.AttemptStatus // what the attempt becomes
}

// Run says that the attempt's newest turn should be running.
type Run struct{ Open *boulder.Open }

// Judge says that the attempt's newest turn should be being judged.
type Judge struct{ Open *boulder.Open }

// AskReplan says that the Task Ledger should be being asked for a replan.
type AskReplan struct{ Replan *boulder.Replanning }

// RefuseReplan gives up a replan: nobody could be asked.
type RefuseReplan struct {
	Replan *boulder.Replanning
	Reason string
}

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
	SubTaskID string // everything that is left waits for a person: the first sub-task that does
	Budget    bool   // a budget is used up: the run's, or that of the sub-task
	AtLimit   bool   // for more turns of a loop
}

// Wake asks for another Compute at this time; the earliest one is given.
type Wake struct{ At time.Time }
