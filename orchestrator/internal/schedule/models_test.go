package schedule

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// refuse has the model of a live attempt refuse it.
func refuse(t *testing.T, s *boulder.State, l Limits, now time.Time, id string, err error) {
	t.Helper()
	o := s.Open(id)
	if bodies := Outage(s, l, now, o, err); bodies != nil {
		feed(t, s, now, bodies...)
		return
	}
	feed(t, s, now, Failed(s, l, now, o, err)...)
}

// settle applies decisions until only work is left, which it returns.
func settle(t *testing.T, s *boulder.State, l Limits, now time.Time, others ...Share) []Action {
	t.Helper()
	for range 20 {
		actions := Compute(s, l, now, others...)
		if len(decisions(actions)) == 0 || kindsOf(actions) == "stop" {
			return actions
		}
		applyAll(t, s, now, actions)
	}
	t.Fatal("it decides for ever")
	return nil
}

func limitedFor(wait time.Duration) error {
	return &boulder.TroubleError{Kind: boulder.TroubleRateLimit, RetryAfter: wait, Err: errors.New("429")}
}

// TestTakesPlace: which refusals have the next model of a list take the place of the first, and which.
func TestTakesPlace(t *testing.T) {
	t.Parallel()
	overloaded := &boulder.TroubleError{Kind: boulder.TroubleOverloaded, Err: errors.New("529")}
	refused := func(kind error) error { return fmt.Errorf("%w: because", kind) }
	for name, tt := range map[string]struct {
		models boulder.Models
		errs   []error // each after the wait that follows from the one before
		want   string  // the model of the attempt, and of its sibling
	}{
		"no credit":                   {"p/one,q/two", []error{refused(boulder.ErrNoCredit)}, "q/two q/two"},
		"a key":                       {"p/one,p/two,q/three", []error{refused(boulder.ErrKey)}, "q/three q/three"},
		"unknown":                     {"p/one,p/two", []error{refused(boulder.ErrUnknownModel)}, "p/two p/two"},
		"a short limit":               {"p/one,q/two", []error{limitedFor(9 * time.Minute)}, "p/one p/one"},
		"a long limit":                {"p/one,q/two", []error{limitedFor(5 * time.Hour)}, "q/two q/two"},
		"three days":                  {"p/one,q/two", []error{limitedFor(76 * time.Hour)}, "q/two q/two"},
		"an overload":                 {"p/one,q/two", []error{overloaded}, "p/one p/one"},
		"an overload that holds":      {"p/one,q/two", []error{overloaded, overloaded}, "q/two q/two"},
		"a limit that ends too early": {"p/one,q/two", []error{limitedFor(time.Minute), limitedFor(time.Minute)}, "q/two q/two"},
		"one after the other":         {"p/one,q/two,r/three", []error{refused(boulder.ErrNoCredit), limitedFor(time.Hour)}, "r/three r/three"},
		"the soonest of all":          {"p/one,q/two", []error{limitedFor(5 * time.Hour), limitedFor(6 * time.Hour)}, "p/one p/one"},
		"a fault":                     {"p/one,q/two", []error{&boulder.TroubleError{Kind: boulder.TroubleNetwork, Err: errors.New("reset")}}, "p/one p/one"},
		"not recognised":              {"p/one,q/two", []error{errors.New("odd")}, "p/one p/one"},
		"no list, a long limit":       {"p/one", []error{limitedFor(5 * time.Hour)}, "p/one p/one"},
	} {
		t.Run(name, func(t *testing.T) {
			s, l, now := begun(t, boulder.Spec{ID: "a", Model: tt.models}, boulder.Spec{ID: "b", Model: tt.models}), DefaultLimits(), epoch
			l.PerModel = 1
			settle(t, s, l, now)
			feed(t, s, now, boulder.SubTaskStart{AttemptRef: ref("a", 1), SessionID: "s"})
			for _, err := range tt.errs {
				if wait := s.Open("a").Attempt.NotBefore; now.Before(wait) {
					now = wait
				}
				refuse(t, s, l, now, "a", err)
				settle(t, s, l, now)
			}
			if got := s.SubTask("a").Model + " " + s.SubTask("b").Model; got != tt.want {
				t.Errorf("used are %s, want %s: %+v", got, tt.want, s.Boulder.Cooldowns)
			}
			a := s.SubTask("a")
			if out := s.Open("a").Attempt.Model == a.Model && a.Tries == 0 && a.Attempts == 1; name != "not recognised" && !out {
				t.Errorf("it cost an attempt, or its prompt goes to another model: %+v", s.Open("a").Attempt)
			}
		})
	}
}

