package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
)

func TestAfterVerdict(t *testing.T) {
	t.Parallel()
	limits := DefaultLimits() // 3 tries, 5 turns
	tests := map[string]struct {
		verdict boulder.Verdict
		ended   boulder.Ended
		turns   int
		tries   int // before this attempt
		budget  int
		want    string
	}{
		"complete":                  {verdict: boulder.Verdict{Completed: true}, want: "complete"},
		"complete wins over a loop": {verdict: boulder.Verdict{Completed: true, IsInLoop: true}, want: "complete"},
		"complete wins over a broken end": {
			verdict: boulder.Verdict{Completed: true}, ended: boulder.Ended{Error: "APIError"}, want: "complete",
		},
		"complete wins over the wall clock": {
			verdict: boulder.Verdict{Completed: true}, ended: boulder.Ended{Stopped: "30m"}, want: "complete",
		},
		"complete in the last turn of the last try": {
			verdict: boulder.Verdict{Completed: true}, turns: 5, tries: 2, want: "complete",
		},
		"incomplete":         {want: "continue"},
		"truncated":          {ended: boulder.Ended{Finish: "length"}, want: "continue"},
		"fourth turn":        {turns: 4, want: "continue"},
		"fifth turn":         {turns: 5, want: "retry failed"},
		"stuck":              {verdict: boulder.Verdict{IsStuck: true}, want: "retry failed"},
		"loop":               {verdict: boulder.Verdict{IsInLoop: true}, want: "retry failed"},
		"stopped":            {ended: boulder.Ended{Stopped: "silence"}, want: "retry timeout"},
		"broken":             {ended: boulder.Ended{Error: "ContextOverflowError"}, want: "retry failed"},
		"second try":         {verdict: boulder.Verdict{IsStuck: true}, tries: 1, want: "retry failed"},
		"third try":          {verdict: boulder.Verdict{IsStuck: true}, tries: 2, want: "fail failed"},
		"third try stopped":  {ended: boulder.Ended{Stopped: "silence"}, tries: 2, want: "fail timeout"},
		"own budget of one":  {verdict: boulder.Verdict{IsStuck: true}, budget: 1, want: "fail failed"},
		"own budget of four": {verdict: boulder.Verdict{IsStuck: true}, tries: 2, budget: 4, want: "retry failed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &boulder.Open{
				SubTask: &boulder.SubTask{ID: "a", Tries: test.tries},
				Attempt: &boulder.Attempt{Status: boulder.AttemptMonitoring, Turns: max(test.turns, 1)},
				Turn:    &boulder.Turn{Verdict: &test.verdict, Evidence: &boulder.Evidence{Ended: test.ended}},
			}
			if test.budget > 0 {
				o.SubTask.Budget = &boulder.Budget{Attempts: test.budget}
			}
			if got := kindOf(afterVerdict(o, limits)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func kindOf(a Action) string {
	switch a := a.(type) {
	case Complete:
		return "complete"
	case Continue:
		return "continue"
	case Retry:
		if a.Uncounted {
			return "retry uncounted " + string(a.Status)
		}
		return "retry " + string(a.Status)
	case Fail:
		return "fail " + string(a.Status)
	case Run:
		return "run"
	case Judge:
		return "judge"
	case Wake:
		return "wake"
	}
	return "?"
}

func TestNext(t *testing.T) {
	t.Parallel()
	limits := DefaultLimits()
	later := epoch.Add(time.Second)
	tests := map[string]struct {
		attempt boulder.Attempt
		turn    boulder.Turn
		want    string
	}{
		"starting":          {attempt: boulder.Attempt{Status: boulder.AttemptStarting}, want: "run"},
		"executing":         {attempt: boulder.Attempt{Status: boulder.AttemptExecuting}, want: "run"},
		"monitoring":        {attempt: boulder.Attempt{Status: boulder.AttemptMonitoring}, want: "judge"},
		"after two faults":  {attempt: boulder.Attempt{Status: boulder.AttemptExecuting, Troubles: 2}, want: "run"},
		"after three":       {attempt: boulder.Attempt{Status: boulder.AttemptExecuting, Troubles: 3}, want: "fail failed"},
		"backing off":       {attempt: boulder.Attempt{Status: boulder.AttemptExecuting, NotBefore: later}, want: "wake"},
		"judge backing off": {attempt: boulder.Attempt{Status: boulder.AttemptMonitoring, NotBefore: later}, want: "wake"},
		"back-off is over":  {attempt: boulder.Attempt{Status: boulder.AttemptExecuting, NotBefore: epoch}, want: "run"},
		"judged, whatever the back-off": {
			attempt: boulder.Attempt{Status: boulder.AttemptMonitoring, NotBefore: later, Turns: 1},
			turn:    boulder.Turn{Verdict: &boulder.Verdict{Completed: true}, Evidence: &boulder.Evidence{}},
			want:    "complete",
		},
	}
	for name, test := range tests {
		o := &boulder.Open{SubTask: &boulder.SubTask{}, Attempt: &test.attempt, Turn: &test.turn}
		if got := kindOf(next(o, limits, epoch)); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

func TestLost(t *testing.T) {
	t.Parallel()
	limits := DefaultLimits()
	for attempts, want := range map[int]string{
		1: "retry uncounted lost", 3: "retry uncounted lost", 4: "fail lost",
	} {
		o := &boulder.Open{SubTask: &boulder.SubTask{Attempts: attempts}, Attempt: &boulder.Attempt{}}
		if got := kindOf(Lost(o, limits, "gone")); got != want {
			t.Errorf("session %d lost: %s, want %s", attempts, got, want)
		}
		// Tries that failed by themselves are not lost sessions.
		o.SubTask.Tries, o.SubTask.Attempts = 2, attempts+2
		if got := kindOf(Lost(o, limits, "gone")); got != want {
			t.Errorf("session %d lost after two tries: %s, want %s", attempts, got, want)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	l := DefaultLimits()
	for n, want := range map[int]time.Duration{
		0: 500 * time.Millisecond, 1: 500 * time.Millisecond, 2: time.Second, 3: 2 * time.Second,
		11: 512 * time.Second, 1000: 512 * time.Second,
	} {
		if got := Backoff(l, n); got != want {
			t.Errorf("after fault %d: %s, want %s", n, got, want)
		}
	}
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

func TestMatches(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pattern, text string
		want          bool
	}{
		{"a/b", "a/b", true}, {"a/b", "a/bc", false}, {"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a/b", true},
		{"a*", "abc", true}, {"a*", "ba", false}, {"*c", "abc", true}, {"*c", "cab", false}, {"a*c", "abc", true},
		{"a*a", "a", false}, {"a*a", "aa", true}, {"*b*", "abc", true}, {"*b*", "ac", false}, {"a**c", "ac", true},
		{"*ab*ab", "ab", false}, {"*ab*ab", "abab", true}, {"*a*b*c", "xaybzc", true}, {"*a*b*c", "xbyazc", false},
		{"a*bc", "abcbc", true},
	}
	for _, test := range tests {
		if got := matches(test.pattern, test.text); got != test.want {
			t.Errorf("%q matches %q: %v", test.pattern, test.text, got)
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

// TestStartable: a limit of 0 would let a run wait for ever; whoever asks first is told which sub-tasks and what to do.
func TestStartable(t *testing.T) {
	t.Parallel()
	s := begun(t, boulder.Plan{SubTasks: []boulder.Spec{
		{ID: "a", Model: "p/x"}, {ID: "b", Model: "p/opus"}, {ID: "c", Model: "p/opus", DependsOn: []string{"a"}},
	}})
	l := DefaultLimits()
	if err := Startable(s, l); err != nil {
		t.Errorf("with the defaults: %v", err)
	}
	l.Models = []ModelLimit{{"*opus", 0}}
	want := `no slots of p/opus are allowed (the limit is 0), and 2 sub-tasks need one (the first is "b"): ` +
		`raise that limit or give them another model`
	if err := Startable(s, l); err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	l.Providers = map[string]int{"p": 0}
	if err := Startable(s, l); err == nil || strings.Count(err.Error(), "provider p") != 2 {
		t.Errorf("got %v, want both models of the provider", err)
	}
	ref := boulder.AttemptRef{SubTaskID: "b", Attempt: 1}
	skip := boulder.SubTaskDone{AttemptRef: ref, Status: boulder.SubTaskSkipped, AttemptStatus: boulder.AttemptCancelled}
	if _, err := s.Apply(boulder.Event{BoulderID: "b1", Body: skip}); err != nil {
		t.Fatal(err)
	}
	l = DefaultLimits()
	l.Models = []ModelLimit{{"*opus", 0}}
	if err := Startable(s, l); err == nil || !strings.Contains(err.Error(), "1 sub-tasks") {
		t.Errorf("got %v, want the one that still has to run", err)
	}
}

// starts are the sub-tasks that Compute starts, in order.
func starts(s *boulder.State, l Limits) []string {
	var ids []string
	for _, a := range Compute(s, l, epoch) {
		if start, ok := a.(Start); ok {
			ids = append(ids, start.Open.SubTask.ID)
		}
	}
	return ids
}

func TestDispatch(t *testing.T) {
	t.Parallel()
	plan := boulder.Plan{SubTasks: []boulder.Spec{
		{ID: "low", Model: "p/one", Priority: boulder.Low}, {ID: "first", Model: "p/one"},
		{ID: "second", Model: "p/one"}, {ID: "urgent", Model: "p/two", Priority: boulder.High},
		{ID: "other", Model: "q/three"}, {ID: "low other", Model: "q/three", Priority: boulder.Low},
	}}
	tests := map[string]struct {
		limits Limits
		want   []string
	}{
		"room for all": {
			Limits{Global: 9, PerModel: 9}, []string{"urgent", "first", "second", "other", "low", "low other"},
		},
		"room for two":      {Limits{Global: 2, PerModel: 9}, []string{"urgent", "first"}},
		"one of each model": {Limits{Global: 9, PerModel: 1}, []string{"urgent", "first", "other"}},
		"a full model does not hold up the others": {
			Limits{Global: 9, Models: []ModelLimit{{"p/one", 0}}, PerModel: 9}, []string{"urgent", "other", "low other"},
		},
		"a full provider neither": {
			Limits{Global: 9, Providers: map[string]int{"p": 1}, PerModel: 9}, []string{"urgent", "other", "low other"},
		},
		"nothing allowed": {Limits{}, nil},
	}
	for name, test := range tests {
		if d := cmp.Diff(test.want, starts(begun(t, plan), test.limits)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestDispatchBetweenModels: who waited longer goes first, wherever it stands in the plan.
func TestDispatchBetweenModels(t *testing.T) {
	t.Parallel()
	s := begun(t, boulder.Plan{SubTasks: []boulder.Spec{{ID: "a", Model: "p/one"}, {ID: "b", Model: "q/two"}}})
	ref := boulder.AttemptRef{SubTaskID: "a", Attempt: 1}
	for _, b := range []boulder.Body{
		boulder.Starting{AttemptRef: ref}, boulder.Retry{AttemptRef: ref, Status: boulder.AttemptFailed, Next: 2},
	} {
		if _, err := s.Apply(boulder.Event{BoulderID: "b1", Body: b}); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]string{"b"}, starts(s, Limits{Global: 1, PerModel: 1})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestWake: the earliest back-off counts.
func TestWake(t *testing.T) {
	t.Parallel()
	s := begun(t, boulder.Plan{SubTasks: []boulder.Spec{{ID: "a"}, {ID: "b"}, {ID: "c"}}})
	for id, wait := range map[string]time.Duration{"a": 3 * time.Second, "b": time.Second, "c": 2 * time.Second} {
		ref := boulder.AttemptRef{SubTaskID: id, Attempt: 1}
		for _, b := range []boulder.Body{
			boulder.Starting{AttemptRef: ref}, boulder.Trouble{AttemptRef: ref, NotBefore: epoch.Add(wait)},
		} {
			if _, err := s.Apply(boulder.Event{BoulderID: "b1", Body: b}); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := Compute(s, DefaultLimits(), epoch)
	if len(got) != 1 || got[0] != (Wake{At: epoch.Add(time.Second)}) {
		t.Errorf("got %v", got)
	}
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	s := begun(t, boulder.Plan{SubTasks: []boulder.Spec{
		{ID: "a", Model: "p/one"}, {ID: "b", Model: "p/one"}, {ID: "c", Model: "p/one", Priority: boulder.High},
		{ID: "d", Model: "q/two"}, {ID: "e", Model: "q/two", DependsOn: []string{"d"}},
	}})
	l := Limits{Global: 9, Models: []ModelLimit{{"p/one", 1}}, PerModel: 9}
	for _, a := range Compute(s, l, epoch) {
		if _, err := s.Apply(boulder.Event{BoulderID: "b1", Body: event(a)}); err != nil {
			t.Fatal(err)
		}
	}
	full := "the one slot of p/one is taken"
	want := []Wait{{"a", "p/one", 1, full}, {"b", "p/one", 2, full}}
	if d := cmp.Diff(want, Waiting(s, l)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	l.Global = 2
	for _, w := range Waiting(s, l) {
		if w.Reason != "all 2 slots are taken" {
			t.Errorf("%s waits because %s", w.SubTaskID, w.Reason)
		}
	}
	l = Limits{Global: 9, PerModel: 9}
	if w := Waiting(s, l); len(w) != 0 {
		t.Errorf("with room for all, %v wait", w)
	}
}

// TestNotRunning: whatever is ready, nothing is decided for a boulder that is not running.
func TestNotRunning(t *testing.T) {
	t.Parallel()
	s := begun(t, boulder.Plan{SubTasks: []boulder.Spec{{ID: "a"}}})
	if len(Compute(s, DefaultLimits(), epoch)) == 0 {
		t.Fatal("nothing to do for a running boulder")
	}
	paused := boulder.Event{BoulderID: "b1", Body: boulder.StatusChanged{Status: boulder.Paused}}
	if _, err := s.Apply(paused); err != nil {
		t.Fatal(err)
	}
	if got := Compute(s, DefaultLimits(), epoch); got != nil {
		t.Errorf("a paused boulder gets %v", got)
	}
}
