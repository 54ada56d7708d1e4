package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// budget is what a run, and its sub-tasks, may still spend (SEMANTICS §8). It is looked at before every prompt, and
// while turns are at work: what they were seen to use counts at once.
type budget struct {
	s        *boulder.State
	warn     float64
	exceeded string    // why nothing more may be spent
	tight    string    // why no further turn may begin, with what the running ones will probably use
	attempts string    // why no further attempt may begin
	timeOut  time.Time // when the time is used up; zero: it is not limited
	timeWarn time.Time // when most of it is, if that has not been told
	run      []dimension

	used, reserved boulder.Usage // of the run: booked or seen, and what turns will probably use besides
	worked         time.Duration
	starts         int   // decided on in this computation
	judges         int64 // that should be asked, by this computation
}

// dimension is one thing that is limited.
type dimension struct {
	name        string
	used, limit float64
	reserved    float64 // what the running turns will probably use besides
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
		b.used = b.used.Add(o.Running())
		if o.Attempt.Status != boulder.AttemptMonitoring {
			b.reserved = b.reserved.Add(rest(o.Running(), s.Boulder.TurnUsage, s.Boulder.Turns))
		}
	}
	b.look()
	if limit.Time > 0 && b.exceeded == "" {
		b.timeOut = s.Boulder.ClockAt.Add(time.Duration(limit.Time) - s.Boulder.Worked)
		most := time.Duration(l.Warn * float64(limit.Time))
		if l.Warn > 0 && !slices.Contains(s.Boulder.Warned, boulder.BudgetWarning{Dimension: "time"}.Key()) {
			// A moment later, so that rounding does not make it wake up too early, again and again.
			b.timeWarn = s.Boulder.ClockAt.Add(most - s.Boulder.Worked + time.Millisecond)
		}
	}
	return b
}

// look compares what is used, and what is reserved, with the run's budget.
func (b *budget) look() {
	limit := *b.s.Boulder.Budget
	b.run = dimensions(limit, b.used, b.reserved, b.worked)
	for _, d := range b.run {
		switch {
		case d.used >= d.limit:
			b.exceeded = fmt.Sprintf("the run's budget of %s is used up (%s)", d.unit(d.limit), d.unit(d.used))
		case d.used+d.reserved >= d.limit && b.tight == "":
			b.tight = fmt.Sprintf("the run's budget of %s is used up by what is running (%s used)",
				d.unit(d.limit), d.unit(d.used))
		}
	}
	if n := b.used.Unpriced - limit.Unpriced; limit.Cost > 0 && n > 0 {
		b.exceeded = fmt.Sprintf("there is a budget of %s, but the cost of %s is not known: give the model a price in the"+
			" configuration and set the budget again, or limit tokens instead", dollars(limit.Cost), text.Plural(int(n), "model call"))
	}
	if n := limit.Attempts; n > 0 {
		started := b.s.Boulder.Attempts
		b.run = append(b.run, dimension{"attempts", float64(started), float64(n), 0, count("attempt")})
		if started+b.starts >= n {
			b.attempts = fmt.Sprintf("the run's budget of %s is used up", text.Plural(n, "attempt"))
		}
	}
}

// take reserves what the turn that an action begins will probably use, so that the next action is measured with it.
func (b *budget) take(a Action) {
	if b.s.Boulder.Budget == nil {
		return
	}
	switch a.(type) {
	case boulder.Starting:
		b.starts++
	case boulder.Continuation:
	case Judge:
		b.judges++
		return
	default:
		return
	}
	b.reserved = b.reserved.Add(rest(boulder.Usage{}, b.s.Boulder.TurnUsage, b.s.Boulder.Turns))
	b.look()
}

// rest is what a running turn will probably use besides what it was seen to: the mean of the turns that have ended.
func rest(seen, sum boulder.Usage, turns int64) boulder.Usage {
	if turns == 0 {
		return boulder.Usage{}
	}
	return boulder.Usage{
		Input: max(0, sum.Input/turns-seen.Input), Output: max(0, sum.Output/turns-seen.Output),
		Calls: max(0, sum.Calls/turns-seen.Calls), Cost: max(0, sum.Cost/float64(turns)-seen.Cost),
	}
}