// TestOutageWithoutList: a run with one model stops, as nothing else can be done. The refusal is kept for the user until the
// model has answered, and has nothing wait for it.
func TestOutageWithoutList(t *testing.T) {
	t.Parallel()
	s, l := begun(t, boulder.Spec{ID: "a", Model: "p/one"}), DefaultLimits()
	settle(t, s, l, epoch)
	noCredit := fmt.Errorf("%w: 402", boulder.ErrNoCredit)
	if bodies := Outage(s, l, epoch, s.Open("a"), noCredit); bodies != nil {
		t.Errorf("%+v", bodies)
	}
	feed(t, s, epoch, Refused(s, l, epoch, "p/one", noCredit)...)
	uses := ModelUses(s, epoch)
	if cool := uses[0].Cooldown; cool == nil || cool.Awaited() || cool.Reason != "402" {
		t.Errorf("known is %+v", uses)
	}
	if waits := LiftOutages(s, epoch); waits != nil {
		t.Errorf("it is waited for: %+v", waits)
	}
	if cool := regrown(s, "p/one", epoch); cool == nil || cool.Limit != cool.Full {
		t.Errorf("once it has answered, fewer run at once: %+v", cool)
	}
}

// TestReturns: once a limit is over, one attempt that has not begun tries the first model. The others follow after its
// answer, those at work with their next attempt. After a refusal the next try is later than the provider says.
func TestReturns(t *testing.T) {
	t.Parallel()
	for _, answers := range []bool{true, false} {
		const models = "p/one,q/two"
		var specs []boulder.Spec
		for _, id := range []string{"a", "b", "c", "d"} {
			specs = append(specs, boulder.Spec{ID: id, Model: models})
		}
		specs = append(specs, boulder.Spec{ID: "e", Model: models, DependsOn: []string{"a"}})
		s, l := begun(t, specs...), DefaultLimits()
		l.PerModel = 1
		l.Models = nil
		used := func() (all string) {
			for _, id := range []string{"a", "b", "c", "d", "e"} {
				all += s.SubTask(id).Model[:1]
			}
			return all
		}
		settle(t, s, l, epoch)
		refuse(t, s, l, epoch, "a", limitedFor(time.Hour))
		if settle(t, s, l, epoch); used() != "qqqqq" {
			t.Fatalf("out: %s", used())
		}
		over := s.Boulder.Cooldowns["p/one"].Until
		settle(t, s, l, over)
		if used() != "qpqqq" || !s.Open("b").Attempt.Status.Live() {
			t.Fatalf("b is to try alone: %s", used())
		}
		if !answers {
			refuse(t, s, l, over, "b", limitedFor(time.Minute))
			settle(t, s, l, over)
			if again := s.Boulder.Cooldowns["p/one"].Until; used() != "qqqqq" || again.Before(over.Add(2*time.Hour)) {
				t.Errorf("refused again: %s, until %s", used(), again)
			}
			continue
		}
		feed(t, s, over, boulder.SubTaskStart{AttemptRef: ref("b", 1), SessionID: "s"})
		feed(t, s, over, TurnEnded(s, s.Open("b"), 1, boulder.Evidence{}, over))
		if settle(t, s, l, over); used() != "qpppp" {
			t.Errorf("after the answer: %s", used())
		}
		feed(t, s, over, boulder.Retry{AttemptRef: ref("a", 1), Status: boulder.AttemptFailed, Next: 2})
		if settle(t, s, l, over); used() != "ppppp" {
			t.Errorf("with its next attempt: %s", used())
		}
	}
}

