package enforcer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
)

// TestMarkerIsAPromise: a marker that was asked for is a promise and a claim. Otherwise it is plain text.
func TestMarkerIsAPromise(t *testing.T) {
	t.Parallel()
	for _, marker := range []string{"", boulder.DoneMarker} {
		p := WatchPolicy()
		p.Marker = marker
		track := Apply(Track{}, TurnEnded{At: at(0), Message: "m", Reached: Reached{Answer: boulder.DoneMarker}}, p)
		if asked := marker != ""; track.Promised != asked || track.Claimed != asked {
			t.Errorf("with marker %q: promised %v, claimed %v", marker, track.Promised, track.Claimed)
		}
	}
}

func TestEssence(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"I am blocked.", "i am  blocked.", "I am\nblocked."},
		{"3 of 7 items at 12:30:05", "4 of 9 items at 12:31:17"},
		{"session ses_4f2aB01xyzQ failed", "session ses_9a8bC77kkkk failed"},
		{"at commit 4f2ab01 since 2026-01-02T03:04:05Z", "at commit 99aabb0 since 2026-01-02T03:05:05Z"},
		{"run 01JGF3QZ4T8W2V6X9Y1A2B3C4D", "run 01JGF3R04T8W2V6X9Y1A2B3C5E"},
		{"it took 3.5s, \x1b[31mred\x1b[0m", "it took 17s, red"},
	} {
		for _, text := range same[1:] {
			if canonicalText(text) != canonicalText(same[0]) {
				t.Errorf("%q is %q, and %q is %q", same[0], canonicalText(same[0]), text, canonicalText(text))
			}
		}
	}
	for _, different := range [][2]string{
		{"I wrote the parser.", "I wrote the lexer."}, {"feature-12-login is done", "feature-13-logout is done"},
		{"the facade", "the decade"}, {"", "."},
	} {
		if canonicalText(different[0]) == canonicalText(different[1]) {
			t.Errorf("%q and %q say the same: %q", different[0], different[1], canonicalText(different[0]))
		}
	}
}

// TestAnswersThatCount: answers to continuations count until there is progress.
func TestAnswersThatCount(t *testing.T) {
	t.Parallel()
	p := LoopPolicy()
	turn := func(t Track, after time.Duration, r Reached) Track {
		t.Pending = "p"
		return Apply(t, TurnEnded{At: at(after), Message: fmt.Sprint(after), Reached: r}, p)
	}
	brief := Apply(Track{}, TurnEnded{At: at(0), Message: "brief", Reached: Reached{Answer: "Step 1."}}, p)
	if len(brief.Answers) != 0 {
		t.Errorf("the answer to the user counts: %+v", brief.Answers)
	}
	two := turn(turn(brief, time.Second, Reached{Answer: "Step 2.", Tools: true}), 2*time.Second, Reached{Answer: "step 3."})
	if n := (view{Track: two, Policy: p}).sameAnswers(); n != 2 {
		t.Errorf("%d equal answers, want 2: %+v", n, two.Answers)
	}
	for name, test := range map[string]struct {
		track Track
		want  int
	}{
		"a word of nobody": {turn(two, 3*time.Second, Reached{Tools: true}), 2},
		"somebody's diff":  {turn(two, 3*time.Second, Reached{Answer: "Step 4.", Diff: "x"}), 3},
		"a new diff":       {turn(two, 3*time.Second, Reached{Answer: "Step 4.", Tools: true, Diff: "x"}), 1},
		"a check turned green": {
			Apply(turn(two, 3*time.Second, Reached{Answer: "Step 4.", Tools: true}),
				Verified{at(4 * time.Second), []string{"make"}}, p), 0,
		},
		"a while later":      {turn(two, 3*time.Minute, Reached{Answer: "Step 4."}), 1},
		"the user's prompt":  {Apply(two, Prompted{At: at(3 * time.Second)}, p), 0},
		"the clock set back": {turn(two, -time.Hour, Reached{Answer: "Step 4."}), 1},
	} {
		if n := (view{Track: test.track, Policy: p}).sameAnswers(); n != test.want {
			t.Errorf("%s: %d equal answers, want %d", name, n, test.want)
		}
	}
	many := two
	for i := range 200 {
		many = turn(many, time.Duration(i)*time.Millisecond, Reached{Answer: strings.Repeat("x", i)})
	}
	if len(many.Answers) != maxAnswers {
		t.Errorf("%d answers are remembered", len(many.Answers))
	}
}

// By default, an agent that repeats its answer in turns of up to 10 s is let go by GateAnswers, and by no other bound.
func TestTheSameAnswerIsLetGo(t *testing.T) {
	t.Parallel()
	p := WatchPolicy()
	p.Marker = boulder.DoneMarker
	for _, takes := range []time.Duration{0, time.Second, 10 * time.Second} {
		n := 0
		brief := Apply(Track{}, TurnEnded{At: at(0), Message: "brief", Reached: Reached{Answer: "I wrote a."}}, p)
		_, d, now := drive(t, brief, &Situation{Checked: true, Unmet: []string{"the marker"}}, p, func(now time.Time) TurnEnded {
			n++
			return TurnEnded{At: now.Add(takes), Message: fmt.Sprint(n), Reached: Reached{Answer: "I am waiting.", Tools: n%2 == 0}}
		})
		if d.Gate != GateAnswers || n != 5 || now.Sub(at(0)) > 2*time.Minute+14*time.Second {
			t.Errorf("turns of %s: %s by %s after %d continuations and %s", takes, d.Kind, d.Gate, n, now.Sub(at(0)))
		}
	}
}

