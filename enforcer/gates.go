package enforcer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/internal/text"
)

// Gate names what decided about a session between two turns.
type Gate string

// The gates, in the order in which [Continue] asks them, with what opens them. Numbers are those of [WatchPolicy].
const (
	GateOwned      Gate = "owned"      // part of this work, or watched at the user's request
	GateAgent      Gate = "agent"      // not an agent to leave alone
	GateStopped    Gate = "stopped"    // not stopped by the user
	GateLetGo      Gate = "let_go"     // not left to the user before
	GateAbort      Gate = "abort"      // no abort within 3 s
	GateUndo       Gate = "undo"       // no turn was undone: a prompt would delete what a redo brings back
	GateWork       Gate = "work"       // something is left that the agent can do
	GateBackground Gate = "background" // no child at work and no result of one undelivered, in the whole tree
	GateAsks       Gate = "asks"       // no question or permission is pending, or it can do something without the answer
	GateCompaction Gate = "compaction" // no compaction is under way
	GateInFlight   Gate = "in_flight"  // no other continuation is under way
	GateBroken     Gate = "broken"     // the turn did not end for a reason that no prompt heals
	GateStuck      Gate = "stuck"      // the judge does not keep saying that the agent is stuck
	GateIdle       Gate = "idle"       // idle long enough, or the agent claims to be done
	GateAnswers    Gate = "answers"    // not the same answer, without progress, 5 times within 2 minutes
	GateCooldown   Gate = "cooldown"   // 30 s × 2^failures after the last continuation
	GateFailures   Gate = "failures"   // fewer than 5 without progress
	GateIterations Gate = "iterations" // fewer than 100
	GateBudget     Gate = "budget"     // some is left
	GateCheck      Gate = "check"      // the costly criteria were checked
	GateCountdown  Gate = "countdown"  // the toast was shown for 2 s
	GateOpen       Gate = "open"       // no gate is shut
)

// gates check one thing each. ask returns what to do if the gate is shut; nil: it is open.
var gates = []struct {
	name Gate
	ask  func(view) *Decision
}{
	{GateOwned, func(v view) *Decision {
		return waitIf(v.NotOwned != "", "the session is not watched: %s", v.NotOwned)
	}},
	{GateAgent, func(v view) *Decision {
		return waitIf(slices.Contains(v.SkipAgents, v.Agent), "the agent %s is left to the user", v.Agent)
	}},
	{GateStopped, func(v view) *Decision {
		return waitIf(v.Status == Stopped || v.StopRequested, "stopped: %s", v.Reason)
	}},
	{GateLetGo, func(v view) *Decision { return waitIf(v.Status == Exhausted, "left to the user: %s", v.Reason) }},
	{GateAbort, func(v view) *Decision {
		if v.AbortWindow <= 0 || v.AbortedAt.IsZero() {
			return nil
		}
		return v.until(v.AbortedAt.Add(v.AbortWindow), "a turn was aborted a moment ago")
	}},
	{GateUndo, func(v view) *Decision {
		return waitIf(v.Reverted, "you undid a turn: redo it, or write a prompt, which deletes it")
	}},
	{GateWork, work},
	{GateBackground, func(v view) *Decision {
		return waitIf(len(v.Background) > 0, "%s in the background: %s", text.Are(len(v.Background), "task"),
			strings.Join(v.Background, ", "))
	}},
	{GateAsks, func(v view) *Decision {
		asks := v.Asks
		if !v.goesAround() {
			for _, q := range v.Questions {
				asks = append(slices.Clip(asks), q.Says)
			}
		}
		return waitIf(len(asks) > 0, "it waits for an answer: %s", strings.Join(asks, ", "))
	}},
	{GateCompaction, func(v view) *Decision { return waitIf(v.Compacting, "the conversation is being compacted") }},
	{GateInFlight, func(v view) *Decision {
		switch {
		case v.Pending == "":
			return nil
		case v.Busy || v.Admission <= 0:
			return waitIf(true, "the continuation before is at work")
		}
		if d := v.until(v.LastEnforcement.Add(v.Admission), "the continuation before is on its way"); d != nil {
			return d
		}
		reason := fmt.Sprintf("no turn began for %s after the continuation before", round(v.Admission))
		return &Decision{Kind: Look, Reason: reason}
	}},
	{GateBroken, func(v view) *Decision {
		return letGoIf(v.Hopeless, "the turn ended with an error that no continuation heals: %s", v.Broken)
	}},
	{GateStuck, func(v view) *Decision {
		return letGoIf(v.Track.Stuck > 0 && reached(v.Track.Stuck, v.Policy.Stuck),
			"the judge said of %s in a row that it is stuck: %s", text.Plural(v.Track.Stuck, "turn"), v.StuckReason)
	}},
	{GateIdle, func(v view) *Decision {
		switch {
		case v.Busy:
			return waitIf(true, "it is at work")
		case v.Claimed: // words trigger; evidence decides
			return nil
		}
		idle := v.quietPeriod(v.Idle)
		return v.until(v.LastActivity.Add(idle), "not idle for %s yet", round(idle))
	}},
	// The agent answers quickly and always the same: another prompt would get the same answer.
	{GateAnswers, func(v view) *Decision {
		n := v.sameAnswers()
		return letGoIf(v.SameWindow > 0 && reached(n, v.SameAnswers), "continuations got the same answer %s within %s",
			text.Plural(n, "time"), round(v.SameWindow))
	}},
	{GateCooldown, func(v view) *Decision {
		n := v.failures()
		if v.Cooldown <= 0 || v.LastEnforcement.IsZero() || reached(n, v.MaxFailures) {
			return nil // GateFailures decides then
		}
		pause := v.quietPeriod(max(v.Cooldown, min(v.Cooldown<<min(n, 16), time.Hour)))
		return v.until(v.LastEnforcement.Add(pause), "cool-down of %s after %s without progress", round(pause),
			text.Plural(n, "continuation"))
	}},
	{GateFailures, failures},
	{GateIterations, func(v view) *Decision {
		return letGoIf(reached(v.Iteration, v.MaxIterations), "it was told to continue %s, which is the limit",
			text.Plural(v.Iteration, "time"))
	}},
	{GateBudget, func(v view) *Decision { return letGoIf(v.Overspent != "", "the budget is used up: %s", v.Overspent) }},
	{GateCheck, func(v view) *Decision {
		if v.incomplete() || v.Checked || len(v.Questions) > 0 {
			return nil
		}
		return &Decision{Kind: Check, Reason: "nothing is left on the list; now the checks that take time"}
	}},
	{GateCountdown, countdown},
}

