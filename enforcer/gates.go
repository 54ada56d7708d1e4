package enforcer

import (
	"fmt"
	"strings"
	"time"

	"github.com/bouldermgr/manager/internal/text"
)

// Gate names what decided about a session between two turns.
type Gate string

// The gates, in the order in which [Continue] asks them (SEMANTICS §6).
const (
	GateOwned      Gate = "owned"      // a session that this work owns, or that a person asked to have watched
	GateStopped    Gate = "stopped"    // not stopped by a person
	GateLetGo      Gate = "let_go"     // not left to a person before
	GateAbort      Gate = "abort"      // no abort within 3 s
	GateUndo       Gate = "undo"       // the user has not undone a turn: a prompt would delete what redo brings back
	GateWork       Gate = "work"       // there is something left that the agent can do
	GateBackground Gate = "background" // no child at work, no result of one undelivered, in the whole tree
	GateAsks       Gate = "asks"       // no question and no permission waits
	GateCompaction Gate = "compaction" // no compaction is under way
	GateInFlight   Gate = "in_flight"  // no other continuation is on its way
	GateBroken     Gate = "broken"     // the turn did not end for a reason that nothing sent will heal
	GateIdle       Gate = "idle"       // idle long enough, or it says that it is done
	GateAnswers    Gate = "answers"    // not the same answer, without progress, 5 times within 2 minutes
	GateCooldown   Gate = "cooldown"   // 30 s × 2^failures after the continuation before
	GateFailures   Gate = "failures"   // fewer than 5 without progress
	GateIterations Gate = "iterations" // fewer than 100
	GateBudget     Gate = "budget"     // some is left
	GateCheck      Gate = "check"      // the costly criteria were looked at
	GateCountdown  Gate = "countdown"  // the toast was shown for 2 s
	GateOpen       Gate = "open"       // no gate is shut
)

// gates: each looks at one thing, and says what to do if it is shut.
var gates = []struct {
	name Gate
	ask  func(view) (d Decision, shut bool)
}{
	{GateOwned, owned},
	{GateStopped, stopped},
	{GateLetGo, alreadyLetGo},
	{GateAbort, aborted},
	{GateUndo, undone},
	{GateWork, work},
	{GateBackground, background},
	{GateAsks, asks},
	{GateCompaction, compaction},
	{GateInFlight, inFlight},
	{GateBroken, broken},
	{GateIdle, idle},
	{GateAnswers, answers},
	{GateCooldown, cooldown},
	{GateFailures, failures},
	{GateIterations, iterations},
	{GateBudget, budget},
	{GateCheck, check},
	{GateCountdown, countdown},
}

// forEvent waits until something happens.
func forEvent(format string, args ...any) (Decision, bool) {
	return Decision{Kind: Wait, Reason: fmt.Sprintf(format, args...)}, true
}

// until waits for a time, if that is to come.
func (v view) until(due time.Time, format string, args ...any) (Decision, bool) {
	if !v.now.Before(due) {
		return Decision{}, false
	}
	args = append(args, round(due.Sub(v.now)))
	return Decision{Kind: Wait, At: due, Reason: fmt.Sprintf(format+": %s left", args...)}, true
}

func letGo(format string, args ...any) (Decision, bool) {
	reason := fmt.Sprintf(format, args...)
	return Decision{
		Kind: LetGo, Reason: reason, Toast: &Toast{Error, "manager lets go", sentence(reason)},
	}, true
}

func owned(v view) (Decision, bool) {
	if v.Owned {
		return Decision{}, false
	}
	if v.NotOwned == "" {
		return forEvent("the session is not watched")
	}
	return forEvent("the session is not watched: %s", v.NotOwned)
}

func stopped(v view) (Decision, bool) {
	if v.Status != Stopped && !v.StopRequested {
		return Decision{}, false
	}
	return forEvent("stopped: %s", v.Reason)
}

func alreadyLetGo(v view) (Decision, bool) {
	if v.Status != Exhausted {
		return Decision{}, false
	}
	return forEvent("left to a person: %s", v.Reason)
}

func aborted(v view) (Decision, bool) {
	if v.AbortWindow <= 0 || v.AbortedAt.IsZero() {
		return Decision{}, false
	}
	return v.until(v.AbortedAt.Add(v.AbortWindow), "a turn was aborted a moment ago")
}

func undone(v view) (Decision, bool) {
	if !v.Reverted {
		return Decision{}, false
	}
	return forEvent("you undid a turn: redo it, or write a prompt, which deletes it")
}

// work leaves it to the gates below to say what is under way: what a session has done is seen when that is over. What
// costs something to find out is looked at last, too.
func work(v view) (Decision, bool) {
	switch {
	case v.incomplete(), v.Busy, v.Compacting, v.Pending != "", len(v.Background) > 0, len(v.Asks) > 0:
		return Decision{}, false
	case v.Turn == "":
		return forEvent("no turn has ended yet")
	case v.Continuous:
		return Decision{}, false
	case v.Status == Complete:
		return forEvent("complete: %s", v.Reason)
	case !v.Checked:
		return Decision{}, false
	case v.Blocked > 0:
		return letGo("nothing is left that the agent can do: %s blocked", are(v.Blocked, "item"))
	}
	reason := "everything that was asked for holds"
	return Decision{Kind: Finish, Reason: reason, Toast: &Toast{Success, "Complete", sentence(reason)}}, true
}

