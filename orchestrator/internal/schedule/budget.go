package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// budget is what a run and its sub-tasks may still spend (docs/rules.md). It is checked before every prompt and while
// turns are at work; usage seen of a running turn counts at once.
type budget struct {
	s        *boulder.State
	warn     float64
	exceeded string    // why nothing more may be spent
	tight    string    // why no further turn may begin, given the expected usage of the running ones
	attempts string    // why no further attempt may begin
	timeOut  time.Time // when the time is used up; zero: unlimited
	timeWarn time.Time // when most of it is, if there was no warning yet
	run      []dimension

	used, reserved boulder.Usage // of the run: booked or seen, and further expected
	worked         time.Duration
	starts         int   // by this computation
	judges         int64 // to be asked, by this computation
}

type dimension struct {
	name        string
	used, limit float64
	reserved    float64 // further expected usage of the running turns
	unit        func(float64) string
}

func newBudget(s *boulder.State, l Limits, now time.Time) *budget {
	b := &budget{s: s, warn: l.Warn}
	limit := s.Boulder.Budget
	if limit == nil {
		return b
	}
	b.used, b.worked = s.Boulder.Usage, s.Boulder.WorkedBy(now)
	for _, o := range s.Live() {
		b.used = b.used.Add(o.Attempt.Running())
		if o.Attempt.Status != boulder.AttemptMonitoring {
			b.reserve(o.Attempt.Running())
		}
	}
	b.check()
	if limit.Time > 0 && b.exceeded == "" && !s.Boulder.Asking() { // else the time stands still
		b.timeOut = s.Boulder.CountedTo().Add(time.Duration(limit.Time) - s.Boulder.Worked)
		if l.Warn > 0 && !slices.Contains(s.Boulder.Warned, boulder.BudgetWarning{Dimension: "time"}.Key()) {
			// A little later, so that rounding does not cause early wake-ups again and again.
			most := time.Duration(l.Warn*float64(limit.Time)) + time.Millisecond
			b.timeWarn = s.Boulder.CountedTo().Add(most - s.Boulder.Worked)
		}
	}
	return b
}

// reserve adds the usage expected of a turn beyond what was seen: the mean of the ended turns.
func (b *budget) reserve(seen boulder.Usage) {
	if n, sum := b.s.Boulder.Turns, b.s.Boulder.TurnUsage; n > 0 {
		b.reserved = b.reserved.Add(boulder.Usage{
			Input: max(0, sum.Input/n-seen.Input), Output: max(0, sum.Output/n-seen.Output),
			Calls: max(0, sum.Calls/n-seen.Calls), Cost: max(0, sum.Cost/float64(n)-seen.Cost),
		})
	}
}

func (b *budget) check() {
	limit := *b.s.Boulder.Budget
	b.run = dimensions(limit, b.used, b.reserved, b.worked)
	if used := usedUp(b.run); used != "" {
		b.exceeded = "the run's " + used
	}
	for _, d := range b.run {
		if d.used < d.limit && d.used+d.reserved >= d.limit && b.tight == "" {
			b.tight = fmt.Sprintf("the run's budget of %s is used up by what is running (%s used)", d.unit(d.limit), d.unit(d.used))
		}
	}
	if n := b.used.Unpriced - limit.Unpriced; limit.Cost > 0 && n > 0 {
		b.exceeded = "there is a " + unpriced(limit, n) + ": give the model a price in the configuration and set the budget " +
			"again, or limit tokens instead"
	}
	if n := limit.Attempts; n > 0 {
		started := b.s.Boulder.Attempts
		b.run = append(b.run, dimension{"attempts", float64(started), float64(n), 0, count("attempt")})
		if started+b.starts >= n {
			b.attempts = fmt.Sprintf("the run's budget of %s is used up", text.Plural(n, "attempt"))
		}
	}
}

func usedUp(all []dimension) string {
	if i := slices.IndexFunc(all, func(d dimension) bool { return d.used >= d.limit }); i >= 0 {
		return fmt.Sprintf("budget of %s is used up (%s)", all[i].unit(all[i].limit), all[i].unit(all[i].used))
	}
	return ""
}

