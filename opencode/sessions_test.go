package opencode_test

import (
	"testing"
	"time"

	"github.com/bouldermgr/manager/opencode"
)

// Sessions lists by the last time something happened, without those of sub-agents or too old ones where that is asked
// for; and what a turn says of its variant and of the work tree is read.
func TestListSessions(t *testing.T) {
	t.Parallel()
	s := newScene(t, steps(bash("touch new.txt")))
	old := s.session()
	child, err := s.dir.CreateSession(s.ctx, opencode.NewSession{Title: "child", ParentID: old.ID})
	if err != nil {
		t.Fatal(err)
	}
	between := time.UnixMilli(child.Updated.UnixMilli() + 1)
	busy := s.session()
	sub := s.follow(s.dir.Client(), busy.ID)
	p := prompt(opencode.NewMessageID(time.Now()), s.mark+" go")
	p.Variant = "high"
	if err := s.dir.Prompt(s.ctx, busy.ID, p); err != nil {
		t.Fatal(err)
	}
	await(s.ctx, t, sub, status(opencode.Idle))
	ids := func(f opencode.SessionFilter) string {
		t.Helper()
		found, err := s.dir.Sessions(s.ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		all := ""
		for _, one := range found {
			all += map[string]string{old.ID: "old ", child.ID: "child ", busy.ID: "busy "}[one.ID]
		}
		return all
	}
	for _, test := range []struct {
		filter opencode.SessionFilter
		want   string
	}{
		{opencode.SessionFilter{}, "busy child old "},
		{opencode.SessionFilter{Roots: true}, "busy old "},
		{opencode.SessionFilter{Roots: true, Limit: 1}, "busy "},
		{opencode.SessionFilter{UpdatedSince: between}, "busy "},
	} {
		if got := ids(test.filter); got != test.want {
			t.Errorf("%+v: %q, want %q", test.filter, got, test.want)
		}
	}
	messages, err := s.dir.Messages(s.ctx, busy.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	snapshots := map[string]bool{}
	for _, m := range messages {
		if m.Info.Variant != "high" {
			t.Errorf("variant %q of a message of the %s", m.Info.Variant, m.Info.Role)
		}
		for _, part := range m.Parts {
			if part.Step != nil {
				snapshots[part.Step.Snapshot] = true
			}
		}
	}
	if len(snapshots) == 0 || snapshots[""] {
		t.Errorf("snapshots: %v", snapshots)
	}
}