// quietPeriod is how long to send nothing. After an error it is the usual time, in which the cause may pass.
func (v view) quietPeriod(usual time.Duration) time.Duration {
	if v.Broken != "" {
		return usual
	}
	return v.recheck(usual)
}

func waitIf(shut bool, format string, args ...any) *Decision {
	if !shut {
		return nil
	}
	return &Decision{Kind: Wait, Reason: fmt.Sprintf(format, args...)}
}

// until waits for due, unless that has passed.
func (v view) until(due time.Time, format string, args ...any) *Decision {
	if !v.now.Before(due) {
		return nil
	}
	args = append(args, round(due.Sub(v.now)))
	return &Decision{Kind: Wait, At: due, Reason: fmt.Sprintf(format+": %s left", args...)}
}

func letGoIf(shut bool, format string, args ...any) *Decision {
	if !shut {
		return nil
	}
	reason := fmt.Sprintf(format, args...)
	return &Decision{Kind: LetGo, Reason: reason, Toast: &Toast{Error, "manager lets go", sentence(reason)}}
}

// work stays open while anything is under way, because results show only afterwards; later gates name what it is. It
// also stays open until the costly criteria were checked, which a later gate asks for.
func work(v view) *Decision {
	switch {
	case v.incomplete(), v.Busy, v.Compacting, v.Pending != "", len(v.Background) > 0, len(v.Asks)+len(v.Questions) > 0:
		return nil
	case v.Turn == "":
		return waitIf(true, "no turn has ended yet")
	case v.Continuous:
		return nil
	case v.Status == Complete:
		return waitIf(true, "complete: %s", v.Reason)
	case !v.Checked:
		return nil
	case v.Blocked > 0:
		return letGoIf(true, "nothing is left that the agent can do: %s blocked", text.Are(v.Blocked, "item"))
	}
	reason := "everything that was asked for holds"
	return &Decision{Kind: Finish, Reason: reason, Toast: &Toast{Success, "Complete", sentence(reason)}}
}

func failures(v view) *Decision {
	n := v.failures()
	why := text.Prefixed("; the last one ended with: ", v.Broken)
	switch {
	case v.Same > 1 && reached(v.Same, v.MaxFailures):
		return letGoIf(true, "it said the same %d times and called no tool", v.Same)
	case !reached(n, v.MaxFailures):
		return nil
	case v.mayForget():
		return v.until(v.forgottenAt(), "%s in a row brought no progress%s; it is retried after a pause",
			text.Plural(n, "continuation"), why)
	case n == 0:
		return letGoIf(true, "no continuation is allowed that brings no progress")
	}
	return letGoIf(true, "%s in a row brought no progress%s", text.Plural(n, "continuation"), why)
}

// staleCountdown is how late the end of a countdown may be noticed: if the laptop slept, the user could not say no.
const staleCountdown = time.Minute

func countdown(v view) *Decision {
	if v.Countdown <= 0 {
		return nil
	}
	if !v.CountdownAt.IsZero() && !v.now.After(v.CountdownAt.Add(staleCountdown)) {
		return v.until(v.CountdownAt, "counting down: %s", v.cause())
	}
	toast := &Toast{Error, "manager continues in " + round(v.Countdown).String(), sentence(v.cause())}
	if v.Claimed && v.incomplete() {
		toast.Variant = Warning
	}
	return &Decision{Kind: Countdown, At: v.now.Add(v.Countdown), Reason: v.cause(), Toast: toast}
}

func sentence(reason string) string { return strings.ToUpper(reason[:1]) + reason[1:] + "." }