func unpriced(limit boulder.Budget, calls int64) string {
	of := text.Plural(int(calls), "model call")
	return fmt.Sprintf("budget of %s, but the cost of %s is not known", text.Money(limit.Cost), of)
}

// reserveFor reserves the expected usage of the turn that an action begins, for checking the next action.
func (b *budget) reserveFor(a Action) {
	if b.s.Boulder.Budget == nil {
		return
	}
	switch a := a.(type) {
	case Apply:
		switch a.Body.(type) {
		case boulder.Starting:
			b.starts++
		case boulder.Continuation:
		default:
			return
		}
	case Judge:
		b.judges++
		return
	default:
		return
	}
	b.reserve(boulder.Usage{})
	b.check()
}

// dimensions returns the limited ones of tokens, cost, calls and time.
func dimensions(limit boulder.Budget, used, reserved boulder.Usage, worked time.Duration) []dimension {
	all := []dimension{
		{"tokens", float64(used.Tokens()), float64(limit.Tokens), float64(reserved.Tokens()), count("token")},
		{"cost", used.Cost, limit.Cost, reserved.Cost, text.Money},
		{"calls", float64(used.Calls), float64(limit.Calls), float64(reserved.Calls), count("model call")},
		{"time", worked.Seconds(), time.Duration(limit.Time).Seconds(), 0, func(s float64) string {
			return time.Duration(s * float64(time.Second)).Round(time.Second).String()
		}},
	}
	return slices.DeleteFunc(all, func(d dimension) bool { return d.limit <= 0 })
}

func count(what string) func(float64) string {
	return func(n float64) string { return text.Plural(int(n), what) }
}

// forbids says why a prompt must not be sent, or returns "". Running work ends only if the run's budget is exceeded.
func (b *budget) forbids(a Action) string {
	switch a := a.(type) {
	case Apply:
		switch a.Body.(type) {
		case boulder.Starting:
			return cmp.Or(b.exceeded, b.attempts, b.tight)
		case boulder.Continuation:
			return cmp.Or(b.exceeded, b.tight)
		}
	case Judge, Finish:
		limit := b.s.Boulder.Budget
		if b.exceeded != "" || limit == nil || limit.Calls == 0 || b.used.Calls+b.judges < limit.Calls {
			return b.exceeded
		}
		return fmt.Sprintf("the run's budget of %s is used up by what is running", text.Plural(int(limit.Calls), "model call"))
	case Run, AskPlan, AskReplan, Look:
		return b.exceeded
	}
	return ""
}

// overspent says which of a sub-task's own budgets is used up, or returns "". The open attempt may be nil.
func overspent(t *boulder.SubTask, o *boulder.Open) string {
	if used := usedUp(ofSubTask(t, o)); used != "" {
		return "its " + used
	}
	if b := t.Budget; b != nil && b.Cost > 0 && t.Usage.Unpriced > b.Unpriced {
		return "it has a " + unpriced(*b, t.Usage.Unpriced-b.Unpriced)
	}
	return ""
}

func ofSubTask(t *boulder.SubTask, o *boulder.Open) []dimension {
	used := t.Usage
	if o != nil {
		used = used.Add(o.Attempt.Running())
	}
	if t.Budget == nil {
		return nil
	}
	return dimensions(*t.Budget, used, boulder.Usage{}, t.Worked)
}

// warning returns the next warning due, of the run or of a sub-task at work, or nil.
func (b *budget) warning() *boulder.BudgetWarning {
	if b.warn == 0 {
		return nil
	}
	due := func(subTask string, dimensions []dimension) *boulder.BudgetWarning {
		for _, d := range dimensions {
			w := boulder.BudgetWarning{SubTaskID: subTask, Dimension: d.name, Used: d.used, Limit: d.limit}
			if d.used >= b.warn*d.limit && !slices.Contains(b.s.Boulder.Warned, w.Key()) {
				return &w
			}
		}
		return nil
	}
	w := due("", b.run)
	for _, o := range b.s.Live() {
		w = cmp.Or(w, due(o.SubTask.ID, ofSubTask(o.SubTask, o)))
	}
	return w
}
