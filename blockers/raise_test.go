package blockers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/secret"
)

// What is raised is there for every other process, with all that was said, and its files are for their owner only.
func TestRaise(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	in := softInput(" Which\r\nname? ")
	got := raise(t, p.desk(t), in)
	want := boulder.Blocker{
		ID: "B1", BoulderID: "01JBOULDER", SubTaskID: "api", Attempt: 2, SessionID: "ses_api", Category: "question",
		Question: "Which\nname?", Context: "It is a detail.", Options: []string{"first", "second", "third"},
		ChosenOption: "second", ChosenReasoning: "It is the middle.", Status: boulder.BlockerPending, CreatedAt: epoch,
	}
	for _, b := range []boulder.Blocker{got, get1(t, p.desk(t), "b1")} {
		if diff := cmp.Diff(want, b); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if in.Question != " Which\r\nname? " {
		t.Error("the caller's input was changed")
	}
	for _, name := range []string{".manager/" + FileName, DefaultFile} {
		if info, err := os.Stat(filepath.Join(p.dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(p.dir, ".manager", ".*.tmp")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Nothing is made by looking, by what is refused, or by what is off.
func TestNothingIsMadeForNothing(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.desk(t, func(c *Config) { c.Enabled = false })
	ctx := t.Context()
	if _, _, err := d.Raise(ctx, scope, hardInput("Which?")); !errors.Is(err, ErrOff) {
		t.Errorf("off: %v", err)
	}
	if _, err := d.Divert(ctx, permission("per_1", "ls")); !errors.Is(err, ErrOff) {
		t.Errorf("off: %v", err)
	}
	on := p.desk(t, func(c *Config) {
		c.Policy.Permissions = []Rule{{Permission: "bash", Action: Allow}}
	})
	if _, _, err := on.Raise(ctx, scope, Input{}); err == nil {
		t.Error("an empty call is recorded")
	}
	if r := divert(t, on, permission("per_1", "ls")); r.Reply != boulder.ReplyAllowed || r.BlockerID != "" {
		t.Errorf("%+v", r)
	}
	for name, err := range map[string]error{
		"get":       func() error { _, err := d.Get(ctx, "B1"); return err }(),
		"settle":    func() error { _, err := d.Settle(ctx, "B1", Settlement{Status: boulder.BlockerSkipped}); return err }(),
		"ruling":    func() error { _, err := d.Ruling(ctx, "B1"); return err }(),
		"gone":      d.Gone(ctx, "B1"),
		"delivered": d.Delivered(ctx, "B1"),
		"no id":     func() error { _, err := d.Get(ctx, "7"); return err }(),
		"id 0":      func() error { _, err := d.Get(ctx, "B0"); return err }(),
		"id -1":     func() error { _, err := d.Get(ctx, "B-1"); return err }(),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	undelivered, err := d.Undelivered(ctx, "")
	raised, raisedErr := d.Raised(ctx, boulder.BlockerScope{BoulderID: "01JBOULDER", SubTaskID: "api", Attempt: 2})
	if err := errors.Join(err, raisedErr, d.Flush(ctx), d.Switch(ctx, "", nil)); err != nil {
		t.Error(err)
	}
	s := status(t, d)
	if n := len(undelivered) + len(raised) + len(listed(t, d, Filter{})); n != 0 || s.Switch != nil {
		t.Errorf("%d, %+v", n, s)
	}
	if entries, err := os.ReadDir(p.dir); err != nil || len(entries) > 0 {
		t.Errorf("made: %v, %v", entries, err)
	}
}

// The same question and context of a session within 30 s is one record, whichever process gets it.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	one, other := p.desk(t), p.desk(t)
	raise(t, one, softInput("Which name?"))
	known := map[string]bool{"B1": true}
	elsewhere := scope
	elsewhere.SessionID = "ses_api2"
	folded := softInput("  Which\n\tname? ")
	context, hard := folded, folded
	context.Context, hard.BlocksProgress = "Another.", ptr(true)
	for _, c := range []struct {
		what string
		pass time.Duration
		d    *Desk
		at   boulder.BlockerScope
		in   Input
		want string
	}{
		{"white space", 29 * time.Second, other, scope, folded, "B1"},
		{"another session", 0, other, elsewhere, folded, "B2"},
		{"another context", 0, one, scope, context, "B3"},
		{"after another one", 0, one, scope, folded, "B1"},
		{"that it blocks progress is not lost", 0, one, scope, hard, "B4"},
		{"soft again, 30 s after the first", time.Second, one, scope, folded, "B4"},
		{"30 s after the last", 29 * time.Second, one, scope, folded, "B5"},
		{"without a cooldown", 0, p.desk(t, func(c *Config) { c.Cooldown = -1 }), scope, folded, "B6"},
	} {
		p.clock.pass(c.pass)
		b, duplicate, err := c.d.Raise(t.Context(), c.at, c.in)
		if err != nil || b.ID != c.want || duplicate != known[b.ID] {
			t.Errorf("%s: %s, duplicate %v, %v", c.what, b.ID, duplicate, err)
		}
		known[b.ID] = true
	}
	if n := strings.Count(p.file(t), "- [ ] "); n != 6 {
		t.Errorf("%d items in the file", n)
	}
}

// A session has at most 50; the next is refused, and leaves nothing. Other sessions, and asks that are known, go on.
func TestCap(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.desk(t, func(c *Config) { c.Max = 3 })
	divert(t, d, permission("per_1", "ls"))
	raise(t, d, hardInput("Which?"))
	raise(t, d, hardInput("Who?"))
	if _, _, err := d.Raise(t.Context(), scope, hardInput("When?")); !errors.Is(err, ErrTooMany) {
		t.Errorf("the fourth: %v", err)
	}
	ruling, err := d.Divert(t.Context(), permission("per_2", "rm"))
	if !errors.Is(err, ErrTooMany) || ruling.Reply != boulder.ReplyDiverted || ruling.BlockerID != "" ||
		!strings.Contains(ruling.Message, "bash: rm") {
		t.Errorf("%+v, %v", ruling, err)
	}
	if r := divert(t, d, permission("per_3", "ls")); r.BlockerID != "B1" {
		t.Errorf("a known ask: %+v", r)
	}
	if _, duplicate, err := d.Raise(t.Context(), scope, hardInput("Which?")); !duplicate || err != nil {
		t.Errorf("a duplicate: %v", err)
	}
	elsewhere := scope
	elsewhere.SessionID = "ses_other"
	if b, _, err := d.Raise(t.Context(), elsewhere, hardInput("When?")); err != nil || b.ID != "B4" {
		t.Errorf("%s, %v", b.ID, err)
	}
	none := p.desk(t, func(c *Config) { c.Max = -1 })
	elsewhere.SessionID = "ses_third"
	if _, _, err := none.Raise(t.Context(), elsewhere, hardInput("When?")); !errors.Is(err, ErrTooMany) {
		t.Errorf("where none may be: %v", err)
	}
	if n := len(listed(t, d, Filter{})); n != 4 {
		t.Errorf("%d records", n)
	}
	if n := p.desk(t).cfg.Max; n != 50 {
		t.Errorf("without a number: %d", n)
	}
}

// Ten sessions at once, in two processes' stead: every record is there once, under its session, and in the file.
func TestTenSessionsAtOnce(t *testing.T) {
	t.Parallel()
	const sessions, each = 10, 6
	p := newProject(t)
	desks := []*Desk{p.desk(t), p.desk(t)}
	var g errgroup.Group
	for s := range sessions {
		g.Go(func() error {
			at := boulder.BlockerScope{SessionID: fmt.Sprintf("ses_%d", s)}
			if s%2 == 0 {
				at.BoulderID, at.SubTaskID, at.Attempt = "01J", fmt.Sprintf("t%d", s), 1
			}
			for i := range each {
				d := desks[(s+i)%2]
				var err error
				if i%3 == 2 {
					ask := permission(fmt.Sprintf("per_%d", i), fmt.Sprintf("cmd %d", i))
					ask.BoulderID, ask.SubTaskID, ask.Attempt, ask.SessionID = at.BoulderID, at.SubTaskID, at.Attempt, at.SessionID
					_, err = d.Divert(context.Background(), ask)
				} else {
					_, _, err = d.Raise(context.Background(), at, hardInput(fmt.Sprintf("Question %d of session %d?", i, s)))
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	d := p.desk(t)
	ids := map[string]bool{}
	for s := range sessions {
		found := listed(t, d, Filter{SessionID: fmt.Sprintf("ses_%d", s)})
		if len(found) != each {
			t.Errorf("session %d has %d records", s, len(found))
		}
		for _, b := range found {
			ids[b.ID] = true
			if b.Ask == nil && !strings.HasSuffix(b.Question, fmt.Sprintf("of session %d?", s)) {
				t.Errorf("session %d has %q", s, b.Question)
			}
		}
		if s%2 == 0 {
			ref := boulder.BlockerScope{BoulderID: "01J", SubTaskID: fmt.Sprintf("t%d", s), Attempt: 1}
			if raised, err := d.Raised(t.Context(), ref); err != nil || !cmp.Equal(raised, found) {
				t.Errorf("of attempt %v: %d, %v", ref, len(raised), err)
			}
		}
	}
	if len(ids) != sessions*each || strings.Count(p.file(t), "- [ ] ") != sessions*each || status(t, d).Unwritten != 0 {
		t.Errorf("%d records, %d in the file", len(ids), strings.Count(p.file(t), "- [ ] "))
	}
}

// No byte of what is written holds a secret, whichever field it came in; control characters do not hide one.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const key = `planted key of 40 characters, & more`
	p := newProject(t)
	var logged bytes.Buffer
	d := p.desk(t, func(c *Config) {
		c.Redact = secret.New([]string{"MY_TOKEN=" + key}).Text
		c.Logger = logTo(&logged)
	})
	said := "it is plan\x00ted key of 40 characters, & more"
	in := softInput(said)
	in.Context, in.Options, in.ChosenOption, in.ChosenReasoning = said, []string{"a " + key, "b"}, "a "+key, said
	raise(t, d, in)
	a := permission("per_"+key, "echo "+key, strings.Repeat("x", maxPattern-10)+key) // a cut through it
	a.Ask.Permission, a.Ask.Tool, a.Ask.Arguments = "p "+key, key, `{"command":"`+strings.Replace(key, "nt", "n\x1bt", 1)+`"}`
	a.Question, a.Context = key+"?", strings.Repeat("y", maxContext-20)+key
	divert(t, d, a)
	q := ask(boulder.Ask{Kind: boulder.AskQuestion, RequestID: "que_1"})
	q.Question, q.Options = key+"?", []string{key}
	divert(t, d, q)
	settle(t, d, "B1", Settlement{Status: boulder.BlockerAnswered, Answer: "use " + said})
	settle(t, d, "B2", Settlement{Status: boulder.BlockerAnswered, Allowed: true})
	if r := divert(t, d, a); r.Reply != boulder.ReplyAllowed {
		t.Errorf("what was allowed is not: %+v", r)
	}
	err := filepath.WalkDir(p.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte("planted")) {
			t.Errorf("%s holds the key", path)
		}
		return err
	})
	if err != nil || strings.Contains(logged.String(), "planted") || logged.Len() == 0 {
		t.Errorf("%v, %s", err, &logged)
	}
	if got := get1(t, d, "B1").Question; got != "it is [redacted]" {
		t.Errorf("%q", got)
	}
	if !slices.Equal(get1(t, d, "B1").Options, []string{"a [redacted]", "b"}) || get1(t, d, "B1").ChosenOption != "a [redacted]" {
		t.Errorf("%+v", get1(t, d, "B1"))
	}
}
