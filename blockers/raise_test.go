package blockers

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sync/errgroup"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/secret"
)

// A raised blocker is visible to every other process, with all its fields. Its files are private to the owner.
func TestRaise(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	in := softInput(" Which\r\nname? ")
	got := raise(t, p.register(t), in)
	want := boulder.Blocker{
		ID:           "W1",
		BlockerScope: scope, Category: "question",
		Question: "Which\nname?", Context: "It is a detail.", Options: []string{"first", "second", "third"},
		ChosenOption: "second", ChosenReasoning: "It is the middle.", Status: boulder.BlockerPending, CreatedAt: epoch,
	}
	for _, b := range []boulder.Blocker{got, mustGet(t, p.register(t), "w1")} {
		if diff := cmp.Diff(want, b, cmpopts.IgnoreFields(boulder.Blocker{}, "Key")); diff != "" {
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

// Reading, refusals and operations while off create no files.
func TestNothingIsMadeForNothing(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.register(t, func(c *Config) { c.Enabled = false })
	on := p.register(t, func(c *Config) { c.Policy.Permissions = []Rule{{Permission: "bash", Action: Allow}} })
	ctx := t.Context()
	only := func(_ any, err error) error { return err }
	_, raiseErr := d.Raise(ctx, scope, hardInput("Which?"))
	_, emptyErr := on.Raise(ctx, scope, boulder.Blocker{})
	if !errors.Is(raiseErr, ErrOff) || !errors.Is(only(d.Divert(ctx, permission("per_1", "ls"))), ErrOff) || emptyErr == nil {
		t.Errorf("%v, %v", raiseErr, emptyErr)
	}
	if r := divert(t, on, permission("per_1", "ls")); r.Reply != boulder.ReplyAllowed || r.BlockerID != "" {
		t.Errorf("%+v", r)
	}
	for name, err := range map[string]error{
		"get": only(d.Get(ctx, "W1")), "settle": only(d.Settle(ctx, "W1", skipped)), "ruling": only(d.Ruling(ctx, scope, "W1")),
		"end of a wait": d.EndWait(ctx, scope, "W1", true),
		"no id":         only(d.Get(ctx, "7")), "id 0": only(d.Get(ctx, "W0")), "id -1": only(d.Get(ctx, "W-1")), "of a run": only(d.Get(ctx, "B1")),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	raised, err := d.Raised(ctx, scope)
	unwritten, listErr := d.Listed(ctx, "01J", (&memory{}).since)
	check(t, errors.Join(err, listErr, d.Flush(ctx), d.Switch(ctx, "", nil)))
	if n := unwritten + len(raised) + len(listed(t, d, Filter{})); n != 0 || status(t, d).Switch != nil {
		t.Errorf("%d records", n)
	}
	if entries, err := os.ReadDir(p.dir); err != nil || len(entries) > 0 {
		t.Errorf("made: %v, %v", entries, err)
	}
}

// A session has at most 50 blockers by default. The next one is refused, and an ask gets instructions instead.
// TestRegisterAndModel checks that nothing is left behind, and that other sessions and known asks still work.
func TestCap(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	none := p.register(t, func(c *Config) { c.Max = -1 })
	if _, err := none.Raise(t.Context(), scope, hardInput("When?")); !errors.Is(err, ErrTooMany) {
		t.Errorf("%v", err)
	}
	ruling, err := none.Divert(t.Context(), permission("per_2", "rm"))
	if !errors.Is(err, ErrTooMany) || ruling.Reply != boulder.ReplyDiverted || ruling.BlockerID != "" ||
		!strings.Contains(ruling.Message, "bash: rm") {
		t.Errorf("%+v, %v", ruling, err)
	}
	if most := p.register(t).cfg.Max; most != 50 {
		t.Errorf("without a number: %d", most)
	}
	hasty := p.register(t, func(c *Config) { c.Cooldown = -1 })
	first := raise(t, hasty, hardInput("Who?"))
	settle(t, hasty, first.ID, skipped)
	if again := raise(t, hasty, hardInput("Who?")); first.ID == again.ID {
		t.Errorf("without a cooldown: %s again", again.ID)
	}
}

// Ten sessions at once, through two registers: every record exists once, under its session, and is in the list.
func TestTenSessionsAtOnce(t *testing.T) {
	t.Parallel()
	const sessions, each = 10, 6
	p := newProject(t)
	registers := []*Register{p.register(t), p.register(t)}
	var g errgroup.Group
	for s := range sessions {
		g.Go(func() (err error) {
			at := boulder.BlockerScope{SessionID: fmt.Sprintf("ses_%d", s)}
			for i := 0; i < each && err == nil; i++ {
				d := registers[(s+i)%2]
				if i%3 == 2 {
					_, err = d.Divert(t.Context(), askedIn(at, *permission("per", fmt.Sprintf("cmd %d", i)).Ask))
				} else {
					_, err = d.Raise(t.Context(), at, hardInput(fmt.Sprintf("Question %d of session %d?", i, s)))
				}
			}
			return err
		})
	}
	check(t, g.Wait())
	d := p.register(t)
	for s := range sessions {
		if found, err := d.Raised(t.Context(), boulder.BlockerScope{SessionID: fmt.Sprintf("ses_%d", s)}); len(found) != each {
			t.Errorf("session %d has %d records, %v", s, len(found), err)
		}
	}
	if p.checkList(t, listed(t, d, Filter{})); strings.Count(p.file(t), "- [ ] ") != sessions*each {
		t.Errorf("%d in the file", strings.Count(p.file(t), "- [ ] "))
	}
}

// Nothing that is written contains a secret, whichever field it came in, even with control characters inside.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const key = `planted key of 40 characters, & more`
	p := newProject(t)
	var logged bytes.Buffer
	d := p.register(t, func(c *Config) {
		c.Redact = secret.New([]string{"MY_TOKEN=" + key}).Text
		c.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	})
	said := "it is plan\x00ted key of 40 characters, & more"
	in := softInput(said)
	in.Context, in.Options, in.ChosenOption, in.ChosenReasoning = said, []string{"a " + key, "b"}, "a "+key, said
	raise(t, d, in)
	a := permission("per_"+key, "echo "+key, strings.Repeat("x", maxPattern-10)+key) // a cut through it
	a.Ask.Permission, a.Ask.Tool, a.Ask.Arguments = "p "+key, key, `{"command":"`+strings.Replace(key, "nt", "n\x1bt", 1)+`"}`
	a.Question, a.Context = key+"?", strings.Repeat("y", maxContext-20)+key
	divert(t, d, a)
	divert(t, d, question("que_1", key+"?", key))
	settle(t, d, "W1", answered("use "+said))
	settle(t, d, "W2", allowed)
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
	if b := mustGet(t, d, "W1"); b.Question != "it is [redacted]" || b.ChosenOption != "a [redacted]" ||
		!slices.Equal(b.Options, []string{"a [redacted]", "b"}) {
		t.Errorf("%+v", b)
	}
}
