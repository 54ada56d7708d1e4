package blockers

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bouldermgr/manager/boulder"
)

// waiting is a policy that asks the user about everything.
func waiting(c *Config) {
	c.Policy = Policy{Questions: AskMe, Wait: time.Minute, Permissions: []Rule{{Permission: "*", Action: AskMe}}}
}

// A diverted ask is recorded with its details. The same ask again gets the same record.
func TestDivert(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.register(t)
	a := permission("per_1", "git push *", "git tag *")
	a.Ask.Arguments = `{"command":"git push && git tag v1"}`
	want := boulder.Ruling{
		BlockerID: "W1", Reply: boulder.ReplyDiverted,
		Message: "The user is away and cannot give this permission (bash: git push *, git tag *). It is refused, and recorded for the " +
			"user to see. Do not ask for it again, and do not do the same in another way. If a part of your task cannot be " +
			"done without it, call the tool manager_blocker once, with category permission and blocks_progress true. Move on " +
			"with the next non-blocking issues.",
	}
	if diff := cmp.Diff(want, divert(t, d, a)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	record := boulder.Blocker{
		ID:           "W1",
		BlockerScope: scope, Category: "permission",
		Question: "May the agent use bash: git push *, git tag *?", Status: boulder.BlockerPending, CreatedAt: epoch,
		Context: "The tool bash asked for it while the user was away.",
		Ask: &boulder.Ask{
			Kind: boulder.AskPermission, RequestID: "per_1", Permission: "bash", Patterns: []string{"git push *", "git tag *"},
			Tool: "bash", Arguments: `{"command":"git push && git tag v1"}`,
		},
	}
	if diff := cmp.Diff(record, mustGet(t, d, "W1"), cmpopts.IgnoreFields(boulder.Blocker{}, "Key", "Grants")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p.clock.pass(time.Hour)
	for _, request := range []string{"per_1", "per_2"} { // after a restart; and asked again
		if diff := cmp.Diff(want, divert(t, p.register(t), permission(request, "git push *", "git tag *"))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", request, diff)
		}
	}
	if r := divert(t, d, permission("per_3", "git push *")); r.BlockerID != "W2" {
		t.Errorf("something else: %+v", r)
	}
	a.SessionID = "ses_other"
	if r := divert(t, d, a); r.BlockerID != "W3" {
		t.Errorf("another session: %+v", r)
	}
}

func TestDivertQuestion(t *testing.T) {
	t.Parallel()
	d := newProject(t).register(t)
	q := question("que_1", "Which colour?", "red", "blue")
	if r := divert(t, d, q); r.Reply != boulder.ReplyDiverted || !strings.HasPrefix(r.Message, "The user is away.") ||
		!strings.Contains(r.Message, boulder.BlockerTool+" and blocks_progress false") {
		t.Errorf("%+v", r)
	}
	if b := mustGet(t, d, "W1"); b.Category != boulder.BlockerQuestion || len(b.Options) != 2 || b.Hard {
		t.Errorf("%+v", b)
	}
	q.Ask.RequestID = "que_2"
	if r := divert(t, d, q); r.BlockerID != "W1" {
		t.Errorf("asked again while nobody has answered: %+v", r)
	}
	settle(t, d, "W1", answered("red"))
	if r := divert(t, d, q); r.BlockerID != "W2" {
		t.Errorf("asked again after it was answered: %+v", r)
	}
}

// A decision in time counts. Without one the agent continues, and a late decision counts for the next ask.
func TestDivertAndWait(t *testing.T) {
	t.Parallel()
	yes := Settlement{Status: boulder.BlockerAnswered, Allowed: true, Answer: "Only this branch."}
	for name, c := range map[string]struct {
		ask     boulder.Blocker
		says    Settlement
		after   time.Duration
		want    boulder.AskReply
		message string
	}{
		"allowed":       {permission("per_1", "ls"), yes, 59 * time.Second, boulder.ReplyAllowed, "Only this branch."},
		"refused":       {permission("per_1", "ls"), answered("No."), time.Second, boulder.ReplyDiverted, "The user refused this"},
		"skipped":       {permission("per_1", "ls"), skipped, time.Second, boulder.ReplyDiverted, "The user is away"},
		"nobody":        {permission("per_1", "ls"), Settlement{}, time.Minute, boulder.ReplyDiverted, "The user is away"},
		"not yet":       {permission("per_1", "ls"), Settlement{}, 59 * time.Second, boulder.ReplyWaiting, ""},
		"allowed later": {permission("per_1", "ls"), yes, time.Hour, boulder.ReplyAllowed, "Only this branch."},
		"a question":    {question("que_1", "Which colour?"), answered("red"), time.Second, boulder.ReplyAllowed, "red"},
	} {
		for _, at := range []boulder.BlockerScope{scope, inRun} {
			t.Run(name+at.BoulderID, func(t *testing.T) {
				t.Parallel()
				p := newProject(t)
				d, again := p.register(t, waiting), p.register(t, waiting)
				book := p.turn(d, inRun)
				again.Bind(inRun, book)
				ask, id := c.ask, "W1"
				ask.BlockerScope = at
				if at == inRun {
					id = "B1"
				}
				r := divert(t, d, ask)
				if r.Reply != boulder.ReplyWaiting || !r.Until.Equal(epoch.Add(time.Minute)) || r.BlockerID != id {
					t.Fatalf("%+v", r)
				}
				p.clock.pass(c.after)
				switch {
				case c.says.Status == "":
				case at == inRun:
					check(t, book.settle(d, id, c.says))
				default:
					settle(t, again, id, c.says)
				}
				r, err := d.Ruling(t.Context(), at, id)
				check(t, err)
				rulings := []boulder.Ruling{r}
				if c.want != boulder.ReplyAllowed || c.ask.Ask.Kind == boulder.AskQuestion { // a permission: see TestGrants
					rulings = append(rulings, divert(t, again, ask))
				}
				for _, r := range rulings {
					if r.Reply != c.want || r.BlockerID != id || !strings.HasPrefix(r.Message, c.message) ||
						r.ByUser != (c.says.Status != "") {
						t.Errorf("%+v", r)
					}
				}
				if found, err := d.Raised(t.Context(), at); err != nil || len(found) != 1 {
					t.Errorf("%d blockers, %v", len(found), err)
				}
			})
		}
	}
}

// A granted permission holds for exactly its patterns, in all attempts of the sub-task. Using it leaves no record.
func TestGrants(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.register(t)
	book := p.turn(d, inRun)
	divert(t, d, askedIn(inRun, *permission("per_1", "git push", "git tag").Ask))
	check(t, book.settle(d, "B1", allowed))
	settle(t, d, divert(t, d, permission("per_w", "git push")).BlockerID, allowed)
	later, subTask, other := inRun, inRun, inRun
	later.Attempt, later.SessionID, subTask.SubTaskID, other.BoulderID = 3, "ses_later", "web", "01JOTHER"
	for _, c := range []struct {
		what, permission string
		at               boulder.BlockerScope
		allowed          bool
		patterns         []string
	}{
		{"same", "bash", later, true, []string{"git push", "git tag"}},
		{"one", "bash", later, true, []string{"git tag"}},
		{"more", "bash", later, false, []string{"git tag", "git rebase"}},
		{"similar", "bash", later, false, []string{"git push --force"}},
		{"case", "bash", later, false, []string{"Git push"}},
		{"hidden", "bash", later, false, []string{"git\x00 push"}},
		{"none", "bash", later, false, nil},
		{"permission", "edit", later, false, []string{"git push"}},
		{"sub-task", "bash", subTask, false, []string{"git push"}},
		{"boulder", "bash", other, false, []string{"git push"}},
		{"a session's own", "bash", scope, true, []string{"git push"}},
		{"another session's", "bash", boulder.BlockerScope{SessionID: "ses_other"}, false, []string{"git push"}},
	} {
		a := *permission("per_"+c.what, c.patterns...).Ask
		a.Permission = c.permission
		d := p.register(t)
		p.turn(d, subTask)
		p.turn(d, other)
		d.Bind(later, book)
		r := divert(t, d, askedIn(c.at, a))
		if (r.Reply == boulder.ReplyAllowed) != c.allowed || (r.BlockerID == "") != c.allowed {
			t.Errorf("%s: %+v", c.what, r)
		}
	}
}

// An ask whose session no longer waits leaves its blocker to the user, and the answer to the next prompt, unless the
// session has it. Asked again, it waits for the same answer, and no longer.
func TestEndWait(t *testing.T) {
	t.Parallel()
	for _, at := range []boulder.BlockerScope{scope, inRun} {
		p := newProject(t)
		d := p.register(t, waiting)
		book := p.turn(d, inRun)
		asks := []boulder.Blocker{
			askedIn(at, *permission("per_1", "gone").Ask), askedIn(at, *permission("per_2", "answered").Ask),
			askedIn(at, *permission("per_3", "waits").Ask),
		}
		var ids []string
		for _, a := range asks {
			ids = append(ids, divert(t, d, a).BlockerID)
		}
		if at == inRun {
			check(t, book.settle(d, ids[1], allowed))
		} else {
			settle(t, d, ids[1], allowed)
		}
		p.clock.pass(time.Second)
		for range 2 {
			check(t, d.EndWait(t.Context(), at, ids[0], false))
			check(t, d.EndWait(t.Context(), at, ids[1], true))
		}
		found, err := d.Raised(t.Context(), at)
		check(t, err)
		for i, want := range []struct{ waits, replied, settled bool }{{false, false, false}, {false, true, true}, {true, false, false}} {
			b := found[i]
			if b.Waiting(p.clock.now()) != want.waits || b.Replied != want.replied || b.Status.Settled() != want.settled {
				t.Errorf("%s: %+v", ids[i], b)
			}
		}
		for _, want := range []boulder.AskReply{boulder.ReplyWaiting, boulder.ReplyDiverted} {
			r, again := divert(t, d, asks[0]), askedIn(at, *asks[0].Ask)
			again.Ask.RequestID = "per_9"
			if r.Reply != want || r.BlockerID != ids[0] || r.ByUser || !cmp.Equal(divert(t, d, again), r) {
				t.Errorf("asked again: %+v", r)
			}
			p.clock.pass(time.Minute)
		}
		call, err := d.Raise(t.Context(), at, hardInput("Is this an ask?"))
		check(t, err)
		_, noAsk := d.Ruling(t.Context(), at, call.ID)
		if unknown := d.EndWait(t.Context(), at, "W99", false); !errors.Is(noAsk, ErrNotFound) || !errors.Is(unknown, ErrNotFound) {
			t.Errorf("%v, %v", noAsk, unknown)
		}
	}
}

// The texts of an ask are bounded, and every cut is visible. A grant is for the whole text, not for what is kept.
func TestAsksAreBounded(t *testing.T) {
	t.Parallel()
	d := newProject(t).register(t)
	long := func(last string) boulder.Blocker {
		a := permission("per_" + last)
		a.Ask.Permission, a.Ask.Tool = strings.Repeat("n", 300), strings.Repeat("t", 300)
		a.Ask.Arguments = strings.Repeat("a", 9000)
		a.Question, a.Context = strings.Repeat("q", 3000), strings.Repeat("c", 20_000)
		for i := range 30 {
			a.Ask.Patterns = append(a.Ask.Patterns, strings.Repeat("p", 2000)+fmt.Sprint(i)+last)
			a.Options = append(a.Options, strings.Repeat("o", 600)+fmt.Sprint(i))
		}
		return a
	}
	divert(t, d, long("a"))
	b := mustGet(t, d, "W1")
	total := len([]rune(b.Question+b.Context+b.Ask.Permission+b.Ask.Tool+b.Ask.Arguments)) - 2*maxName
	if total != maxQuestion+maxContext+maxArguments || len(b.Ask.Patterns) != maxPatterns || len(b.Options) != maxOptions ||
		b.Ask.Patterns[maxPatterns-1] != "… (30 patterns)" || b.Options[maxOptions-1] != "… (30 options)" ||
		!strings.HasSuffix(b.Ask.Arguments, "…") {
		t.Errorf("%d, %d patterns, %d options", total, len(b.Ask.Patterns), len(b.Options))
	}
	settle(t, d, "W1", allowed)
	if r := divert(t, d, long("b")); r.Reply != boulder.ReplyDiverted {
		t.Error("what differs behind the cut only is allowed as well")
	}
	if r := divert(t, d, long("a")); r.Reply != boulder.ReplyAllowed {
		t.Error("what was allowed is not")
	}
	// An ask without a kind or a session is refused.
	nobody := permission("per_1", "ls")
	nobody.SessionID = ""
	for _, wrong := range []boulder.Blocker{{BlockerScope: scope}, {BlockerScope: scope, Ask: &boulder.Ask{}}, nobody} {
		if _, err := d.Divert(t.Context(), wrong); err == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
}
