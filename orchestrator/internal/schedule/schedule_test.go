package schedule

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const ledgerModel = "q/ledger"

// begun returns a running boulder with these sub-tasks.
func begun(t *testing.T, specs ...boulder.Spec) *boulder.State {
	return begunWith(t, boulder.Boulder{}, specs...)
}

func begunWith(t rapid.TB, head boulder.Boulder, specs ...boulder.Spec) *boulder.State {
	t.Helper()
	s := boulder.NewState()
	head.ID, head.LedgerModel = "b1", ledgerModel
	rev := boulder.PlanRevision{Number: 1, Plan: boulder.Plan{SubTasks: specs}}
	feed(t, s, epoch, boulder.Created{Boulder: head}, boulder.Planned{Plan: rev}, boulder.Decomposed{Plan: rev, GatesApproved: true})
	return s
}

// TestAfterVerdict is SEMANTICS §4, line by line.
func TestAfterVerdict(t *testing.T) {
	t.Parallel()
	done, stuck := boulder.Verdict{Completed: true}, boulder.Verdict{IsStuck: true}
	tests := map[string]struct {
		verdict boulder.Verdict
		ended   boulder.Ended
		turns   int
		tries   int // before this attempt
		stalls  int
		needs   int // consecutive verdicts that need the user, with this one
		idle    int
		same    bool // diff and failing gates as in the attempt before
		budget  *boulder.Budget
		replans int // earlier ones
		want    string
	}{
		"complete":                          {verdict: done, want: "complete"},
		"complete wins over a loop":         {verdict: boulder.Verdict{Completed: true, IsInLoop: true}, want: "complete"},
		"complete wins over a broken end":   {verdict: done, ended: boulder.Ended{Error: "APIError"}, want: "complete"},
		"complete wins over the wall clock": {verdict: done, ended: stopped(boulder.RuleWallClock), want: "complete"},
		"complete wins over a used-up budget": {
			verdict: done, ended: stopped(boulder.RuleBudget), budget: &boulder.Budget{Tokens: 1}, want: "complete",
		},
		"complete in the last turn of the last try": {verdict: done, turns: 5, tries: 2, want: "complete"},
		"complete comes before a wish to replan": {
			verdict: boulder.Verdict{Completed: true, NeedReplan: true}, want: "complete",
		},

		"incomplete":       {want: "continue"},
		"truncated":        {ended: boulder.Ended{Finish: "length", Truncated: "length"}, want: "continue"},
		"truncated, error": {ended: boulder.Ended{Error: "MessageOutputLengthError", Truncated: "length"}, want: "continue"},
		"not judged":       {verdict: boulder.Verdict{JudgeUnavailable: true}, want: "continue"},
		"one stall":        {stalls: 1, want: "continue"},
		"fourth turn":      {turns: 4, want: "continue"},
		"third turn without a tool call: the nudge": {idle: 3, want: "continue"},
		"blocked by something else":                 {verdict: boulder.Verdict{BlockedBy: "environment"}, needs: 2, want: "continue"},
		"the user is needed, for the first time":    {verdict: boulder.Verdict{BlockedBy: "permission"}, needs: 1, want: "continue"},

		"the user is needed": {verdict: boulder.Verdict{BlockedBy: "permission"}, needs: 2, want: "raise"},
		"the user is needed, stuck and a wish to replan": {
			verdict: boulder.Verdict{BlockedBy: "external", IsStuck: true, NeedReplan: true}, needs: 2, stalls: 2, want: "raise",
		},
		"the user is needed, and the budget used up": {
			verdict: boulder.Verdict{BlockedBy: "missing_info"}, needs: 2, budget: &boulder.Budget{Tokens: 100}, want: "raise",
		},
		"the user was needed before it was complete": {verdict: done, needs: 2, want: "complete"},

		"fifth turn":                         {turns: 5, want: "retry failed"},
		"fourth turn without a tool call":    {idle: 4, want: "retry failed"},
		"stuck":                              {verdict: stuck, want: "retry failed"},
		"loop":                               {verdict: boulder.Verdict{IsInLoop: true}, want: "retry failed"},
		"stopped by a rule":                  {ended: stopped(boulder.RuleRepeat), want: "retry failed"},
		"stopped by silence":                 {ended: stopped(boulder.RuleSilence), want: "retry failed"},
		"stopped by the wall clock":          {ended: stopped(boulder.RuleWallClock), want: "retry timeout"},
		"broken":                             {ended: boulder.Ended{Error: "ContextOverflowError"}, want: "retry failed"},
		"second try":                         {verdict: stuck, tries: 1, want: "retry failed"},
		"the same result, but it was judged": {same: true, want: "continue"},
		"own budget of four": {
			verdict: stuck, tries: 2, budget: &boulder.Budget{Attempts: 4}, want: "retry failed",
		},

		"third try":           {verdict: stuck, tries: 2, want: "replan"},
		"third try timed out": {ended: stopped(boulder.RuleWallClock), tries: 2, want: "replan"},
		"own budget of one":   {verdict: stuck, budget: &boulder.Budget{Attempts: 1}, want: "replan"},
		"the same result":     {verdict: stuck, same: true, want: "replan"},
		"two stalls":          {stalls: 2, want: "replan"},
		"wrong plan":          {verdict: boulder.Verdict{BlockedBy: "wrong_plan"}, want: "replan"},
		"a wish to replan":    {verdict: boulder.Verdict{NeedReplan: true}, want: "replan"},
		"last replan":         {stalls: 2, replans: 1, want: "replan"},

		"third try, no replan left":       {verdict: stuck, tries: 2, replans: 2, want: "fail failed"},
		"the same result, no replan left": {verdict: stuck, same: true, replans: 2, want: "fail failed"},
		"two stalls, no replan left":      {stalls: 2, replans: 2, want: "retry failed"},
		"third try timed out, no replan left": {
			ended: stopped(boulder.RuleWallClock), tries: 2, replans: 2, want: "fail timeout",
		},
		"two stalls in the last try, no replan left": {
			stalls: 2, tries: 2, replans: 2, want: "fail failed",
		},
		"wrong plan, no replan left": {
			verdict: boulder.Verdict{BlockedBy: "wrong_plan"}, replans: 2, want: "retry failed",
		},

		"stopped by its budget":       {ended: stopped(boulder.RuleBudget), want: "park"},
		"its budget is used up":       {budget: &boulder.Budget{Tokens: 100}, want: "park"},
		"its budget is not used up":   {budget: &boulder.Budget{Tokens: 101}, want: "continue"},
		"its calls are used up":       {budget: &boulder.Budget{Calls: 4}, want: "park"},
		"its time is used up":         {budget: &boulder.Budget{Time: boulder.Duration(time.Minute)}, want: "park"},
		"its money is used up":        {budget: &boulder.Budget{Cost: 0.5}, want: "park"},
		"its cost is not known":       {budget: &boulder.Budget{Cost: 9}, want: "park"},
		"out of budget, also stalled": {ended: stopped(boulder.RuleBudget), stalls: 2, want: "park"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &boulder.Open{
				SubTask: &boulder.SubTask{
					ID: "a", Tries: test.tries, Stalls: test.stalls, NeedsUser: test.needs, Budget: test.budget, LastResult: "of the attempt before",
					Usage: boulder.Usage{Input: 90, Output: 10, Calls: 4, Cost: 0.5, Unpriced: 3}, Worked: time.Minute,
				},
				Attempt: &boulder.Attempt{
					Status: boulder.AttemptMonitoring, Turns: max(test.turns, 1), Idle: test.idle, Result: "another",
				},
				Turn: &boulder.Turn{Verdict: &test.verdict, Evidence: &boulder.Evidence{Ended: test.ended}},
			}
			if test.same {
				o.Attempt.Result = o.SubTask.LastResult
			}
			c := computingFor(DefaultLimits()) // 3 tries, 5 turns, 2 stalls, 2 replans, 3 idle turns
			c.s.Boulder.Replans = test.replans
			if got := kindOf(c.afterVerdict(o)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func stopped(rule boulder.Rule) boulder.Ended {
	return boulder.Ended{Stopped: "by " + string(rule), Rule: rule}
}

func computingFor(l Limits) *computing {
	s := boulder.NewState()
	return newComputing(s, l, epoch)
}

// bodyOf returns the event that an action applies, or nil.
func bodyOf(a Action) boulder.Body {
	decided, _ := a.(Apply)
	return decided.Body
}

func kindOf(a Action) string {
	switch a := bodyOf(a).(type) {
	case boulder.Starting:
		return "start"
	case boulder.Continuation:
		return "continue"
	case boulder.Retry:
		if a.Uncounted {
			return "retry uncounted " + string(a.Status)
		}
		return "retry " + string(a.Status)
	case boulder.ReplanStarted:
		return "replan"
	case boulder.BlockerRaised:
		return "raise"
	case boulder.Parked:
		return "park"
	case boulder.SubTaskDone:
		return map[boulder.SubTaskStatus]string{
			boulder.SubTaskCompleted: "complete", boulder.SubTaskSkipped: "skip", boulder.SubTaskFailed: "fail " + string(a.AttemptStatus),
		}[a.Status]
	}
	if a == nil {
		return "nothing"
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", a), "schedule."))
}

func kindsOf(actions []Action) string {
	var kinds []string
	for _, a := range actions {
		kinds = append(kinds, kindOf(a))
	}
	return strings.Join(kinds, ", ")
}

func TestNext(t *testing.T) {
	t.Parallel()
	const starting, executing, monitoring = boulder.AttemptStarting, boulder.AttemptExecuting, boulder.AttemptMonitoring
	later := epoch.Add(time.Second)
	cooling := map[string]boulder.Cooldown{"p/m": {Until: later, Hits: 10, Limit: 1}}
	refusing := map[string]boulder.Cooldown{"p/m": {Until: later, Hits: 11, Limit: 1}}
	over := map[string]boulder.Cooldown{"p/m": {Until: epoch, Hits: 11, Limit: 1}}
	tests := map[string]struct {
		attempt boulder.Attempt
		turn    boulder.Turn
		cooling map[string]boulder.Cooldown // of p/m, the model of agents and ledgers
		budget  int64
		want    string
	}{
		"starting":          {attempt: boulder.Attempt{Status: starting}, want: "run"},
		"executing":         {attempt: boulder.Attempt{Status: executing}, want: "run"},
		"monitoring":        {attempt: boulder.Attempt{Status: monitoring}, want: "judge"},
		"after two faults":  {attempt: boulder.Attempt{Status: executing, Troubles: 2}, want: "run"},
		"after three":       {attempt: boulder.Attempt{Status: executing, Troubles: 3}, want: "park"},
		"judge after two":   {attempt: boulder.Attempt{Status: monitoring, Troubles: 2}, want: "judge"},
		"judge after three": {attempt: boulder.Attempt{Status: monitoring, Troubles: 3}, want: "stop"},
		"backing off":       {attempt: boulder.Attempt{Status: executing, NotBefore: later}, want: "wake"},
		"judge backing off": {attempt: boulder.Attempt{Status: monitoring, NotBefore: later}, want: "wake"},
		"back-off is over":  {attempt: boulder.Attempt{Status: executing, NotBefore: epoch}, want: "run"},
		"judged, whatever the back-off": {
			attempt: boulder.Attempt{Status: monitoring, NotBefore: later, Turns: 1},
			turn:    boulder.Turn{Verdict: &boulder.Verdict{Completed: true}, Evidence: &boulder.Evidence{}},
			want:    "complete",
		},
		"not sent, its model cools down": {attempt: boulder.Attempt{Status: executing}, cooling: cooling, want: "wake"},
		"sent: look after it all the same": {
			attempt: boulder.Attempt{Status: executing}, turn: boulder.Turn{MessageID: "m"}, cooling: cooling, want: "run",
		},
		"judge, its model cools down": {attempt: boulder.Attempt{Status: monitoring}, cooling: cooling, want: "wake"},
		"ten rate limits in a row": {
			attempt: boulder.Attempt{Status: executing, Reason: "429", NotBefore: later}, cooling: cooling, want: "wake",
		},
		"eleven": {
			attempt: boulder.Attempt{Status: executing, Reason: "429", NotBefore: later}, cooling: refusing, want: "park",
		},
		"eleven, but it met none": {
			attempt: boulder.Attempt{Status: executing}, turn: boulder.Turn{MessageID: "m"}, cooling: refusing, want: "run",
		},
		"eleven, and once more": {attempt: boulder.Attempt{Status: executing, Reason: "429"}, cooling: over, want: "run"},
		"eleven, of which others met the last ones while it was at work again": {
			attempt: boulder.Attempt{Status: executing, Reason: "429", NotBefore: epoch},
			turn:    boulder.Turn{MessageID: "m"}, cooling: refusing, want: "wake",
		},
		"judge after eleven": {
			attempt: boulder.Attempt{Status: monitoring, Reason: "429", NotBefore: later}, cooling: refusing, want: "stop",
		},
		"within its budget":     {attempt: boulder.Attempt{Status: executing}, budget: 101, want: "run"},
		"its budget is used up": {attempt: boulder.Attempt{Status: executing}, budget: 100, want: "park"},
		"used up by what is seen of the turn": {
			attempt: boulder.Attempt{Status: executing, Seen: boulder.Usage{Input: 20}, Spent: boulder.Usage{Output: 30}},
			budget:  150, want: "park",
		},
		"judging is not held back": {attempt: boulder.Attempt{Status: monitoring}, budget: 100, want: "judge"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.attempt.Model = "p/m"
			o := &boulder.Open{
				SubTask: &boulder.SubTask{Usage: boulder.Usage{Input: 100}}, Attempt: &test.attempt, Turn: &test.turn,
			}
			if test.budget > 0 {
				o.SubTask.Budget = &boulder.Budget{Tokens: test.budget}
			}
			c := computingFor(DefaultLimits())
			c.s.Boulder.LedgerModel, c.s.Boulder.Cooldowns = "p/m", test.cooling
			if got := kindOf(c.next(o)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestLost(t *testing.T) {
	t.Parallel()
	limits := DefaultLimits()
	for lost, want := range map[int]string{
		0: "retry uncounted lost", 2: "retry uncounted lost", 3: "fail lost",
	} {
		// Attempts that failed or were parked do not count as lost sessions.
		o := &boulder.Open{SubTask: &boulder.SubTask{Lost: lost, Tries: 2, Attempts: 9}, Attempt: &boulder.Attempt{}}
		if got := kindOf(apply(Failed(boulder.NewState(), limits, epoch, o, boulder.ErrSessionLost)[0])); got != want {
			t.Errorf("another session lost after %d: %s, want %s", lost, got, want)
		}
	}
}

// TestDoubled: the wait doubles up to its maximum, for any limits and any count.
func TestDoubled(t *testing.T) {
	t.Parallel()
	l := DefaultLimits()
	if got := doubled(l.Backoff, l.Backoff<<10, 1000); got != 512*time.Second {
		t.Errorf("after fault 1,000: %s", got)
	}
	for n, want := range map[int]time.Duration{
		0: 5 * time.Second, 1: 5 * time.Second, 2: 10 * time.Second, 6: 160 * time.Second, 7: 5 * time.Minute,
		1000: 5 * time.Minute,
	} {
		if got := doubled(l.CoolBase, l.CoolMax, n); got != want {
			t.Errorf("after hit %d: %s, want %s", n, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		l.CoolBase = time.Duration(rapid.Int64Min(0).Draw(t, "base"))
		l.CoolMax = time.Duration(rapid.Int64Min(0).Draw(t, "max"))
		last := time.Duration(0)
		for n := range 70 {
			wait := doubled(l.CoolBase, l.CoolMax, n)
			if wait < last || wait > l.CoolMax || n == 69 && l.CoolBase > 0 && wait != l.CoolMax {
				t.Fatalf("hit %d waits %s after %s, of at most %s", n, wait, last, l.CoolMax)
			}
			last = wait
		}
	})
}

func TestModelPatterns(t *testing.T) {
	t.Parallel()
	defaults := DefaultLimits()
	tests := map[string]int{
		"openai/gpt-4o": 3, "openai/gpt-4o-mini": 3, "OpenAI/GPT-4o": 3,
		"anthropic/claude-sonnet-4-5": 5, "openrouter/anthropic/claude-3.5-sonnet": 5,
		"anthropic/claude-haiku-4-5": 10, "xai/grok-4": 10, "openai/gpt-5": 5, "": 5,
		"anthropic/claude-opus-4": 5,
	}
	for model, want := range tests {
		if got := defaults.Model(model); got != want {
			t.Errorf("%q: %d slots, want %d", model, got, want)
		}
	}
	first := Limits{Models: []ModelLimit{{"p/special", 1}, {"p/*", 2}, {"*", 3}}, PerModel: 9}
	for model, want := range map[string]int{"p/special": 1, "p/special2": 2, "q/special": 3} {
		if got := first.Model(model); got != want {
			t.Errorf("%q: %d slots, want %d: the first pattern that matches counts", model, got, want)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	if err := DefaultLimits().Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	tests := map[string]func(*Limits){
		"global is 0":         func(l *Limits) { l.Global = 0 },
		"per_model is -1":     func(l *Limits) { l.PerModel = -1 },
		"of models x/* is -2": func(l *Limits) { l.Models = []ModelLimit{{"x/*", -2}} },
		"of provider q is -3": func(l *Limits) { l.Providers = map[string]int{"q": -3} },
		"attempts is 0":       func(l *Limits) { l.Attempts = 0 },
		"evaluations is 0":    func(l *Limits) { l.Evaluations = 0 },
		"troubles is -1":      func(l *Limits) { l.Troubles = -1 },
		"backoff is -1s":      func(l *Limits) { l.Backoff = -time.Second },
		"stalls is 0":         func(l *Limits) { l.Stalls = 0 },
		"replans is -1":       func(l *Limits) { l.Replans = -1 },
		"idle_turns is 0":     func(l *Limits) { l.IdleTurns = 0 },
		"cooldowns is -1":     func(l *Limits) { l.Cooldowns = -1 },
		"cool_base is -1s":    func(l *Limits) { l.CoolBase = -time.Second },
		"cool_max is -1s":     func(l *Limits) { l.CoolMax = -time.Second },
		"reset_max is -1s":    func(l *Limits) { l.ResetMax = -time.Second },
		"warn is -0.1":        func(l *Limits) { l.Warn = -0.1 },
		"warn is 1.1":         func(l *Limits) { l.Warn = 1.1 },
		"warn is NaN":         func(l *Limits) { l.Warn = math.NaN() },
	}
	for want, spoil := range tests {
		l := DefaultLimits()
		spoil(&l)
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	forbidden := DefaultLimits()
	forbidden.Models = []ModelLimit{{"*opus*", 0}}
	if err := forbidden.Validate(); err != nil {
		t.Errorf("a forbidden model is refused: %v", err)
	}
}

// TestStartable: a limit of 0 would make a run wait for ever. The error names the sub-tasks and what to do.
func TestStartable(t *testing.T) {
	t.Parallel()
	s := begun(t, []boulder.Spec{
		{ID: "a", Model: "p/x"}, {ID: "b", Model: "p/opus"}, {ID: "c", Model: "p/opus", DependsOn: []string{"a"}},
	}...)
	l := DefaultLimits()
	if err := Startable(s, l); err != nil {
		t.Errorf("with the defaults: %v", err)
	}
	l.Models = []ModelLimit{{"*opus", 0}}
	want := `no slots of p/opus are allowed (the limit is 0), which stops 2 sub-tasks (the first is "b"): ` +
		`raise that limit or use another model`
	if err := Startable(s, l); err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	l.Providers = map[string]int{"p": 0}
	if err := Startable(s, l); err == nil || strings.Count(err.Error(), "provider p") != 2 {
		t.Errorf("got %v, want both models of the provider", err)
	}
	ref := boulder.AttemptRef{SubTaskID: "b", Attempt: 1}
	skip := boulder.SubTaskDone{AttemptRef: ref, Status: boulder.SubTaskSkipped, AttemptStatus: boulder.AttemptCancelled}
	feed(t, s, epoch, skip)
	l = DefaultLimits()
	l.Models = []ModelLimit{{"*opus", 0}}
	if err := Startable(s, l); err == nil || !strings.Contains(err.Error(), "stops 1 sub-task (") {
		t.Errorf("got %v, want the one that still has to run", err)
	}
}

func starts(s *boulder.State, l Limits) []string {
	var ids []string
	for _, a := range Compute(s, l, epoch) {
		if start, ok := bodyOf(a).(boulder.Starting); ok {
			ids = append(ids, start.SubTaskID)
		}
	}
	return ids
}

func TestDispatch(t *testing.T) {
	t.Parallel()
	plan := []boulder.Spec{
		{ID: "low", Model: "p/one", Priority: boulder.Low}, {ID: "first", Model: "p/one"},
		{ID: "second", Model: "p/one"}, {ID: "urgent", Model: "p/two", Priority: boulder.High},
		{ID: "other", Model: "q/three"}, {ID: "low other", Model: "q/three", Priority: boulder.Low},
	}
	tests := map[string]struct {
		limits Limits
		want   []string
	}{
		"room for all": {
			Limits{EvaluationsTotal: 15, Global: 9, PerModel: 9}, []string{"urgent", "first", "second", "other", "low", "low other"},
		},
		"room for two":      {Limits{EvaluationsTotal: 15, Global: 2, PerModel: 9}, []string{"urgent", "first"}},
		"one of each model": {Limits{EvaluationsTotal: 15, Global: 9, PerModel: 1}, []string{"urgent", "first", "other"}},
		"a full model does not hold up the others": {
			Limits{EvaluationsTotal: 15, Global: 9, Models: []ModelLimit{{"p/one", 0}}, PerModel: 9}, []string{"urgent", "other", "low other"},
		},
		"a full provider neither": {
			Limits{EvaluationsTotal: 15, Global: 9, Providers: map[string]int{"p": 1}, PerModel: 9}, []string{"urgent", "other", "low other"},
		},
		"nothing allowed": {Limits{}, nil},
	}
	for name, test := range tests {
		if d := cmp.Diff(test.want, starts(begun(t, plan...), test.limits)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestDispatchBetweenModels: the longest wait goes first, whatever the plan's order.
func TestDispatchBetweenModels(t *testing.T) {
	t.Parallel()
	s := begun(t, []boulder.Spec{{ID: "a", Model: "p/one"}, {ID: "b", Model: "q/two"}}...)
	ref := boulder.AttemptRef{SubTaskID: "a", Attempt: 1}
	feed(t, s, epoch, boulder.Starting{AttemptRef: ref}, boulder.Retry{AttemptRef: ref, Status: boulder.AttemptFailed, Next: 2})
	if d := cmp.Diff([]string{"b"}, starts(s, Limits{EvaluationsTotal: 15, Global: 1, PerModel: 1})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestWake(t *testing.T) {
	t.Parallel()
	s := begun(t, []boulder.Spec{{ID: "a"}, {ID: "b"}, {ID: "c"}}...)
	for id, wait := range map[string]time.Duration{"a": 3 * time.Second, "b": time.Second, "c": 2 * time.Second} {
		ref := boulder.AttemptRef{SubTaskID: id, Attempt: 1}
		feed(t, s, epoch, boulder.Starting{AttemptRef: ref}, boulder.Trouble{AttemptRef: ref, NotBefore: epoch.Add(wait)})
	}
	got := Compute(s, DefaultLimits(), epoch)
	if len(got) != 1 || got[0] != (Wake{At: epoch.Add(time.Second)}) {
		t.Errorf("got %v", got)
	}
}

// TestStartAt: before its time a boulder only waits, in any status, and its time budget does not run.
func TestStartAt(t *testing.T) {
	t.Parallel()
	at := epoch.Add(time.Hour)
	s := begun(t, boulder.Spec{ID: "a"})
	s.Boulder.StartAt, s.Boulder.Budget = at, &boulder.Budget{Time: boulder.Duration(time.Minute)}
	for _, status := range []boulder.Status{boulder.Running, boulder.Planning} {
		s.Boulder.Status = status
		if got := Compute(s, DefaultLimits(), at.Add(-1)); len(got) != 1 || got[0] != (Wake{At: at}) {
			t.Errorf("%s, before: %v", status, got)
		}
	}
	s.Boulder.Status = boulder.Running
	got := Compute(s, DefaultLimits(), at)
	if want := (Wake{At: at.Add(48*time.Second + time.Millisecond)}); len(got) != 2 || got[1] != want {
		t.Errorf("then: %v", got)
	}
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	s := begun(t, []boulder.Spec{
		{ID: "a", Model: "p/one"}, {ID: "b", Model: "p/one"}, {ID: "c", Model: "p/one", Priority: boulder.High},
		{ID: "d", Model: "q/two"}, {ID: "e", Model: "q/two", DependsOn: []string{"d"}},
	}...)
	l := Limits{EvaluationsTotal: 15, Global: 9, Models: []ModelLimit{{"p/one", 1}}, PerModel: 9}
	applyAll(t, s, epoch, Compute(s, l, epoch))
	full := "the one slot of p/one is taken"
	want := []WaitingAttempt{
		{SubTaskID: "a", Model: "p/one", Position: 1, Reason: full},
		{SubTaskID: "b", Model: "p/one", Position: 2, Reason: full},
	}
	if d := cmp.Diff(want, Waiting(s, l, epoch, nil)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	l.Global = 2
	for _, w := range Waiting(s, l, epoch, nil) {
		if w.Reason != "all 2 slots are taken" {
			t.Errorf("%s waits because %s", w.SubTaskID, w.Reason)
		}
	}
	l = Limits{EvaluationsTotal: 15, Global: 9, PerModel: 9}
	if w := Waiting(s, l, epoch, nil); len(w) != 0 {
		t.Errorf("with room for all, %v wait", w)
	}
}

func TestNotRunning(t *testing.T) {
	t.Parallel()
	s := begun(t, []boulder.Spec{{ID: "a"}}...)
	if len(Compute(s, DefaultLimits(), epoch)) == 0 {
		t.Fatal("nothing to do for a running boulder")
	}
	feed(t, s, epoch, boulder.StatusChanged{Status: boulder.Paused})
	if got := Compute(s, DefaultLimits(), epoch); got != nil {
		t.Errorf("a paused boulder gets %v", got)
	}
}