// TestNothingIsAskedAgainAndAgain: whatever an agent without progress does, and whichever bounds are off, it is
// continued at most 5 times in 2 minutes while it repeats its answer (seed 003, SC-011). What would break it: a
// repetition that is not recognized, an answer that is not counted, a gate that comes too late.
func TestNothingIsAskedAgainAndAgain(t *testing.T) {
	t.Parallel()
	agents := map[string]func(n int) Reached{
		"the same words":          func(int) Reached { return Reached{Answer: "I cannot go on."} },
		"with other numbers":      func(n int) Reached { return Reached{Answer: fmt.Sprintf("Tried %d, %d left.", n, 99-n)} },
		"with other times":        func(n int) Reached { return Reached{Answer: fmt.Sprintf("Stuck since 12:%02d:%02d.", n, n)} },
		"with other ids":          func(n int) Reached { return Reached{Answer: fmt.Sprintf("Waiting for ses_%08dab.", n)} },
		"in other case and space": func(n int) Reached { return Reached{Answer: strings.Repeat(" ", n) + "Still WAITING."} },
		"with a tool call":        func(int) Reached { return Reached{Answer: "Looked again.", Tools: true} },
		"while others work":       func(n int) Reached { return Reached{Answer: "I wait.", Diff: fmt.Sprint(n)} },
		"files to and fro":        func(n int) Reached { return Reached{Answer: "Fixed.", Tools: true, Diff: fmt.Sprint(n % 2)} },
		"claims to be done":       func(int) Reached { return Reached{Answer: "All done."} },
		"gives the promise":       func(int) Reached { return Reached{Answer: boulder.Promise, Promised: true} },
		"gives the marker":        func(int) Reached { return Reached{Answer: boulder.DoneMarker} },
		"two answers in turns":    func(n int) Reached { return Reached{Answer: []string{"Shall I?", "May I?"}[n%2]} },
		"flips its list": func(n int) Reached {
			return Reached{Answer: "Listed.", Tools: true, Todos: []boulder.Todo{
				{Content: "a", Status: []string{"pending", "completed"}[n%2]}, {Content: "b", Status: "pending"},
			}}
		},
		"says nothing, then the same": func(n int) Reached { return Reached{Answer: []string{"", "Hm."}[min(n, 1)]} },
	}
	policies := map[string]Policy{
		"watch": WatchPolicy(), "loop": LoopPolicy(), "run": RunPolicy(), "continuous": WatchPolicy(),
		"no wait": LoopPolicy(), "no bound": LoopPolicy(), "marker": WatchPolicy(),
	}
	change := func(name string, do func(*Policy)) {
		p := policies[name]
		do(&p)
		policies[name] = p
	}
	change("continuous", func(p *Policy) { p.Continuous = true })
	change("no wait", func(p *Policy) { p.Cooldown = 0 })
	change("no bound", func(p *Policy) { p.Cooldown, p.MaxFailures, p.MaxIterations, p.Compactions = 0, -1, -1, -1 })
	change("marker", func(p *Policy) { p.Marker = boulder.DoneMarker })
	for policy, p := range policies {
		for agent, does := range agents {
			for _, takes := range []time.Duration{0, 100 * time.Millisecond, time.Second, 10 * time.Second, 24 * time.Second} {
				t.Run(fmt.Sprint(policy, "/", agent, "/", takes), func(t *testing.T) {
					t.Parallel()
					if n := mostEqualAnswers(t, p, does, takes); n > 5 {
						t.Errorf("it was told to continue %d times within 2 minutes, and said the same", n)
					}
				})
			}
		}
	}
}

// mostEqualAnswers plays a session that never completes. It returns the most continuations in 2 minutes with one
// answer.
func mostEqualAnswers(t *testing.T, p Policy, does func(n int) Reached, takes time.Duration) (most int) {
	t.Helper()
	type heard struct {
		what string
		at   time.Time
	}
	var all []heard
	n := 0
	s := Situation{Checked: true, Unmet: []string{"everything"}}
	brief := Apply(Track{}, TurnEnded{At: at(0), Message: "brief", Reached: does(0)}, p)
	_, end, _ := drive(t, brief, &s, p, func(now time.Time) TurnEnded {
		n++
		now = now.Add(takes)
		r := does(n)
		words := strings.Join(strings.Fields(strings.ToLower(r.Answer)), " ")
		words = strings.Map(func(c rune) rune {
			if '0' <= c && c <= '9' {
				return -1
			}
			return c
		}, words)
		all = append(all, heard{words, now})
		same := 0
		for _, h := range all {
			if h.what == words && words != "" && now.Sub(h.at) <= 2*time.Minute {
				same++
			}
		}
		most = max(most, same)
		return TurnEnded{At: now, Message: fmt.Sprint(n), Reached: r}
	})
	if end.Kind != LetGo && (end.Kind == Finish || p.MaxIterations >= 0) {
		t.Fatalf("it ends with %s by %s (%s)", end.Kind, end.Gate, end.Reason)
	}
	return most
}

// drive plays a session to its end or for 1,000 decisions, and returns the last. turn is the result of a continuation.
func drive(
	t rapid.TB, track Track, s *Situation, p Policy, turn func(now time.Time) TurnEnded,
) (_ Track, d Decision, now time.Time) {
	t.Helper()
	now = at(0)
	for range 1000 {
		d = Continue(track, *s, p, now)
		track = Apply(track, Decided{At: now, Decision: d, MessageID: "p"}, p)
		switch d.Kind {
		case Send, Fresh:
			e := turn(now)
			now, track = e.At, Apply(track, e, p)
		case LetGo, Finish:
			return track, d, now
		case Check:
			s.Checked = true
		default:
			if !d.At.After(now) {
				t.Fatalf("nothing will ever happen: %s by %s (%s)", d.Kind, d.Gate, d.Reason)
			}
			now = d.At
		}
	}
	return track, d, now
}
