package blockers

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
)

// waiting is a policy with which a person is asked for everything.
func waiting(c *Config) {
	c.Policy = Policy{Questions: AskMe, Wait: time.Minute, Permissions: []Rule{{Permission: "*", Action: AskMe}}}
}

// An ask that is diverted is recorded with what it is about, and its record is the same however often it comes.
func TestDivert(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.desk(t)
	a := permission("per_1", "git push *", "git tag *")
	a.Ask.Arguments = `{"command":"git push && git tag v1"}`
	r := divert(t, d, a)
	want := boulder.Ruling{
		BlockerID: "B1", Reply: boulder.ReplyDiverted,
		Message: "Nobody is there to give this permission (bash: git push *, git tag *). It is refused, and recorded for a " +
			"person to see. Do not ask for it again, and do not do the same in another way. If a part of your task cannot be " +
			"done without it, call the tool manager_blocker once, with category permission and blocks_progress true. Move on " +
			"with the next non-blocking issues.",
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	record := boulder.Blocker{
		ID: "B1", BoulderID: "01JBOULDER", SubTaskID: "api", Attempt: 2, SessionID: "ses_api", Category: "permission",
		Question: "May the agent use bash: git push *, git tag *?", Status: boulder.BlockerPending, CreatedAt: epoch,
		Context: "The tool bash asked for it while nobody was there.",
		Ask: &boulder.Ask{
			Kind: boulder.AskPermission, RequestID: "per_1", Permission: "bash", Patterns: []string{"git push *", "git tag *"},
			Tool: "bash", Arguments: `{"command":"git push && git tag v1"}`, Reply: boulder.ReplyDiverted,
		},
	}
	if diff := cmp.Diff(record, get1(t, d, "B1")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p.clock.pass(time.Hour)
	for _, request := range []string{"per_1", "per_2"} { // after a restart; and asked again
		a := permission(request, "git push *", "git tag *")
		if diff := cmp.Diff(want, divert(t, p.desk(t), a)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", request, diff)
		}
	}
	if r := divert(t, d, permission("per_3", "git push *")); r.BlockerID != "B2" {
		t.Errorf("something else: %+v", r)
	}
	elsewhere := a
	elsewhere.SessionID = "ses_other"
	if r := divert(t, d, elsewhere); r.BlockerID != "B3" {
		t.Errorf("another session: %+v", r)
	}
}

// A question is answered in the agent's stead; what is told depends on whether it has the tool.
func TestDivertQuestion(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.desk(t)
	q := ask(boulder.Ask{Kind: boulder.AskQuestion, RequestID: "que_1"})
	q.Question, q.Options = "Which colour?", []string{"red", "blue"}
	r := divert(t, d, q)
	if r.Reply != boulder.ReplyDiverted || !strings.HasPrefix(r.Message, "Nobody is there to answer.") ||
		!strings.Contains(r.Message, DefaultTool+" and blocks_progress false") {
		t.Errorf("%+v", r)
	}
	if b := get1(t, d, "B1"); b.Category != boulder.BlockerQuestion || len(b.Options) != 2 || b.Hard {
		t.Errorf("%+v", b)
	}
	q.Ask.RequestID = "que_2"
	if r := divert(t, d, q); r.BlockerID != "B1" {
		t.Errorf("asked again while nobody has answered: %+v", r)
	}
	settle(t, d, "B1", Settlement{Status: boulder.BlockerAnswered, Answer: "red"})
	if r := divert(t, d, q); r.BlockerID != "B2" {
		t.Errorf("asked again after it was answered: %+v", r)
	}
	for _, b := range []boulder.Blocker{q, permission("per_1", "ls")} {
		if text := Instruction("", b); strings.Contains(text, "call") || !strings.Contains(text, "say so in your final message") {
			t.Errorf("without a tool: %s", text)
		}
	}
}

// A person who is asked in time decides; when the time is over the agent goes on, and their word comes later.
func TestDivertAndWait(t *testing.T) {
	t.Parallel()
	yes := Settlement{Status: boulder.BlockerAnswered, Allowed: true, Answer: "Only this branch."}
	no := Settlement{Status: boulder.BlockerAnswered, Answer: "Open a pull request instead."}
	skip := Settlement{Status: boulder.BlockerSkipped}
	for name, c := range map[string]struct {
		says    Settlement
		after   time.Duration
		want    boulder.AskReply
		message string
	}{
		"allowed":        {yes, 59 * time.Second, boulder.ReplyAllowed, "Only this branch."},
		"refused":        {no, time.Second, boulder.ReplyDiverted, "A person refused this permission and says: Open a pull"},
		"skipped":        {skip, time.Second, boulder.ReplyDiverted, "Nobody is there"},
		"nobody":         {Settlement{}, time.Minute, boulder.ReplyDiverted, "Nobody is there"},
		"not yet":        {Settlement{}, 59 * time.Second, boulder.ReplyWaiting, ""},
		"allowed later":  {yes, time.Hour, boulder.ReplyAllowed, "Only this branch."},
		"restart, later": {Settlement{}, time.Hour, boulder.ReplyDiverted, "Nobody is there"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t)
			d := p.desk(t, waiting)
			r := divert(t, d, permission("per_1", "git push *"))
			if r.Reply != boulder.ReplyWaiting || !r.Until.Equal(epoch.Add(time.Minute)) || r.BlockerID != "B1" {
				t.Fatalf("%+v", r)
			}
			p.clock.pass(c.after)
			if c.says.Status != "" {
				settle(t, p.desk(t), "B1", c.says)
			}
			check := func(how string, r boulder.Ruling, err error) {
				t.Helper()
				if err != nil || r.Reply != c.want || r.BlockerID != "B1" || !strings.HasPrefix(r.Message, c.message) {
					t.Errorf("%s: %+v, %v", how, r, err)
				}
			}
			r, err := d.Ruling(t.Context(), "B1")
			check("ruling", r, err)
			if reply := get1(t, d, "B1").Ask.Reply; reply != c.want {
				t.Errorf("recorded: %s", reply)
			}
			if c.want == boulder.ReplyAllowed {
				return // asked again it is granted, see TestGrants
			}
			r, err = p.desk(t, waiting).Divert(t.Context(), permission("per_1", "git push *"))
			check("the same request", r, err)
			r, err = d.Divert(t.Context(), permission("per_2", "git push *"))
			check("asked again", r, err)
			if n := len(listed(t, d, Filter{})); n != 1 {
				t.Errorf("%d records", n)
			}
		})
	}
	t.Run("question", func(t *testing.T) {
		t.Parallel()
		p := newProject(t)
		d := p.desk(t, waiting)
		q := ask(boulder.Ask{Kind: boulder.AskQuestion, RequestID: "que_1"})
		q.Question = "Which colour?"
		divert(t, d, q)
		settle(t, d, "B1", Settlement{Status: boulder.BlockerAnswered, Answer: "red"})
		for range 2 { // also for the same request after a restart
			if r := divert(t, d, q); r.Reply != boulder.ReplyAllowed || r.Message != "red" || r.BlockerID != "B1" {
				t.Errorf("%+v", r)
			}
		}
	})
}

