package blockers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
)

// A blocker is settled once. TestRegisterAndModel covers what follows.
func TestSettle(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.register(t)
	raise(t, d, hardInput("One?"))
	p.clock.pass(time.Hour)
	b := settle(t, d, "w1", answered(" Yes.\r\nDo. "))
	if b.Status != boulder.BlockerAnswered || b.Answer != "Yes.\nDo." || !b.SettledAt.Equal(epoch.Add(time.Hour)) {
		t.Errorf("%+v", b)
	}
	if diff := cmp.Diff(b, mustGet(t, p.register(t), "W1")); diff != "" {
		t.Error(diff)
	}
	if b, err := d.Settle(t.Context(), "W1", skipped); !errors.Is(err, ErrSettled) || b.Answer != "Yes.\nDo." {
		t.Errorf("%+v, %v", b, err)
	}
}

// An option's number stands for it, unless an option has that very text, or it is the placeholder for those cut off.
func TestSettleByNumber(t *testing.T) {
	t.Parallel()
	d := newProject(t).register(t)
	many := strings.Fields("a b c d e f g h i j k l")
	for i, test := range []struct {
		options      []string
		answer, want string
	}{
		{[]string{"Red", "Blue"}, " 2\n", "Blue"}, {[]string{"5 tries", "10 tries"}, "7", "7"}, {[]string{"2", "4", "8"}, "0", "0"},
		{[]string{"Red", "Blue"}, "2.", "2."}, {nil, "1", "1"}, {[]string{"2", "4", "8"}, "2", "2"}, {[]string{"2", "4", "8"}, "3", "8"},
		{many, "9", "i"}, {many, "10", "10"}, {many[:10], "10", "j"},
	} {
		id := idOf(uint64(i + 1))
		divert(t, d, question("que_"+id, "Which of "+id+"?", test.options...))
		if b := settle(t, d, id, answered(test.answer)); b.Answer != test.want {
			t.Errorf("%q of %q is %q, want %q", test.answer, test.options, b.Answer, test.want)
		}
	}
}

// A number that no option has is a slip, unless the options have numbers themselves. An answer is final, so it is asked again.
func TestNumberOfNoOption(t *testing.T) {
	t.Parallel()
	d := newProject(t).register(t)
	divert(t, d, question("que_1", "Which colour?", "Red", "Blue"))
	for _, answer := range []string{"0", "3", "-1", " 7\n", "99999"} {
		if _, err := d.Settle(t.Context(), "W1", answered(answer)); !errors.Is(err, ErrNoAnswer) ||
			!strings.Contains(err.Error(), "there is no option "+strings.TrimSpace(answer)+", only 1 to 2") ||
			mustGet(t, d, "W1").Status != boulder.BlockerPending {
			t.Errorf("%q: %v", answer, err)
		}
	}
}

func TestSettlementsThatAreRefused(t *testing.T) {
	t.Parallel()
	d := newProject(t).register(t)
	raise(t, d, hardInput("One?"))
	divert(t, d, question("que_1", "Who?"))
	for want, s := range map[string]Settlement{
		"it is empty":                           answered(" \x00\n"),
		`cannot be settled as ""`:               {Answer: "Yes."},
		`cannot be settled as "pending"`:        {Status: boulder.BlockerPending, Answer: "Yes."},
		"what is skipped gets none":             {Status: boulder.BlockerSkipped, Answer: "Yes."},
		"has 4001 characters and may have 4000": answered(strings.Repeat("é", 4001)),
		"there is none to give":                 {Status: boulder.BlockerAnswered, Allowed: true, Answer: "Yes."},
	} {
		for _, id := range []string{"W1", "W2"} {
			if _, err := d.Settle(t.Context(), id, s); !errors.Is(err, ErrNoAnswer) || !strings.Contains(err.Error(), want) ||
				!strings.HasPrefix(err.Error(), "that is no answer to "+id+": ") || mustGet(t, d, id).Status != boulder.BlockerPending {
				t.Errorf("%+v: %v", s, err)
			}
		}
	}
	b := settle(t, d, "W1", answered(strings.Repeat("é", 4000)))
	order := boulder.Order{Do: boulder.OrderSettle, SubTaskID: "api", BlockerID: b.ID, Text: b.Answer}
	if err := order.Validate(); err != nil {
		t.Errorf("what is taken as an answer is no order: %v", err)
	}
}