func background(v view) (Decision, bool) {
	if len(v.Background) == 0 {
		return Decision{}, false
	}
	return forEvent("%s in the background: %s", are(len(v.Background), "task"), strings.Join(v.Background, ", "))
}

func asks(v view) (Decision, bool) {
	if len(v.Asks) == 0 {
		return Decision{}, false
	}
	return forEvent("it waits for an answer: %s", strings.Join(v.Asks, ", "))
}

func compaction(v view) (Decision, bool) {
	if !v.Compacting {
		return Decision{}, false
	}
	return forEvent("the conversation is being compacted")
}

func inFlight(v view) (Decision, bool) {
	switch {
	case v.Pending == "":
		return Decision{}, false
	case v.Busy || v.Admission <= 0:
		return forEvent("the continuation before is at work")
	}
	due := v.LastEnforcement.Add(v.Admission)
	if d, early := v.until(due, "the continuation before is on its way"); early {
		return d, true
	}
	return Decision{
		Kind: Look, Reason: fmt.Sprintf("no turn began for %s after the continuation before", round(v.Admission)),
	}, true
}

func broken(v view) (Decision, bool) {
	if !v.Hopeless {
		return Decision{}, false
	}
	return letGo("the turn ended with an error that no continuation heals: %s", v.Broken)
}

func idle(v view) (Decision, bool) {
	switch {
	case v.Busy:
		return forEvent("it is at work")
	case v.Claimed: // words trigger; evidence decides
		return Decision{}, false
	}
	return v.until(v.LastActivity.Add(v.Idle), "not idle for %s yet", round(v.Idle))
}

// answers is for an agent that answers quickly, and always the same: told once more, it would say it once more.
func answers(v view) (Decision, bool) {
	n := v.sameAnswers()
	if v.SameWindow <= 0 || !reached(n, v.SameAnswers) {
		return Decision{}, false
	}
	return letGo("continuations got the same answer %s within %s", text.Plural(n, "time"), round(v.SameWindow))
}

// maxCooldown bounds the doubling.
const maxCooldown = time.Hour

// cooldown says nothing at the bound of failures: there is no continuation to cool down for.
func cooldown(v view) (Decision, bool) {
	n := v.failures()
	if v.Cooldown <= 0 || v.LastEnforcement.IsZero() || reached(n, v.MaxFailures) {
		return Decision{}, false
	}
	pause := Backoff(v.Policy, n)
	return v.until(v.LastEnforcement.Add(pause), "cool-down of %s after %s without progress", round(pause),
		text.Plural(n, "continuation"))
}

// Backoff is how long nothing is sent after a continuation when so many failed: Cooldown × 2^failures, at most an hour
// unless Cooldown is longer.
func Backoff(p Policy, failures int) time.Duration {
	pause := p.Cooldown
	for range failures {
		if pause >= maxCooldown/2 {
			return max(p.Cooldown, maxCooldown)
		}
		pause *= 2
	}
	return pause
}

func failures(v view) (Decision, bool) {
	n := v.failures()
	if !reached(n, v.MaxFailures) && !v.repeats() {
		return Decision{}, false
	}
	why := ""
	if v.Broken != "" {
		why = "; the last one ended with: " + v.Broken
	}
	switch {
	case v.repeats():
		return letGo("it said the same %d times and called no tool", v.Same)
	case v.mayForget():
		return v.until(v.forgottenAt(), "%s in a row brought no progress%s; it is tried anew after a pause",
			text.Plural(n, "continuation"), why)
	case n == 0:
		return letGo("no continuation is allowed that brings no progress")
	}
	return letGo("%s in a row brought no progress%s", text.Plural(n, "continuation"), why)
}

func iterations(v view) (Decision, bool) {
	if !reached(v.Iteration, v.MaxIterations) {
		return Decision{}, false
	}
	return letGo("it was told to go on %s, which is the limit", text.Plural(v.Iteration, "time"))
}

func budget(v view) (Decision, bool) {
	if v.Overspent == "" {
		return Decision{}, false
	}
	return letGo("the budget is used up: %s", v.Overspent)
}

func check(v view) (Decision, bool) {
	if v.incomplete() || v.Checked {
		return Decision{}, false
	}
	return Decision{Kind: Check, Reason: "nothing is left on the list; now the checks that take time"}, true
}

// staleCountdown is how late a countdown may be noticed to be over. A laptop that slept meanwhile has shown no toast to
// anybody who could have said no.
const staleCountdown = time.Minute

func countdown(v view) (Decision, bool) {
	if v.Countdown <= 0 {
		return Decision{}, false
	}
	if !v.CountdownAt.IsZero() && !v.now.After(v.CountdownAt.Add(staleCountdown)) {
		return v.until(v.CountdownAt, "counting down: %s", v.cause())
	}
	toast := &Toast{Error, "manager goes on in " + round(v.Countdown).String(), sentence(v.cause())}
	if v.Claimed && v.incomplete() {
		toast.Variant = Warning
	}
	return Decision{Kind: Countdown, At: v.now.Add(v.Countdown), Reason: v.cause(), Toast: toast}, true
}

// are counts things with their verb.
func are(n int, thing string) string {
	if n == 1 {
		return "1 " + thing + " is"
	}
	return text.Plural(n, thing) + " are"
}

// sentence makes a reason stand alone.
func sentence(reason string) string { return strings.ToUpper(reason[:1]) + reason[1:] + "." }
