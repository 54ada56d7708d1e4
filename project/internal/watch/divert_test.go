package watch_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/blockers/mcptool"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/project/internal/watch"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// standIn stands in for the user, wired as in `manager watch --blockers`.
type standIn struct {
	*blockers.Register
	*mcptool.Server
}

func newStandIn(t *testing.T, on bool, rules ...blockers.Rule) standIn {
	t.Helper()
	register, err := blockers.Open(blockers.Config{Root: t.TempDir(), Enabled: on, Policy: blockers.Policy{Permissions: rules}})
	if err != nil {
		t.Fatal(err)
	}
	server := mcptool.New(mcptool.Config{Register: register})
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return standIn{register, server}
}

func (s standIn) answerBlocker(w *world, id string, how blockers.Settlement) {
	w.t.Helper()
	how.Status = boulder.BlockerAnswered
	if _, err := s.Settle(w.ctx, id, how); err != nil {
		w.t.Fatal(err)
	}
}

// blockersOf returns the blockers of a session, and fails unless there are want of them.
func (s standIn) blockersOf(k *chat, want int) []boulder.Blocker {
	k.t.Helper()
	all, err := s.Raised(k.w.ctx, boulder.BlockerScope{SessionID: k.id})
	if err != nil || len(all) != want {
		k.t.Fatalf("%d blockers, want %d: %v", len(all), want, err)
	}
	return all
}

var mayDelete = use(boulder.BlockerTool, map[string]any{
	"category": "destructive", "question": "May I delete the directory old?", "context": "Nothing uses it.",
	"blocks_progress": true,
})

const answer = "Yes, but keep old/LICENSE."

var question = use("question", map[string]any{"questions": []map[string]any{{
	"question": "Which name?", "header": "Name", "options": []map[string]any{{"label": "a", "description": "Short"}},
}}})

var askForBash = opencode.Rule{Permission: "bash", Pattern: "*", Action: opencode.Ask}

// sendsAnswer waits for a continuation with the user's answer.
func (k *chat) sendsAnswer(r *running) {
	k.t.Helper()
	sent := k.until(r, "send open")
	if !strings.Contains(sent.Prompt, answer) || !strings.Contains(sent.Prompt, boulder.DoneMarker) {
		k.t.Errorf("the continuation lacks the answer, or how to end:\n%s", sent.Prompt)
	}
}

// Asks are refused while the user is away, and the turn continues. A hard blocker waits for an answer, then continues.
func TestDiverted(t *testing.T) {
	w := newWorld(t)
	away := newStandIn(t, true)
	k := w.chat(opencode.NewSession{Title: t.Name(), Rules: []opencode.Rule{askForBash}}, steps(
		bash("rm -r old"), mayDelete, say("I cannot go on without an answer."), say("Nothing else is left.\n"+boulder.DoneMarker),
		say("It is gone."), say("Nothing is left.\n"+boulder.DoneMarker),
	))
	r := w.watch(func(c *watch.Config) { c.Diverter = away })
	r.waitForNote(boulder.BlockerTool)
	k.user("Write a and b.")
	if e := k.until(r, "send open", "it can go on without an answer to W2"); !strings.Contains(e.Prompt, "W2: May I delete the directory old?") {
		t.Errorf("the prompt does not say what to leave aside:\n%s", e.Prompt)
	}
	k.until(r, "wait asks")
	r.wait(t, "the wait for an answer to W2", func() bool {
		for _, e := range r.log {
			if e.SessionID == k.id && strings.Contains(e.Reason, "an answer to W2: May I delete the directory old?") {
				return true
			}
		}
		return false
	})
	all := away.blockersOf(k, 2)
	asked, hard := all[0], all[1]
	if a := asked.Ask; asked.Hard || asked.Category != boulder.BlockerPermission || a == nil ||
		a.Permission != "bash" || strings.Join(a.Patterns, " ") != "rm -r old" ||
		a.Tool != "bash" || !strings.Contains(a.Arguments, "rm -r old") {
		t.Errorf("the ask is recorded as %+v, %+v", asked, a)
	}
	if !hard.Hard || hard.SessionID != k.id {
		t.Errorf("the hard one is recorded as %+v", hard)
	}
	k.continuations(1)
	away.answerBlocker(w, hard.ID, blockers.Settlement{Answer: answer})
	k.sendsAnswer(r)
	k.until(r, "send open", "has not said "+boulder.DoneMarker) // that nothing was left was said without the answer
	k.until(r, "finish work")
	k.continuations(3)
}

// Of four things, one needs an answer: the session does the other three meanwhile, waits for no longer than it has to, and
// gets the answer with its next prompt. A watch that is restarted in between tells it nothing twice.
func TestAQuestionEndsNoNight(t *testing.T) { testAQuestionEndsNoNight(t, newWorld(t)) }