// What a person allows is allowed for the rest of the sub-task, in later attempts too, for exactly what was asked; nothing
// else is, and it leaves no record.
func TestGrants(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.desk(t)
	divert(t, d, permission("per_1", "git push", "git tag"))
	settle(t, d, "B1", Settlement{Status: boulder.BlockerAnswered, Allowed: true})
	try := func(what string, want boulder.AskReply, change func(*boulder.Blocker), patterns ...string) {
		t.Helper()
		a := permission("per_"+what, patterns...)
		a.Attempt, a.SessionID = 3, "ses_later"
		if change != nil {
			change(&a)
		}
		r := divert(t, p.desk(t), a)
		if r.Reply != want || (r.BlockerID == "") != (want == boulder.ReplyAllowed) {
			t.Errorf("%s: %+v", what, r)
		}
	}
	try("same", boulder.ReplyAllowed, nil, "git push", "git tag")
	try("one", boulder.ReplyAllowed, nil, "git tag")
	try("more", boulder.ReplyDiverted, nil, "git tag", "git rebase")
	try("similar", boulder.ReplyDiverted, nil, "git push --force")
	try("case", boulder.ReplyDiverted, nil, "Git push")
	try("hidden", boulder.ReplyDiverted, nil, "git\x00 push")
	try("none", boulder.ReplyDiverted, nil)
	try("permission", boulder.ReplyDiverted, func(b *boulder.Blocker) { b.Ask.Permission = "edit" }, "git push")
	try("sub-task", boulder.ReplyDiverted, func(b *boulder.Blocker) { b.SubTaskID = "web" }, "git push")
	try("boulder", boulder.ReplyDiverted, func(b *boulder.Blocker) { b.BoulderID = "01JOTHER" }, "git push")
	try("no run", boulder.ReplyDiverted, func(b *boulder.Blocker) { b.BoulderID, b.SubTaskID, b.Attempt = "", "", 0 }, "git push")

	watched := permission("per_w", "git push")
	watched.BoulderID, watched.SubTaskID, watched.Attempt, watched.SessionID = "", "", 0, "ses_watched"
	id := divert(t, d, watched).BlockerID
	settle(t, d, id, Settlement{Status: boulder.BlockerAnswered, Allowed: true})
	if r := divert(t, d, watched); r.Reply != boulder.ReplyAllowed {
		t.Errorf("a session's own: %+v", r)
	}
	watched.SessionID = "ses_another"
	if r := divert(t, d, watched); r.Reply != boulder.ReplyDiverted {
		t.Errorf("another session's: %+v", r)
	}
}