// Each filter finds what it says, oldest first, alone and combined: of runs and outside of them.
func TestFilter(t *testing.T) {
	t.Parallel()
	at := func(boulderID, subTask string, attempt int, session string) boulder.BlockerScope {
		return boulder.BlockerScope{BoulderID: boulderID, SubTaskID: subTask, Attempt: attempt, SessionID: session}
	}
	var all []boulder.Blocker
	for i, s := range []boulder.BlockerScope{
		at("b", "z", 1, "s1"), at("b", "a", 2, "s2"), at("b", "a", 1, "s1"), at("b2", "a", 1, "s3"), at("", "", 0, "s1"),
		at("b", "a", 256, "s4"), at("b", "ab", 1, "s4"),
	} {
		b := boulder.Blocker{ID: fmt.Sprint("B", i+1), BlockerScope: s, Hard: i%2 == 0, Status: boulder.BlockerPending}
		all = append(all, b)
	}
	all[1].Status, all[2].Status = boulder.BlockerAnswered, boulder.BlockerSkipped
	for _, c := range []struct {
		filter Filter
		want   string
	}{
		{Filter{}, "B1 B2 B3 B4 B5 B6 B7"}, {Filter{BlockerScope: at("b", "", 0, "")}, "B1 B2 B3 B6 B7"},
		{Filter{BlockerScope: at("b", "a", 0, "")}, "B2 B3 B6"}, {Filter{BlockerScope: at("", "a", 0, "")}, "B2 B3 B4 B6"},
		{Filter{BlockerScope: at("b", "a", 1, "")}, "B3"}, {Filter{BlockerScope: at("b", "a", 3, "")}, ""},
		{Filter{BlockerScope: at("", "", 0, "s1")}, "B1 B3 B5"}, {Filter{BlockerScope: at("b", "", 0, "s1")}, "B1 B3"},
		{Filter{Status: boulder.BlockerPending}, "B1 B4 B5 B6 B7"}, {Filter{Status: boulder.BlockerAnswered}, "B2"},
		{Filter{Status: boulder.BlockerSkipped, BlockerScope: at("b", "", 0, "")}, "B3"}, {Filter{Status: "other"}, ""},
		{Filter{Hard: ptr(true)}, "B1 B3 B5 B7"}, {Filter{Hard: ptr(false), Status: boulder.BlockerPending}, "B4 B6"},
	} {
		got := slices.DeleteFunc(slices.Clone(all), func(b boulder.Blocker) bool { return !c.filter.Match(&b) })
		if got := strings.Join(ids(got), " "); got != c.want {
			t.Errorf("%+v: %s and not %s", c.filter, got, c.want)
		}
	}
}

// Those of an attempt are in the book of its turn, whichever session asked; all others in the register, by session.
func TestListAndRaised(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.register(t)
	later := inRun
	later.Attempt = 3
	d.Bind(later, p.turn(d, inRun))
	subAgent := inRun
	subAgent.SessionID = "ses_sub"
	other := boulder.BlockerScope{SessionID: "ses_other"}
	for i, s := range []boulder.BlockerScope{inRun, scope, subAgent, other, scope, later} {
		_, err := d.Raise(t.Context(), s, hardInput(fmt.Sprintf("Question %d?", i)))
		check(t, err)
	}
	for want, s := range map[string]boulder.BlockerScope{"B1 B2": inRun, "B3": later, "W1 W3": scope, "W2": other} {
		if found, err := d.Raised(t.Context(), s); err != nil || strings.Join(ids(found), " ") != want {
			t.Errorf("%+v: %v and not %s, %v", s, ids(found), want, err)
		}
	}
	settle(t, d, "W2", skipped)
	for want, f := range map[string]Filter{
		"W1 W2 W3": {}, "W1 W3": {BlockerScope: scope}, "W2": {Status: boulder.BlockerSkipped}, "": {BlockerScope: inRun},
	} {
		if got := strings.Join(ids(listed(t, d, f)), " "); got != want {
			t.Errorf("%+v: %s and not %s", f, got, want)
		}
	}
}

// A session's switch overrides the project's, which overrides configuration and boulder, at once in every process.
func TestSwitch(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	for _, configured := range []bool{true, false} {
		d := p.register(t, func(c *Config) { c.Enabled = configured })
		mine, other := boulder.BlockerScope{SessionID: "mine"}, boulder.BlockerScope{SessionID: "other"}
		diverted := boulder.BlockerScope{SessionID: "third", Diverted: true}
		set := func(session string, on *bool, wantMine, wantOther, wantDiverted bool) {
			t.Helper()
			check(t, p.register(t).Switch(t.Context(), session, on))
			for at, want := range map[boulder.BlockerScope]bool{mine: wantMine, other: wantOther, diverted: wantDiverted} {
				_, raiseErr := d.Raise(t.Context(), at, hardInput("Which?"))
				_, divertErr := d.Divert(t.Context(), askedIn(at, *permission("per_1", "ls").Ask))
				if d.On(at) != want || errors.Is(raiseErr, ErrOff) == want || errors.Is(divertErr, ErrOff) == want {
					t.Errorf("configured %v, %+v: %v, %v, %v", configured, at, d.On(at), raiseErr, divertErr)
				}
			}
		}
		set("", nil, configured, configured, true)
		set("", ptr(false), false, false, false)
		set("mine", ptr(true), true, false, false)
		s := status(t, d)
		if s.Switch == nil || *s.Switch || !cmp.Equal(s.Sessions, map[string]bool{"mine": true}) || s.File != DefaultFile {
			t.Errorf("%+v", s)
		}
		set("", ptr(true), true, true, true)
		set("mine", ptr(false), false, true, true)
		set("", nil, false, configured, true)
		set("mine", nil, configured, configured, true)
		if s := status(t, d); s.Switch != nil || len(s.Sessions) != 0 {
			t.Errorf("%+v", s)
		}
	}
	if err := p.register(t).Switch(t.Context(), "a\nb", ptr(true)); err == nil {
		t.Error("a session that there cannot be is switched")
	}
}
