package enforcer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
)

// somePolicy draws small numbers, so that a few steps reach every bound.
func somePolicy(t *rapid.T) Policy {
	seconds := func(label string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(t, label)) * time.Second
	}
	return Policy{
		Idle: seconds("idle", 30), AbortWindow: seconds("abort window", 3), Cooldown: seconds("cool-down", 30),
		MaxFailures: rapid.IntRange(0, 5).Draw(t, "failures"), FailureReset: seconds("reset", 300),
		Resets: rapid.IntRange(0, 2).Draw(t, "resets"), Countdown: seconds("countdown", 2),
		MaxIterations: rapid.IntRange(0, 40).Draw(t, "iterations"), Compactions: rapid.IntRange(-1, 2).Draw(t, "compactions"),
		Admission: seconds("admission", 10), Continuous: rapid.Bool().Draw(t, "continuous"),
		SameAnswers: rapid.IntRange(1, 5).Draw(t, "same answers"), SameWindow: seconds("same window", 120),
		SkipAgents: rapid.SampledFrom([][]string{nil, {"plan"}}).Draw(t, "left alone"),
		Marker:     rapid.SampledFrom([]string{"", boulder.DoneMarker}).Draw(t, "marker"),
	}
}

var answersSaid = []string{"", "Done.", "Shall I?", "Step 7 is next.", boulder.DoneMarker}

func someReached(t *rapid.T) Reached {
	r := Reached{
		Tools: rapid.Bool().Draw(t, "tools"), Answer: rapid.SampledFrom(answersSaid).Draw(t, "answer"),
		Diff: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "diff"), Promised: rapid.Bool().Draw(t, "promised"),
	}
	for _, content := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "A", "c"}), 0, 3).Draw(t, "items") {
		status := rapid.SampledFrom([]string{"completed", "pending", "in_progress", "blocked"}).Draw(t, "status")
		r.Todos = append(r.Todos, boulder.Todo{Content: content, Status: status})
	}
	return r
}

func someSituation(t *rapid.T) Situation {
	some := func(label string) []string {
		return rapid.SampledFrom([][]string{nil, nil, nil, {"one"}, {"one", "two"}}).Draw(t, label)
	}
	rare := func(label string) bool { return rapid.IntRange(0, 5).Draw(t, label) == 0 }
	s := Situation{
		Busy: rare("busy"), Background: some("background"), Asks: some("asks"),
		Compacting: rare("compacting"), Unmet: some("unmet"), Checked: rapid.Bool().Draw(t, "checked"),
		Agent:   rapid.SampledFrom([]string{"build", "build", "plan"}).Draw(t, "agent"),
		Blocked: rapid.IntRange(0, 1).Draw(t, "blocked"), Hopeless: rare("hopeless"), Overflow: rare("overflow"),
	}
	for _, id := range some("questions") {
		s.Questions = append(s.Questions, Question{ID: id, Says: "an answer to " + id})
	}
	s.OpenItems = rapid.IntRange(0, 1).Draw(t, "open items")
	if rare("not owned") {
		s.NotOwned = "it is archived"
	}
	if rare("broken") {
		s.Broken = "HTTP 503"
	}
	if rare("overspent") {
		s.Overspent = "2 of 2 dollars"
	}
	return s
}

func someEvent(t *rapid.T, now time.Time) Event {
	switch rapid.IntRange(0, 19).Draw(t, "event") {
	case 0, 1, 2:
		return Activity{now}
	case 3:
		return Prompted{At: now, Stop: rapid.Bool().Draw(t, "stop")}
	case 4:
		return Aborted{now}
	case 5:
		return StopAsked{now}
	case 6:
		return Started{now}
	case 7:
		return Compacted{now}
	case 8:
		return NotSent{now}
	case 9:
		return Restarted{now}
	case 10:
		return Verified{now, rapid.SliceOfN(rapid.SampledFrom([]string{"go vet", "go test"}), 0, 2).Draw(t, "green")}
	case 11:
		return Listed{now, someReached(t).Todos}
	}
	return TurnEnded{now, fmt.Sprint("m", rapid.IntRange(0, 9).Draw(t, "message")), someReached(t)}
}

// ledger is an independent account of a session, which does not know how the arbiter counts.
type ledger struct {
	stopped  bool // by the user, with an explicit order
	resting  bool // by the user, with an abort or a word in the conversation
	inFlight bool
	useless  int // prompts since the last progress or message of the user
	since    int // prompts since the user's last message
	seen     map[string]bool
	acted    bool
	turn     string
	moved    bool     // the newest turn brought progress
	aside    []string // questions that the agent was told to leave aside
}

