package blockers

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
)

// An answer is taken once, and stays to be handed over until that is done.
func TestSettle(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.desk(t)
	raise(t, d, hardInput("One?"))
	raise(t, d, softInput("Two?"))
	watched := boulder.BlockerScope{SessionID: "ses_watched"}
	if _, _, err := d.Raise(t.Context(), watched, hardInput("Three?")); err != nil {
		t.Fatal(err)
	}
	p.clock.pass(time.Hour)
	b := settle(t, d, "b1", Settlement{Status: boulder.BlockerAnswered, Answer: " Yes.\r\nDo. "})
	if b.Status != boulder.BlockerAnswered || b.Answer != "Yes.\nDo." || !b.SettledAt.Equal(epoch.Add(time.Hour)) {
		t.Errorf("%+v", b)
	}
	if diff := cmp.Diff(b, get1(t, p.desk(t), "B1")); diff != "" {
		t.Error(diff)
	}
	if b, err := d.Settle(t.Context(), "B1", Settlement{Status: boulder.BlockerSkipped}); !errors.Is(err, ErrSettled) ||
		b.Answer != "Yes.\nDo." || err.Error() != "B1 is answered: it is settled already" {
		t.Errorf("%+v, %v", b, err)
	}
	settle(t, d, "B2", Settlement{Status: boulder.BlockerSkipped})
	settle(t, d, "B3", Settlement{Status: boulder.BlockerAnswered, Answer: "Of no boulder."})
	undelivered := func(boulderID string, want ...string) {
		t.Helper()
		found, err := p.desk(t).Undelivered(t.Context(), boulderID)
		var got []string
		for _, b := range found {
			got = append(got, b.ID)
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("of %q: %v\n%s", boulderID, err, diff)
		}
	}
	undelivered(scope.BoulderID, "B1", "B2")
	undelivered("", "B1", "B2")
	undelivered("01J")
	for range 2 {
		if err := d.Delivered(t.Context(), "B1"); err != nil {
			t.Fatal(err)
		}
	}
	undelivered(scope.BoulderID, "B2")
	raise(t, d, hardInput("Four?"))
	if err := d.Delivered(t.Context(), "B4"); err == nil {
		t.Error("what nobody has settled is delivered")
	}
}