// dimensions are those of tokens, cost, calls and time that are limited.
func dimensions(limit boulder.Budget, used, reserved boulder.Usage, worked time.Duration) []dimension {
	all := []dimension{
		{"tokens", float64(used.Tokens()), float64(limit.Tokens), float64(reserved.Tokens()), count("token")},
		{"cost", used.Cost, limit.Cost, reserved.Cost, dollars},
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

func dollars(n float64) string { return fmt.Sprintf("$%.2f", n) }

// forbids says why an action's prompt must not be sent; empty if it may, or if the action sends none. What has begun is
// not its business: a used-up budget ends that as a whole.
func (b *budget) forbids(a Action) string {
	switch a.(type) {
	case boulder.Starting:
		return cmp.Or(b.exceeded, b.attempts, b.tight)
	case boulder.Continuation:
		return cmp.Or(b.exceeded, b.tight)
	case Judge:
		return cmp.Or(b.exceeded, b.calls())
	case Run, AskReplan:
		return b.exceeded
	}
	return ""
}

// calls says why no further judge may be asked, besides those that are being asked.
func (b *budget) calls() string {
	limit := b.s.Boulder.Budget
	if limit == nil || limit.Calls == 0 || b.used.Calls+b.judges < limit.Calls {
		return ""
	}
	return fmt.Sprintf("the run's budget of %s is used up by what is running", text.Plural(int(limit.Calls), "model call"))
}

// overspent says which budget of a sub-task's own is used up; empty if none is. The open attempt may be nil.
func overspent(t *boulder.SubTask, o *boulder.Open) string {
	if t.Budget == nil {
		return ""
	}
	for _, d := range ofSubTask(t, o) {
		if d.used >= d.limit {
			return fmt.Sprintf("its budget of %s is used up (%s)", d.unit(d.limit), d.unit(d.used))
		}
	}
	if n := t.Usage.Unpriced - t.Budget.Unpriced; t.Budget.Cost > 0 && n > 0 {
		return fmt.Sprintf("it has a budget of %s, but the cost of %s is not known",
			dollars(t.Budget.Cost), text.Plural(int(n), "model call"))
	}
	return ""
}

func ofSubTask(t *boulder.SubTask, o *boulder.Open) []dimension {
	used := t.Usage
	if o != nil {
		used = used.Add(o.Running())
	}
	return dimensions(*t.Budget, used, boulder.Usage{}, t.Worked)
}

// warning is the next soft warning that is due, of the run or of a sub-task at work; nil if none is.
func (b *budget) warning() *boulder.BudgetWarning {
	if b.warn == 0 {
		return nil
	}
	if w := b.due("", b.run); w != nil {
		return w
	}
	for _, o := range b.s.Live() {
		if o.SubTask.Budget == nil {
			continue
		}
		if w := b.due(o.SubTask.ID, ofSubTask(o.SubTask, o)); w != nil {
			return w
		}
	}
	return nil
}

func (b *budget) due(subTask string, dimensions []dimension) *boulder.BudgetWarning {
	for _, d := range dimensions {
		w := boulder.BudgetWarning{SubTaskID: subTask, Dimension: d.name, Used: d.used, Limit: d.limit}
		if d.used >= b.warn*d.limit && !slices.Contains(b.s.Boulder.Warned, w.Key()) {
			return &w
		}
	}
	return nil
}

// Affordable reports whether a parked sub-task could go on: its own budget, if it has one, is not used up.
func Affordable(t *boulder.SubTask) bool { return overspent(t, nil) == "" }

// Exceeded says why nothing more may be spent; empty while something may.
func Exceeded(s *boulder.State, l Limits, now time.Time) string { return newBudget(s, l, now).exceeded }
