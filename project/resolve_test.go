package project_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

// listed is a Reader whose list is fixed and ends with err.
type listed struct {
	project.Reader
	items []store.Item
	err   error
}

func (l listed) Listing(context.Context) ([]store.Item, error) {
	return append([]store.Item{}, l.items...), l.err
}

func (l listed) Get(_ context.Context, id string) (boulder.Snapshot, error) {
	return boulder.Snapshot{Boulder: boulder.Boulder{ID: id}}, nil
}

func TestWhichBoulderIsMeant(t *testing.T) {
	t.Parallel()
	item := func(id string, active, over, archived bool) store.Item {
		i := store.Item{BoulderID: id, Active: active, Status: boulder.Paused}
		if over {
			i.Status = boulder.Completed
		}
		if archived {
			i.ArchivedAt = time.Unix(1, 0)
		}
		return i
	}
	five := []store.Item{
		item("x01", false, true, true), item("01", false, false, false), item("01bbx", true, false, false),
		item("01aay", false, true, false), item("01aax", false, true, false),
	}
	unreadable := &store.CorruptError{Bucket: "list", Key: "01z", Err: errors.New("rotten")}
	over := item("a", true, true, true)
	for _, tc := range []struct {
		of         listed
		ref        string
		want       string // or a part of the error
		unfinished string // what Find returns without an id, or a part of its error; empty: not checked
	}{
		{listed{items: five}, "", "01bbx", "01bbx"},
		{listed{items: five}, "01aax", "01aax", ""},
		{listed{items: five}, "01b", "01bbx", ""},
		{listed{items: five}, "ay", "01aay", ""},
		{listed{items: five}, "01", "01", ""},
		{listed{items: five}, "x0", "x01", ""},
		{listed{items: five}, "x", `"x" fits 3 boulders, give more of the id: x01, 01bbx, 01aax`, ""},
		{listed{items: five}, "bb", `"bb": see`, ""},
		{listed{items: five}, "01aaxx", "no such boulder", ""},
		{listed{items: five[3:]}, "", "01aay", "every boulder here is over"},
		{listed{items: []store.Item{over, item("b", false, true, false)}}, "", "b", "every boulder"},
		{listed{items: []store.Item{item("a", true, true, false), item("b", false, false, false)}}, "", "a", "b"},
		{listed{items: []store.Item{over}}, "", "manager list --archived", "every boulder"},
		{listed{items: []store.Item{over}}, "a", "a", ""},
		{listed{}, "", "nothing has been run here yet", "nothing has been run here yet"},
		{listed{}, "x", "nothing has been run here yet", ""},
		{listed{items: five, err: unreadable}, "", "01bbx", "01bbx"},
		{listed{items: five, err: unreadable}, "01z", "rotten", ""},
		{listed{items: five[3:], err: unreadable}, "", "rotten", "rotten"},
	} {
		check := func(id string, err error, want string) {
			t.Helper()
			_, usage := errors.AsType[*project.UsageError](err)
			usage = usage || errors.Is(err, boulder.ErrNotFound)
			if id != want && (err == nil || !strings.Contains(err.Error(), want)) || id == "" && !usage && tc.of.err == nil {
				t.Errorf("%q of %d is %q, %v, want %q", tc.ref, len(tc.of.items), id, err, want)
			}
		}
		id, err := project.Resolve(t.Context(), tc.of, tc.ref)
		check(id, err, tc.want)
		if tc.unfinished != "" {
			found, err := (&project.Access{Reader: tc.of}).Find(t.Context(), "")
			check(found.Boulder.ID, err, tc.unfinished)
		}
	}
}