// TestNothingUsable: once nothing else can be done, the run ends with the earliest end. A resume asks the first model again.
func TestNothingUsable(t *testing.T) {
	t.Parallel()
	s, l := begun(t, boulder.Spec{ID: "a", Model: "p/one,q/two"}, boulder.Spec{ID: "b", Model: "o/m"}), DefaultLimits()
	settle(t, s, l, epoch)
	refuse(t, s, l, epoch, "a", boulder.ErrNoCredit)
	settle(t, s, l, epoch)
	refuse(t, s, l, epoch, "a", limitedFor(5*time.Hour))
	if kinds := kindsOf(settle(t, s, l, epoch)); kinds != "run" {
		t.Fatalf("b is at work: %s", kinds)
	}
	feed(t, s, epoch, boulder.SubTaskDone{AttemptRef: ref("b", 1), Status: boulder.SubTaskSkipped, AttemptStatus: boulder.AttemptCancelled, ByUser: true})
	actions := settle(t, s, l, epoch)
	if kindsOf(actions) != "stop" {
		t.Fatalf("%s", kindsOf(actions))
	}
	said := actions[0].(Stop).Reason
	for _, part := range []string{"p/one cannot be used", "q/two is limited until " + epoch.Add(5*time.Hour).Local().Format("15:")} {
		if !strings.Contains(said, part) {
			t.Errorf("%q does not say %q", said, part)
		}
	}
	for _, resumed := range [][]boulder.Body{LiftLongLimits(s, l, epoch), LiftOutages(s, epoch)} {
		if len(resumed) != 2 {
			t.Errorf("resumed: %+v", resumed)
		}
	}
	feed(t, s, epoch, boulder.Resumed{})
	feed(t, s, epoch, LiftLongLimits(s, l, epoch)...)
	if kinds := kindsOf(settle(t, s, l, epoch)); kinds != "run" {
		t.Errorf("resumed: %s", kinds)
	}
	if wait := s.Boulder.Cooldowns["q/two"]; !wait.Lifted.After(epoch) {
		t.Errorf("%+v", wait)
	}
}

// TestLimitAndOutage: the end of a limit that a provider named is not that of an outage without a known end, whichever of two
// attempts is refused first.
func TestLimitAndOutage(t *testing.T) {
	t.Parallel()
	for _, ids := range [][2]string{{"a", "b"}, {"b", "a"}} {
		errs := map[string]error{"a": limitedFor(5 * time.Hour), "b": boulder.ErrNoCredit}
		s, l := begun(t, boulder.Spec{ID: "a", Model: "p/one,q/two"}, boulder.Spec{ID: "b", Model: "p/one,q/two"}), DefaultLimits()
		settle(t, s, l, epoch)
		for _, id := range ids {
			refuse(t, s, l, epoch, id, errs[id])
		}
		if cool := s.Boulder.Cooldowns["p/one"]; !cool.Endless() || !cool.Reset.IsZero() {
			t.Errorf("%s: %+v", ids, cool)
		}
		settle(t, s, l, epoch)
		for _, id := range ids {
			if a := s.Open(id).Attempt; a.Model != "q/two" {
				t.Errorf("%s: %s uses %s", ids, id, a.Model)
			}
		}
	}
}

// TestLedgerSwitches: the ledgers have a list of their own, for verdicts and for plans.
func TestLedgerSwitches(t *testing.T) {
	t.Parallel()
	s, l := begun(t, boulder.Spec{ID: "a", Model: "p/one"}, boulder.Spec{ID: "b", Model: "p/one"}), DefaultLimits()
	s.Boulder.LedgerModel = "p/one,q/two"
	settle(t, s, l, epoch)
	for _, id := range []string{"a", "b"} {
		feed(t, s, epoch, boulder.SubTaskStart{AttemptRef: ref(id, 1), SessionID: "s"}, boulder.TurnEnded{AttemptRef: ref(id, 1), Turn: 1})
	}
	refuse(t, s, l, epoch, "a", fmt.Errorf("%w: 402", boulder.ErrNoCredit))
	if kinds := kindsOf(settle(t, s, l, epoch)); kinds != "judge, judge" || s.Boulder.Ledger() != "q/two" || s.SubTask("a").Model != "p/one" {
		t.Errorf("%s by %s", kinds, s.Boulder.Ledger())
	}
	feed(t, s, epoch, LiftOutages(s, epoch)...)
	if kinds := kindsOf(settle(t, s, l, epoch)); kinds != "judge" || s.Boulder.Ledger() != "p/one" {
		t.Errorf("one tries whether it can be used again: %s by %s", kinds, s.Boulder.Ledger())
	}
	feed(t, s, epoch, Judged(s, s.Open("a"), 1, boulder.Verdict{}, epoch))
	if cool := s.Boulder.Cooldowns["p/one"]; cool.Out != "" {
		t.Errorf("answered: %+v", cool)
	}
}