func TestSettlementsThatAreRefused(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.desk(t)
	raise(t, d, hardInput("One?"))
	for want, s := range map[string]Settlement{
		"it is empty":                           {Status: boulder.BlockerAnswered, Answer: " \x00\n"},
		`cannot be settled as ""`:               {Answer: "Yes."},
		`cannot be settled as "pending"`:        {Status: boulder.BlockerPending, Answer: "Yes."},
		"what is skipped gets none":             {Status: boulder.BlockerSkipped, Answer: "Yes."},
		"has 4001 characters and may have 4000": {Status: boulder.BlockerAnswered, Answer: strings.Repeat("é", 4001)},
	} {
		if _, err := d.Settle(t.Context(), "B1", s); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "that is no answer to B1: ") {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if _, err := d.Settle(t.Context(), "B2", Settlement{Status: boulder.BlockerSkipped}); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
	b := settle(t, d, "B1", Settlement{Status: boulder.BlockerAnswered, Answer: strings.Repeat("é", 4000)})
	order := boulder.Order{Do: boulder.OrderSettle, SubTaskID: b.SubTaskID, BlockerID: b.ID, Text: b.Answer}
	if err := order.Validate(); err != nil {
		t.Errorf("what is taken as an answer cannot be handed over: %v", err)
	}
}

// Each filter finds what it says, oldest first, alone and with others.
func TestList(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.desk(t)
	at := func(boulderID, subTask string, attempt int, session string) boulder.BlockerScope {
		return boulder.BlockerScope{BoulderID: boulderID, SubTaskID: subTask, Attempt: attempt, SessionID: session}
	}
	for i, s := range []boulder.BlockerScope{
		at("b", "z", 1, "s1"), at("b", "a", 2, "s2"), at("b", "a", 1, "s1"), at("b2", "a", 1, "s3"), at("", "", 0, "s1"),
		at("b", "a", 256, "s4"), at("b", "ab", 1, "s4"),
	} {
		in := hardInput("Which?")
		if i%2 == 1 {
			in = softInput("Which?")
		}
		in.Question += idOf(uint64(i))
		if _, _, err := d.Raise(t.Context(), s, in); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, d, "B2", Settlement{Status: boulder.BlockerAnswered, Answer: "Yes."})
	settle(t, d, "B3", Settlement{Status: boulder.BlockerSkipped})
	check := func(what string, want string, found []boulder.Blocker, err error) {
		t.Helper()
		var got []string
		for _, b := range found {
			got = append(got, b.ID)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	for _, c := range []struct {
		filter Filter
		want   string
	}{
		{Filter{}, "B1 B2 B3 B4 B5 B6 B7"}, {Filter{BoulderID: "b"}, "B1 B2 B3 B6 B7"},
		{Filter{BoulderID: "b", SubTaskID: "a"}, "B2 B3 B6"}, {Filter{SubTaskID: "a"}, "B2 B3 B4 B6"},
		{Filter{SessionID: "s1"}, "B1 B3 B5"}, {Filter{SessionID: "s"}, ""}, {Filter{SessionID: "s1", BoulderID: "b"}, "B1 B3"},
		{Filter{Status: boulder.BlockerPending}, "B1 B4 B5 B6 B7"}, {Filter{Status: boulder.BlockerAnswered}, "B2"},
		{Filter{Status: boulder.BlockerSkipped, BoulderID: "b"}, "B3"}, {Filter{Status: "other"}, ""},
		{Filter{Hard: ptr(true)}, "B1 B3 B5 B7"}, {Filter{Hard: ptr(false), Status: boulder.BlockerPending}, "B4 B6"},
	} {
		found, err := d.List(t.Context(), c.filter)
		check("filter", c.want, found, err)
	}
	for want, ref := range map[string]boulder.BlockerScope{
		"B3": {SubTaskID: "a", Attempt: 1}, "B2": {SubTaskID: "a", Attempt: 2}, "B6": {SubTaskID: "a", Attempt: 256},
		"": {SubTaskID: "a", Attempt: 3},
	} {
		ref.BoulderID = "b"
		found, err := d.Raised(t.Context(), ref)
		check("raised", want, found, err)
	}
	s := status(t, d)
	if s.Unwritten != 0 || s.File != DefaultFile {
		t.Errorf("%+v", s)
	}
}

// The session's switch holds before the project's, and that before the configuration; in every process at once, and until
// it is used again.
func TestSwitch(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	for _, configured := range []bool{true, false} {
		d := p.desk(t, func(c *Config) { c.Enabled = configured })
		mine := boulder.BlockerScope{SessionID: "mine"}
		other := boulder.BlockerScope{SessionID: "other"}
		set := func(session string, on *bool, wantMine, wantOther bool) {
			t.Helper()
			if err := p.desk(t).Switch(t.Context(), session, on); err != nil {
				t.Fatal(err)
			}
			if d.On(mine) != wantMine || d.On(other) != wantOther {
				t.Errorf("configured %v, %q: %v, %v", configured, session, d.On(mine), d.On(other))
			}
			_, _, err := d.Raise(t.Context(), mine, hardInput("Which?"))
			if (err == nil) != wantMine || err != nil && !errors.Is(err, ErrOff) {
				t.Errorf("configured %v, %q: %v", configured, session, err)
			}
		}
		set("", nil, configured, configured)
		set("", ptr(false), false, false)
		set("mine", ptr(true), true, false)
		s := status(t, d)
		if s.Switch == nil || *s.Switch || !cmp.Equal(s.Sessions, map[string]bool{"mine": true}) {
			t.Errorf("%+v", s)
		}
		set("", ptr(true), true, true)
		set("mine", ptr(false), false, true)
		set("", nil, false, configured)
		set("mine", nil, configured, configured)
		if s := status(t, d); s.Switch != nil || len(s.Sessions) != 0 {
			t.Errorf("%+v", s)
		}
	}
	if err := p.desk(t).Switch(t.Context(), "a\nb", ptr(true)); err == nil {
		t.Error("a session that there cannot be is switched")
	}
}

// A boulder that was started with diversion has it whatever the configuration says, but a switch is stronger.
func TestDivertedBoulder(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.desk(t, func(c *Config) { c.Enabled = false })
	diverted := scope
	diverted.Diverted = true
	asked := permission("per_1", "ls")
	asked.Diverted = true
	for _, c := range []struct {
		project *bool
		want    bool
	}{{nil, true}, {ptr(false), false}, {ptr(true), true}} {
		if err := d.Switch(t.Context(), "", c.project); err != nil {
			t.Fatal(err)
		}
		_, _, raiseErr := d.Raise(t.Context(), diverted, hardInput("Which?"))
		_, divertErr := d.Divert(t.Context(), asked)
		if d.On(diverted) != c.want || errors.Is(raiseErr, ErrOff) == c.want || errors.Is(divertErr, ErrOff) == c.want {
			t.Errorf("%v: %v, %v", d.On(diverted), raiseErr, divertErr)
		}
	}
}

// A project in which nothing can be made says so and where.
func TestNoPlaceForTheDatabase(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	if err := os.WriteFile(filepath.Join(p.dir, ".manager"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := p.desk(t)
	if _, _, err := d.Raise(t.Context(), scope, hardInput("Which?")); !errors.Is(err, store.ErrUnusable) {
		t.Errorf("%v", err)
	}
	elsewhere := p.desk(t, func(c *Config) { c.Path = filepath.Join(p.dir, "none", "b.db") })
	if _, _, err := elsewhere.Raise(t.Context(), scope, hardInput("Which?")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
