package enforcer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// trackAfter applies events to a continued session. A turn after the user's prompt does not answer the continuation.
func trackAfter(events ...Event) Track {
	p := WatchPolicy()
	t, _ := due()
	prompted := false
	for i, e := range events {
		if _, ok := e.(TurnEnded); ok && t.Pending == "" && !prompted {
			t = Apply(t, Decided{At: at(time.Duration(i)), Decision: Decision{Kind: Send}, MessageID: "p"}, p)
		}
		_, prompted = e.(Prompted)
		t = Apply(t, e, p)
	}
	return t
}

func turn(message string, r Reached) TurnEnded {
	return TurnEnded{At: at(time.Minute), Message: message, Reached: r}
}

func todo(content, status string) boulder.Todo { return boulder.Todo{Content: content, Status: status} }

// TestFailures: a failure is a continuation without progress. Each thing is progress once only.
func TestFailures(t *testing.T) {
	tools := func(r Reached) Reached { r.Tools = true; return r }
	item := tools(Reached{Todos: []boulder.Todo{todo("Write a", "completed")}})
	again := tools(Reached{Todos: []boulder.Todo{todo("  write A ", "completed")}})
	both := tools(Reached{Diff: "x", Todos: item.Todos})
	for _, test := range []struct {
		name   string
		events []Event
		want   int
	}{
		{"an item", []Event{turn("1", item)}, 0},
		{"an item after failures", []Event{turn("1", tools(Reached{})), turn("2", tools(Reached{})), turn("3", item)}, 0},
		{"the same item", []Event{turn("1", item), turn("2", item)}, 1},
		{"the same item in other letters", []Event{turn("1", item), turn("2", again)}, 1},
		{"an item that flips", []Event{
			turn("1", item), turn("2", tools(Reached{Todos: []boulder.Todo{todo("Write a", "in_progress")}})), turn("3", item),
		}, 2},
		{"statuses that churn", []Event{
			turn("1", tools(Reached{Todos: []boulder.Todo{todo("Write a", "in_progress")}})),
			turn("2", tools(Reached{Todos: []boulder.Todo{todo("Write a", "pending")}})),
			turn("3", tools(Reached{Todos: []boulder.Todo{todo("Write a", "cancelled")}})),
		}, 3},
		{"a diff", []Event{turn("1", tools(Reached{Diff: "x"}))}, 0},
		{"a diff in which the judge sees no progress", []Event{turn("1", tools(Reached{Diff: "x", Stalled: true}))}, 1},
		{"an item, although the judge sees no progress", []Event{
			turn("1", tools(Reached{Diff: "x", Todos: item.Todos, Stalled: true})),
		}, 0},
		{"a diff to and fro", []Event{
			turn("1", tools(Reached{Diff: "x"})), turn("2", tools(Reached{Diff: "y"})), turn("3", tools(Reached{Diff: "x"})),
			turn("4", tools(Reached{Diff: "y"})),
		}, 2},
		{"a diff that somebody else made", []Event{turn("1", Reached{Diff: "x", Answer: "I am done."})}, 1},
		{"a gate", []Event{turn("1", tools(Reached{})), Verified{at(0), []string{"go test"}}}, 0},
		{"a gate again", []Event{
			turn("1", tools(Reached{})), Verified{at(0), []string{"go test"}}, turn("2", tools(Reached{})), Verified{at(0), nil},
			turn("3", tools(Reached{})), Verified{at(0), []string{"go test"}},
		}, 2},
		{"a gate after a chat", []Event{turn("1", Reached{}), Verified{at(0), []string{"go test"}}}, 1},
		{"chatter", []Event{turn("1", Reached{Answer: "a"}), turn("2", Reached{Answer: "b"})}, 2},
		{"one turn reported twice", []Event{turn("1", tools(Reached{})), TurnEnded{At: at(0), Message: "1"}}, 1},
		{"turns without any message", []Event{turn("", Reached{}), turn("", Reached{})}, 2},
		{"not sent", []Event{
			turn("1", item), Decided{Decision: Decision{Kind: Send}, MessageID: "q"}, NotSent{At: at(0)}, NotSent{At: at(0)},
		}, 1},
		{"the user's prompt", []Event{turn("1", tools(Reached{})), Prompted{At: at(0)}}, 0},
		{"the user's own turn", []Event{turn("1", item), Prompted{At: at(0)}, turn("2", tools(Reached{}))}, 0},
		{"what the user's own turn reached", []Event{
			turn("1", tools(Reached{})), Prompted{At: at(0)}, turn("2", both), turn("3", both),
		}, 1},
		{"the same item in a new job", []Event{
			turn("1", item), Prompted{At: at(0)}, turn("2", tools(Reached{})), turn("3", item),
		}, 0},
		{"the user's start", []Event{turn("1", tools(Reached{})), Started{at(0)}}, 0},
	} {
		if got := trackAfter(test.events...).FailureCount; got != test.want {
			t.Errorf("%s: %d failures, want %d", test.name, got, test.want)
		}
	}
}

func TestSameAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		answers []Reached
		want    int
	}{
		"the same":        {[]Reached{{Answer: "Shall I go on?"}, {Answer: "Shall I go on?"}, {Answer: "Shall I go on?"}}, 3},
		"at another time": {[]Reached{{Answer: "It is 12:03:11, all done."}, {Answer: "It is 12:04:59, all done."}}, 2},
		"something else":  {[]Reached{{Answer: "a"}, {Answer: "a"}, {Answer: "b"}}, 1},
		"with a tool":     {[]Reached{{Answer: "a"}, {Answer: "a"}, {Answer: "a", Tools: true}}, 0},
		"after a tool":    {[]Reached{{Answer: "a", Tools: true}, {Answer: "a"}}, 1},
		"nothing at all":  {[]Reached{{}, {}}, 0}, // counted as failures, with each turn's error
		"nothing between": {[]Reached{{Answer: "a"}, {}, {Answer: "a"}}, 2},
	} {
		var events []Event
		for i, r := range test.answers {
			events = append(events, turn(string(rune('1'+i)), r))
		}
		if got := trackAfter(events...).Same; got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// TestStopStays: a stop by the user holds at once and for good.
func TestStopStays(t *testing.T) {
	for _, test := range []struct {
		name   string
		events []Event
		want   Status
	}{
		{"stop", []Event{StopAsked{at(0)}}, Stopped},
		{"stop, and the turn ends", []Event{StopAsked{at(0)}, done(1, "m", "Write a")}, Stopped},
		{"stop, and the user prompts", []Event{StopAsked{at(0)}, Prompted{At: at(1)}, done(1, "m")}, Stopped},
		{"stop and start", []Event{StopAsked{at(0)}, Started{at(1)}}, Watching},
		{"abort", []Event{Aborted{at(0)}}, Stopped},
		{"abort, and the program starts again", []Event{Aborted{at(0)}, Restarted{at(1)}, Activity{at(2)}}, Stopped},
		{"abort, and the user prompts", []Event{Aborted{at(0)}, Prompted{At: at(1)}}, Watching},
		{"abort and start", []Event{Aborted{at(0)}, Started{at(1)}}, Watching},
		{"stop, abort, prompt", []Event{StopAsked{at(0)}, Aborted{at(1)}, Prompted{At: at(2)}}, Stopped},
		{"the user writes stop", []Event{Prompted{At: at(0), Stop: true}, done(1, "m")}, Stopped},
		{"and then something else", []Event{Prompted{At: at(0), Stop: true}, Prompted{At: at(1)}}, Watching},
		{"moved away", []Event{Replaced{At: at(0), By: "ses_2"}}, Stopped},
		{"moved away, and then aborted", []Event{Replaced{At: at(0), By: "ses_2"}, Aborted{at(1)}}, Stopped},
		{"moved away, and the user prompts", []Event{Replaced{At: at(0), By: "ses_2"}, Prompted{At: at(1)}}, Watching},
	} {
		track := trackAfter(test.events...)
		if track.Status != test.want {
			t.Errorf("%s: %s (%s), want %s", test.name, track.Status, track.Reason, test.want)
		}
		if (track.Status == Stopped) != (track.Reason != "") {
			t.Errorf("%s: %s for the reason %q", test.name, track.Status, track.Reason)
		}
		// The first reason stays.
		if _, moved := test.events[0].(Replaced); moved && track.Status == Stopped && !strings.Contains(track.Reason, "ses_2") {
			t.Errorf("%s: the reason is %q", test.name, track.Reason)
		}
	}
}

func TestAnySignOfLifeEndsTheCountdown(t *testing.T) {
	p := WatchPolicy()
	for _, e := range []Event{
		Activity{at(1)}, Listed{At: at(1)}, Prompted{At: at(1)}, Aborted{at(1)}, StopAsked{at(1)}, Started{at(1)}, done(1, "m2"),
		Compacted{at(1)}, Restarted{at(1)}, Replaced{At: at(1)},
	} {
		track, _ := due()
		track = Apply(track, Decided{At: at(0), Decision: Decision{Kind: Countdown, At: at(2 * time.Second)}}, p)
		if track.CountdownAt.IsZero() {
			t.Fatal("no countdown runs")
		}
		if track = Apply(track, e, p); !track.CountdownAt.IsZero() {
			t.Errorf("%T: the countdown runs on", e)
		}
	}
}

func TestComplete(t *testing.T) {
	p := WatchPolicy()
	track, _ := due()
	track = Apply(track, Decided{At: at(0), Decision: Decision{Kind: Finish, Reason: "all holds"}}, p)
	if track.Status != Complete || track.Reason != "all holds" {
		t.Fatalf("%+v", track)
	}
	if again := Apply(track, TurnEnded{At: at(1), Message: track.Turn}, p); again.Status != Complete {
		t.Errorf("the same turn, reported again, makes it %s", again.Status)
	}
	if next := Apply(track, done(1, "next"), p); next.Status != Watching {
		t.Errorf("after another turn it is %s", next.Status)
	}
}

// TestForgottenOnce: failures are reset once, so a session survives an outage, but a dead one is let go.
func TestForgottenOnce(t *testing.T) {
	track, s := due()
	sent := 0
	_, end, now := drive(t, track, &s, WatchPolicy(), func(now time.Time) TurnEnded {
		sent++
		return TurnEnded{At: now.Add(time.Second), Reached: Reached{Tools: true}}
	})
	if end.Kind != LetGo || sent != 10 || now.Sub(at(0)) > 45*time.Minute {
		t.Errorf("%s after %d prompts and %v", end.Kind, sent, now.Sub(at(0)))
	}
}

// TestOpenItems: items that a compaction dropped from the agent's list stay open here.
func TestOpenItems(t *testing.T) {
	a, b := todo("Write a", "pending"), todo("Write b", "in_progress")
	closed, blocked := todo("write  B", "completed"), todo("Ask about c", "blocked")
	list := func(todos ...boulder.Todo) Event { return Listed{At: at(0), Todos: todos} }
	for _, test := range []struct {
		name   string
		events []Event
		now    []boulder.Todo
		want   string
	}{
		{"as it is", []Event{list(a, b)}, []boulder.Todo{a, blocked}, "Write a"},
		{"lost in a compaction", []Event{list(a, b), Compacted{at(0)}}, nil, "Write a,Write b"},
		{"lost, a new list", []Event{list(a, b), Compacted{at(0)}, list(a)}, []boulder.Todo{a}, "Write a,Write b"},
		{"closed since", []Event{list(a, b), Compacted{at(0)}}, []boulder.Todo{closed}, "Write a"},
		{"the record outlives progress", []Event{
			list(a, b), Compacted{at(0)}, turn("1", Reached{Tools: true, Todos: []boulder.Todo{closed}}),
		}, []boulder.Todo{closed}, "Write a"},
		{"the user begins something else", []Event{list(a, b), Compacted{at(0)}, Prompted{At: at(0)}}, nil, ""},
	} {
		track := Track{}
		for _, e := range test.events {
			track = Apply(track, e, WatchPolicy())
		}
		if got := strings.Join(OpenItems(track, test.now), ","); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	many := slices.Repeat([]boulder.Todo{a}, 100)
	if got := len(OpenItems(Track{}, many)); got != maxOpen {
		t.Errorf("%d items", got)
	}
}

func TestApplyLeavesItsArgument(t *testing.T) {
	p := WatchPolicy()
	track := trackAfter(done(1, "1", "Write a"))
	track.Progress.Items = slices.Grow(track.Progress.Items, 10)
	one := Apply(track, done(2, "2", "Write b"), p)
	Apply(track, done(2, "3", "Write c"), p)
	if slices.Contains(one.Progress.Items, shortHash("write c")) || len(track.Progress.Items) != 1 {
		t.Error("two tracks share their memory")
	}
}