// TestSiblingsSwitch: a model that is out for one boulder is so for others of the process, and one of them tries it again.
func TestSiblingsSwitch(t *testing.T) {
	t.Parallel()
	const models = "p/one,q/two"
	mine, l := begun(t, boulder.Spec{ID: "a", Model: models}), DefaultLimits()
	share := Share{Cooling: map[string]boulder.Cooldown{"p/one": {
		Until: epoch.Add(time.Hour), Since: epoch, Limit: 1, Full: 2, Reason: "429", Out: boulder.OutLimit,
	}}}
	if settle(t, mine, l, epoch, share); mine.SubTask("a").Model != "q/two" {
		t.Errorf("%+v", mine.Boulder.Cooldowns)
	}
	feed(t, mine, epoch, boulder.Retry{AttemptRef: ref("a", 1), Status: boulder.AttemptFailed, Next: 2})
	over := epoch.Add(time.Hour)
	for _, tries := range []Share{{Held: map[string]int{"p/one": 1}}, {Waiting: []Ticket{{Model: "p/one"}}}} {
		l := l
		l.Global = 0 // nothing starts
		if settle(t, mine, l, over, tries); mine.SubTask("a").Model != "q/two" {
			t.Error("two try at once")
		}
	}
	if settle(t, mine, l, over); mine.SubTask("a").Model != "p/one" {
		t.Error("nobody tries")
	}
}

// TestRefusedTogether: attempts that were at work when their model was found to be out change nothing about that.
func TestRefusedTogether(t *testing.T) {
	t.Parallel()
	s, l := begun(t, boulder.Spec{ID: "a", Model: "p/one,q/two"}, boulder.Spec{ID: "b", Model: "p/one,q/two"}), DefaultLimits()
	settle(t, s, l, epoch)
	overloaded := &boulder.TroubleError{Kind: boulder.TroubleOverloaded, Err: errors.New("529")}
	refuse(t, s, l, epoch, "a", overloaded)
	now := s.Open("a").Attempt.NotBefore
	refuse(t, s, l, now, "a", overloaded)
	settle(t, s, l, now)
	refuse(t, s, l, now, "b", overloaded)
	settle(t, s, l, now)
	cool := s.Boulder.Cooldowns["p/one"]
	if b := s.Open("b").Attempt; b.Model != "q/two" || b.NotBefore.After(now) || cool.Out != boulder.OutOverload || cool.Until.Before(now.Add(l.WaitForModel)) {
		t.Errorf("%+v, %+v", b, cool)
	}
}

// TestModelUses: what is shown of models, by what happened to the first one of a list.
func TestModelUses(t *testing.T) {
	t.Parallel()
	guess := &boulder.TroubleError{Kind: boulder.TroubleRateLimit, RetryAfter: 30 * time.Minute, Guessed: true, Err: errors.New("429")}
	for name, tt := range map[string]struct {
		err  error
		want string // model>instead|fallback@named
	}{
		"nothing":            {nil, "p/one>|q/two q/two>| p/judge>|"},
		"a long limit":       {limitedFor(5 * time.Hour), "p/one>q/two|@5h0m0s q/two>| p/judge>|"},
		"a short limit":      {limitedFor(9 * time.Minute), "p/one>|q/two@9m0s q/two>| p/judge>|"},
		"a pause":            {limitedFor(59 * time.Second), "p/one>|q/two q/two>| p/judge>|"},
		"a time that may be": {guess, "p/one>q/two| q/two>| p/judge>|"},
	} {
		s, l, now := begun(t, boulder.Spec{ID: "a", Model: "p/one,q/two"}), DefaultLimits(), epoch
		s.Boulder.LedgerModel = "p/judge"
		settle(t, s, l, now)
		feed(t, s, now, boulder.SubTaskStart{AttemptRef: ref("a", 1), SessionID: "s"})
		if tt.err != nil {
			refuse(t, s, l, now, "a", tt.err)
			settle(t, s, l, now)
		}
		var got []string
		for _, u := range ModelUses(s, now) {
			line := u.Model + ">" + strings.Join(u.Instead, ",") + "|" + strings.Join(u.Fallback, ",")
			if u.Cooldown != nil && !u.Cooldown.Reset.IsZero() {
				line += "@" + u.Cooldown.Reset.Sub(now).String()
			}
			got = append(got, line)
		}
		if all := strings.Join(got, " "); all != tt.want {
			t.Errorf("%s: %s, want %s", name, all, tt.want)
		}
	}
}