func TestOpenCode2AQuestionEndsNoNight(t *testing.T) { testAQuestionEndsNoNight(t, secondWorld(t)) }

func testAQuestionEndsNoNight(t *testing.T, w *world) {
	away := newStandIn(t, true)
	change := func(c *watch.Config) { c.Diverter, c.Since = away, time.Nanosecond }
	k := w.chat(opencode.NewSession{Title: t.Name()}, steps(
		both(list("old", "pending", "a", "pending", "b", "pending", "c", "pending"), mayDelete), say("I have asked."),
		list("old", "blocked", "a", "completed", "b", "pending", "c", "pending"), say("I wrote a."),
		list("old", "blocked", "a", "completed", "b", "completed", "c", "pending"), say("I wrote b."),
		list("old", "blocked", "a", "completed", "b", "completed", "c", "completed"), say("I wrote c."),
		list("old", "completed", "a", "completed", "b", "completed", "c", "completed"), say("It is gone.\n"+boulder.DoneMarker),
	))
	r := w.watch(listed, change)
	r.waitForNote(boulder.BlockerTool)
	k.user("Delete old; write a, b and c.")
	told := "W1: May I delete the directory old?"
	if e := k.until(r, "send open"); !strings.Contains(e.Prompt, told) {
		t.Errorf("it is not told to go on:\n%s", e.Prompt)
	}
	if e := k.until(r, "send open", "b"); strings.Contains(e.Prompt, told) {
		t.Errorf("it is told twice:\n%s", e.Prompt)
	}
	r = r.again(listed, change) // perhaps before the prompt is sent
	if e := k.until(r, "send open", "c"); strings.Contains(e.Prompt, told) {
		t.Errorf("it is told twice:\n%s", e.Prompt)
	}
	k.until(r, "wait asks", told[4:])
	k.continuations(3)
	away.answerBlocker(w, "W1", blockers.Settlement{Answer: answer})
	k.sendsAnswer(r)
	k.until(r, "finish work")
	k.continuations(4)
}

// clock stands still, but waits for the user end at once if skips is set: delays of a loaded machine do not count.
type clock struct {
	mu    sync.Mutex
	now   time.Time
	skips bool
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.skips && d <= time.Minute {
		c.now, d = c.now.Add(d), 0
	}
	return time.After(d)
}

func (c *clock) skip(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skips = on
}

// A diverted agent without a list that never says it is done is asked five times, with the default policy, within two
// minutes, and let go. An idle time or a cool-down longer than that breaks it. TestManySessions has the same on the
// real OpenCode.
func TestOpenCode2LetsTheSameAnswerGo(t *testing.T) {
	w := secondWorld(t)
	away, c := newStandIn(t, true), &clock{now: time.Now()}
	k := w.chat(opencode.NewSession{Title: t.Name()}, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		return say(fmt.Sprint("I am still waiting for number ", r.AssistantTurns()))
	})
	r := w.watch(func(cfg *watch.Config) {
		cfg.Diverter, cfg.Policy, cfg.Now, cfg.After = away, enforcer.WatchPolicy(), c.Now, c.After
		show := cfg.Show
		cfg.Show = func(e watch.Entry) {
			show(e)
			c.skip(slices.Contains([]enforcer.Gate{enforcer.GateIdle, enforcer.GateCooldown, enforcer.GateCountdown}, e.Gate))
		}
	})
	r.waitForNote(boulder.BlockerTool)
	began := c.Now()
	k.user("Write a and b.")
	for range 5 {
		if e := k.until(r, "send open", boulder.DoneMarker); !strings.HasPrefix(e.Prompt, "[manager] Check where each of your tasks") {
			t.Errorf("the prompt is %q", e.Prompt)
		}
	}
	let := k.until(r, "let_go answers", "the same answer 5 times within 2m")
	k.continuations(5)
	if took := let.Time.Sub(began); took > 2*time.Minute {
		t.Errorf("it took %s", took)
	}
}

// A diverted agent without a list is asked for its status until it says that it is done.
func TestStopIsPrevented(t *testing.T) {
	w := newWorld(t)
	k := w.chat(opencode.NewSession{Title: t.Name()}, steps(
		say("I wrote a."), say("I look at b."), say("Both are there.\n"+boulder.DoneMarker), say("Four."),
	))
	r := w.watch(func(c *watch.Config) { c.Diverter, c.DoneWhen = newStandIn(t, true), []string{boulder.DonePromise} })
	r.waitForNote(boulder.BlockerTool)
	k.user("Write a and b.")
	k.until(r, "send open", "has not said "+boulder.DoneMarker)
	k.until(r, "send open")
	k.until(r, "finish work")
	for _, m := range k.continuations(2) {
		if strings.Contains(m.Text(), boulder.Promise) {
			t.Errorf("it asks for two words: %s", m.Text())
		}
	}
	r = r.again(func(c *watch.Config) { c.Diverter = newStandIn(t, true) })
	k.until(r, "wait work", "complete") // it is not asked again
	k.user("What is two and two?")
	k.until(r, "send open") // a new prompt of the user starts over
}