func (l *ledger) told(all []Question) bool {
	return !slices.ContainsFunc(all, func(q Question) bool { return !slices.Contains(l.aside, q.ID) })
}

func (l *ledger) note(e Event) {
	switch e := e.(type) {
	case Prompted:
		l.resting, l.inFlight, l.useless, l.since, l.seen = e.Stop, false, 0, 0, map[string]bool{}
	case Started:
		l.stopped, l.resting, l.inFlight, l.useless, l.since = false, false, false, 0, 0
	case StopAsked:
		l.stopped = true
	case Aborted:
		l.resting, l.inFlight = true, false
	case NotSent:
		if l.inFlight {
			l.inFlight, l.aside = false, nil
		}
	case Verified:
		for _, g := range e.Green {
			l.reach("gate "+g, l.acted)
		}
	case TurnEnded:
		if e.Message == l.turn {
			return
		}
		l.turn, l.inFlight, l.acted, l.moved = e.Message, false, e.Reached.Tools, false
		l.reach("diff "+e.Reached.Diff, l.acted && e.Reached.Diff != "")
		for _, todo := range e.Reached.Todos {
			if todo.Status == "completed" {
				l.reach("item "+strings.ToLower(todo.Content), l.acted)
			}
		}
	}
}

func (l *ledger) reach(what string, counts bool) {
	if !l.seen[what] && counts {
		l.useless, l.moved = 0, true
	}
	l.seen[what] = true
}

// TestNeverALoop: in any order of events, at most one prompt is in flight, none is sent against the user's will or into
// running work, and useless prompts are bounded.
func TestNeverALoop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := somePolicy(t)
		track, s, now := Track{}, someSituation(t), at(0)
		l := ledger{seen: map[string]bool{}}
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			d := Continue(track, s, p, now)
			if d.Reason == "" || d.Gate == "" {
				t.Fatalf("%s without a reason or a gate", d.Kind)
			}
			if d.Kind == Send || d.Kind == Fresh {
				switch {
				case l.stopped || l.resting:
					t.Fatalf("%s against the user", d.Kind)
				case l.inFlight:
					t.Fatalf("%s while one is in flight", d.Kind)
				case s.NotOwned != "" || s.Busy || s.Compacting || len(s.Background)+len(s.Asks) > 0 || s.Overspent != "" || s.Hopeless:
					t.Fatalf("%s into %+v", d.Kind, s)
				case len(s.Questions) > 0 && (track.Marked || s.OpenItems == 0 && s.Blocked > 0 || d.Kind == Fresh):
					t.Fatalf("%s although nothing is left to do without an answer", d.Kind)
				case len(s.Questions) > 0 && l.told(s.Questions) && !l.moved:
					t.Fatalf("%s without an answer, after a turn without progress", d.Kind)
				case len(s.Unmet) == 0 && s.Broken == "" && (!p.Continuous || !s.Checked) && l.told(s.Questions):
					t.Fatalf("%s although nothing is known to be left", d.Kind)
				case now.Before(track.CountdownAt) || p.Countdown > 0 && track.CountdownAt.IsZero():
					t.Fatalf("%s without a countdown", d.Kind)
				}
			}
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				s = someSituation(t)
			case 1:
				e := someEvent(t, now)
				l.note(e)
				track = Apply(track, e, p)
			default: // carry out the decision
				decided := Decided{At: now, Decision: d, MessageID: "p"}
				for _, q := range s.Questions {
					decided.Aside = append(decided.Aside, q.ID)
				}
				track = Apply(track, decided, p)
				if d.Kind == Send || d.Kind == Fresh {
					l.inFlight, l.aside = true, decided.Aside
					l.useless++
					l.since++
				}
				if d.At.After(now) {
					now = d.At
				}
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "later")) * time.Second)
			if most := p.MaxFailures * (1 + p.Resets); l.useless > most {
				t.Fatalf("%d prompts brought nothing, %d are allowed", l.useless, most)
			}
			if l.since > p.MaxIterations {
				t.Fatalf("%d prompts, %d are allowed", l.since, p.MaxIterations)
			}
		}
	})
}