// Only what asked for a permission can be allowed.
func TestNothingToAllow(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.desk(t)
	raise(t, d, hardInput("Which?"))
	q := ask(boulder.Ask{Kind: boulder.AskQuestion, RequestID: "que_1"})
	q.Question = "Who?"
	divert(t, d, q)
	for _, id := range []string{"B1", "B2"} {
		_, err := d.Settle(t.Context(), id, Settlement{Status: boulder.BlockerAnswered, Allowed: true, Answer: "yes"})
		if !errors.Is(err, ErrNoAnswer) || get1(t, d, id).Status != boulder.BlockerPending {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// A session that does not wait any longer leaves its blocker for people; an answer that was faster stays.
func TestGone(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.desk(t, waiting)
	for _, answered := range []bool{false, true} {
		a := permission("per_1", fmt.Sprintf("cmd %v", answered))
		id := divert(t, d, a).BlockerID
		if answered {
			settle(t, d, id, Settlement{Status: boulder.BlockerAnswered, Allowed: true})
			if _, err := d.Ruling(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := d.Gone(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		b, want := get1(t, d, id), boulder.ReplyGone
		if answered {
			want = boulder.ReplyAllowed
		}
		if b.Ask.Reply != want || b.Status.Settled() != answered {
			t.Errorf("%+v, %+v", b, b.Ask)
		}
		if answered {
			continue
		}
		if r := divert(t, d, a); r.Reply != boulder.ReplyWaiting || get1(t, d, id).Ask.Reply != boulder.ReplyWaiting {
			t.Errorf("it is back, and there is time left: %+v", r)
		}
		settle(t, d, id, Settlement{Status: boulder.BlockerSkipped})
	}
	swept := p.desk(t)
	id := divert(t, swept, permission("per_9", "swept")).BlockerID
	if err := swept.Gone(t.Context(), id); err != nil || get1(t, swept, id).Ask.Reply != boulder.ReplyGone {
		t.Errorf("%v", err)
	}
	raise(t, d, hardInput("Which?"))
	if err := d.Gone(t.Context(), "B4"); err != nil {
		t.Errorf("of what is no ask: %v", err)
	}
	if _, err := d.Ruling(t.Context(), "B4"); !errors.Is(err, ErrNotFound) {
		t.Errorf("ruling on what is no ask: %v", err)
	}
}

// What OpenCode asks for is kept within bounds, and every cut is seen. The whole of it decides, not what is kept.
func TestAsksAreBounded(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.desk(t)
	long := func(last string) boulder.Blocker {
		var patterns []string
		for i := range 30 {
			patterns = append(patterns, strings.Repeat("p", 2000)+fmt.Sprint(i)+last)
		}
		a := permission("per_"+last, patterns...)
		a.Ask.Permission, a.Ask.Tool = strings.Repeat("n", 300), strings.Repeat("t", 300)
		a.Ask.Arguments, a.Context = strings.Repeat("a", 9000), strings.Repeat("c", 20_000)
		a.Question = strings.Repeat("q", 3000)
		for i := range 15 {
			a.Options = append(a.Options, strings.Repeat("o", 600)+fmt.Sprint(i))
		}
		return a
	}
	divert(t, d, long("a"))
	b := get1(t, d, "B1")
	total := len([]rune(b.Question+b.Context+b.Ask.Permission+b.Ask.Tool+b.Ask.Arguments)) - 2*maxName
	if total != maxQuestion+maxContext+maxArguments || len(b.Ask.Patterns) != maxPatterns || len(b.Options) != maxOptions ||
		b.Ask.Patterns[maxPatterns-1] != "… (30 patterns)" || b.Options[maxOptions-1] != "… (15 options)" ||
		!strings.HasSuffix(b.Ask.Arguments, "…") {
		t.Errorf("%d, %d patterns, %d options", total, len(b.Ask.Patterns), len(b.Options))
	}
	settle(t, d, "B1", Settlement{Status: boulder.BlockerAnswered, Allowed: true})
	if r := divert(t, d, long("b")); r.Reply != boulder.ReplyDiverted {
		t.Error("what differs behind the cut only is allowed as well")
	}
	if r := divert(t, d, long("a")); r.Reply != boulder.ReplyAllowed {
		t.Error("what was allowed is not")
	}
	// What is no ask, or of nobody, is refused.
	nobody := permission("per_1", "ls")
	nobody.SessionID = ""
	for _, wrong := range []boulder.Blocker{{SessionID: "s"}, {SessionID: "s", Ask: &boulder.Ask{}}, nobody} {
		if _, err := d.Divert(t.Context(), wrong); err == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
}