// What the agent asks during /blockers clarify goes to the user who typed it, including the permissions that it needs
// to record the answer. Later asks are diverted as before.
func TestClarifyAsksTheUser(t *testing.T) {
	w := newWorld(t)
	away := newStandIn(t, true)
	k := w.chat(opencode.NewSession{Title: t.Name(), Rules: []opencode.Rule{askForBash}}, steps(
		both(question, bash("true")), say(boulder.DoneMarker), question, say("Both are there.\n"+boulder.DoneMarker),
	))
	asked := w.events()
	defer asked.Close()
	r := w.watch(func(c *watch.Config) { c.Diverter = away })
	r.waitForNote(boulder.BlockerTool)
	k.user("It was carried out, and this is what it printed:\n\n" + boulder.ClarifyPrompt + "1 hard blocker waits for an answer.")
	k.until(r, "wait asks", "Which name?")
	for answered := 0; answered < 2; {
		e := <-asked.C()
		p, ok := e.Payload.(opencode.Asked)
		if !ok || e.SessionID != k.id {
			continue
		}
		answered++
		away.blockersOf(k, 0)
		err := error(nil)
		if p.Request.Permission == "" {
			err = w.dir.AnswerQuestion(w.ctx, p.Request.ID, [][]string{{"a"}})
		} else {
			err = w.dir.ReplyPermission(w.ctx, p.Request.ID, opencode.ReplyOnce, "")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	k.until(r, "finish work")
	away.blockersOf(k, 0)
	k.user("Write a and b.")
	k.until(r, "finish work")
	if all := away.blockersOf(k, 1); all[0].Category != boulder.BlockerQuestion {
		t.Errorf("%+v", all[0])
	}
}

// While switched off, asks go to the user. Switching on also diverts asks that already wait.
func TestDivertedWhenSwitchedOn(t *testing.T) {
	w := newWorld(t)
	away := newStandIn(t, false)
	k := w.begin(steps(bash("true"), say("It works.\n"+boulder.DoneMarker)), askForBash)
	r := w.watch(func(c *watch.Config) { c.Diverter = away })
	k.until(r, "wait asks", "permission bash [true]")
	// A test that used the directory before may have withdrawn the tool.
	if servers, err := w.dir.MCPServers(w.ctx); err != nil ||
		servers[mcptool.DefaultName].Status == opencode.MCPConnected {
		t.Errorf("the tool is offered although nobody asked for that: %v, %v", servers, err)
	}
	on := true
	if err := away.Switch(w.ctx, k.id, &on); err != nil {
		t.Fatal(err)
	}
	k.until(r, "finish work")
	away.blockersOf(k, 1)
}

// proxied puts a proxy before OpenCode. It answers the requests that refuse selects with status 400.
func proxied(t *testing.T, to string, refuse func(r *http.Request, body string) bool) func(*watch.Config) {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || refuse(r, string(body)) {
			http.Error(rw, `{"name":"BadRequest"}`, http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(rw, r)
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return func(c *watch.Config) {
		c.Attach = func(ctx context.Context) (*opencode.Client, error) { return attach(ctx, s.URL) }
	}
}

// A restarted watch continues a session that waits for an answer, however long it was idle. The answer is repeated
// until a turn results from it: here OpenCode refuses the first prompt with it.
func TestAnswerAfterARestart(t *testing.T) {
	w := newWorld(t)
	away := newStandIn(t, true)
	k := w.chat(opencode.NewSession{Title: t.Name()}, steps(
		mayDelete, say("I cannot go on without an answer.\n"+boulder.DoneMarker), say("It is gone.\n"+boulder.DoneMarker),
	))
	change := func(c *watch.Config) { c.Diverter, c.Since = away, time.Nanosecond }
	events := w.events()
	defer events.Close()
	r := w.watch(change)
	r.waitForNote(boulder.BlockerTool)
	k.user("Delete what nothing uses.")
	k.until(r, "wait asks")
	for e := range events.C() { // asks wait before the turn ends
		if p, ok := e.Payload.(opencode.StatusChanged); ok && e.SessionID == k.id && p.Status.Type == opencode.Idle {
			break
		}
	}
	r.end()
	away.answerBlocker(w, "W1", blockers.Settlement{Answer: answer})
	var refused atomic.Bool
	r = r.again(change, proxied(t, w.url, func(r *http.Request, body string) bool {
		return strings.HasSuffix(r.URL.Path, "/prompt_async") && strings.Contains(body, answer) && !refused.Swap(true)
	}))
	k.sendsAnswer(r)
	k.sendsAnswer(r)
	k.until(r, "finish work")
	if k.continuations(1); !refused.Load() {
		t.Error("nothing was refused")
	}
}