// anyTrack draws a track that events can lead to.
func anyTrack(t *rapid.T, p Policy, s Situation) (Track, time.Time) {
	track, now := Track{}, at(0)
	for range rapid.IntRange(0, 30).Draw(t, "events") {
		if rapid.Bool().Draw(t, "decide") {
			track = Apply(track, Decided{At: now, Decision: Continue(track, s, p, now), MessageID: "p"}, p)
		} else {
			track = Apply(track, someEvent(t, now), p)
		}
		now = now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "later")) * time.Second)
	}
	return track, now
}

// TestWaitEnds: a Wait holds until its time, when the decision changes. Without a time, waiting alone never changes it.
func TestWaitEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, s := somePolicy(t), someSituation(t)
		track, now := anyTrack(t, p, s)
		d := Continue(track, s, p, now)
		if d.Kind == Countdown && d.At.Before(now) || d.Kind == Wait && !d.At.IsZero() && !d.At.After(now) {
			t.Fatalf("%s by %s until %v, which is over", d.Kind, d.Gate, d.At.Sub(now))
		}
		if d.Kind != Wait {
			return
		}
		if d.At.IsZero() {
			later := Continue(track, s, p, now.Add(time.Duration(rapid.IntRange(0, 1e6).Draw(t, "seconds"))*time.Second))
			if later.Kind != Wait || later.Gate != d.Gate || !later.At.IsZero() {
				t.Fatalf("%s waits for an event, and became %s by %s", d.Gate, later.Kind, later.Gate)
			}
			return
		}
		between := now.Add(time.Duration(rapid.Int64Range(0, int64(d.At.Sub(now))-1).Draw(t, "between")))
		if still := Continue(track, s, p, between); still.Kind != Wait || still.Gate != d.Gate || !still.At.Equal(d.At) {
			t.Fatalf("%s waits until %v, but after %v it is %s by %s",
				d.Gate, d.At.Sub(now), between.Sub(now), still.Kind, still.Gate)
		}
		if then := Continue(track, s, p, d.At); then.Kind == Wait && then.Gate == d.Gate {
			t.Fatalf("%s waited until its time, and waits on", d.Gate)
		}
	})
}

func TestTrackRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, s := somePolicy(t), someSituation(t)
		track, now := anyTrack(t, p, s)
		data, err := json.Marshal(track)
		if err != nil {
			t.Fatal(err)
		}
		var back Track
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		e := someEvent(t, now)
		one, _ := json.Marshal(Apply(track, e, p))
		two, _ := json.Marshal(Apply(back, e, p))
		if string(one) != string(two) {
			t.Fatalf("after %T\n%s\nbecame\n%s", e, one, two)
		}
		a, b := Continue(track, s, p, now), Continue(back, s, p, now)
		if a.Kind != b.Kind || a.Gate != b.Gate || a.Reason != b.Reason || !a.At.Equal(b.At) {
			t.Fatalf("%+v became %+v", a, b)
		}
		if after, _ := json.Marshal(track); string(after) != string(data) {
			t.Fatalf("Apply or Continue changed its argument:\n%s\nbecame\n%s", data, after)
		}
	})
}

// TestEverySessionEnds: the arbiter alone brings any agent that makes progress now and then to an end.
func TestEverySessionEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom([]Policy{WatchPolicy(), LoopPolicy(), RunPolicy()}).Draw(t, "policy")
		left := rapid.IntRange(1, 20).Draw(t, "items")
		failures, n := 0, 0
		s := Situation{Unmet: make([]string, left)}
		track := Apply(Track{}, TurnEnded{At: at(0), Message: "m", Reached: Reached{Tools: true}}, p)
		track, end, _ := drive(t, track, &s, p, func(now time.Time) TurnEnded {
			n++
			e := TurnEnded{At: now, Message: fmt.Sprint(n), Reached: Reached{Tools: true}}
			failures++
			if rapid.Bool().Draw(t, "progress") {
				failures = 0
				left--
				e.Reached.Todos = []boulder.Todo{{Content: fmt.Sprint("item", left), Status: "completed"}}
			}
			s.Unmet, s.Checked = make([]string, left), false
			return e
		})
		switch {
		case end.Kind == Finish && left > 0:
			t.Fatalf("finished with %d items left", left)
		case end.Kind == LetGo && failures < p.MaxFailures && track.Iteration < p.MaxIterations:
			t.Fatalf("let go after %d failures: %s", failures, end.Reason)
		case end.Kind != Finish && end.Kind != LetGo:
			t.Fatal("it does not end")
		}
	})
}
