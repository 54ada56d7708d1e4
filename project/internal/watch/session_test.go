package watch_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/project/internal/watch"
	"github.com/bouldermgr/manager/session"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// A session with open items is told to continue, with its agent and model, until they are done. The user's screen shows
// an error toast when it is idle, a warning when it claims to be done, and finally that it is complete.
func TestGoesOnUntilComplete(t *testing.T) {
	w := newWorld(t)
	screen := w.events()
	defer screen.Close()
	k := w.begin(steps(half, say("I wrote a."), say("All done. Everything works."), whole, say("Both are there.")))
	r := w.watch(listed)
	k.until(r, "countdown countdown")
	first := k.until(r, "send open")
	second := k.until(r, "send open")
	k.until(r, "finish work")
	for i, m := range k.continuations(2) {
		sent := []watch.Entry{first, second}[i]
		if m.Info.ID != sent.MessageID || m.Text() != sent.Prompt || sent.Iteration != i+1 {
			t.Errorf("%+v, and %+v", m, sent)
		}
		if !strings.Contains(m.Text(), "Write b") || strings.Contains(m.Text(), "Write a") {
			t.Errorf("the prompt names what is open, and nothing else: %s", m.Text())
		}
	}
	if n := strings.Count(r.decisionLog(k.id), "countdown countdown"); n != 2 {
		t.Errorf("%d countdowns", n)
	}
	for _, want := range []string{
		"error: manager continues in 50ms: Idle for",
		"warning: manager continues in 50ms: It says that it is done, but there is 1 thing left to do, such as: Write b",
		"success: Complete: ",
	} {
		for shown := ""; shown == ""; {
			select {
			case e := <-screen.C():
				p, ok := e.Payload.(opencode.Unknown)
				if !ok || p.Type != "tui.toast.show" {
					continue
				}
				var toast struct {
					Variant, Title, Message string
					Duration                int // in milliseconds
				}
				if err := json.Unmarshal(p.Properties, &toast); err != nil {
					t.Fatal(err)
				}
				if toast.Duration != 15_000 { // also of a countdown, which is shorter
					t.Errorf("shown for %d ms: %+v", toast.Duration, toast)
				}
				shown = toast.Variant + ": " + toast.Title + ": " + toast.Message
			case <-w.ctx.Done():
				t.Fatalf("%q was not shown:\n%s", want, r.decisionLog(k.id))
			}
			if !strings.HasPrefix(shown, want) || strings.Contains(shown, "Write a") {
				t.Errorf("%q, want %q, and nothing that is done", shown, want)
			}
		}
	}
}

// A prompt of the user ends a countdown and resets all counters; the manager's own prompts do not. A continuous watch
// continues although everything is done.
func TestUserInBetween(t *testing.T) {
	w := newWorld(t)
	k := w.begin(steps(say("I think about b."), say("It scatters."), promised, say("It is better.\n"+boulder.Promise)))
	r := w.watch(func(c *watch.Config) { c.Policy.Countdown = never })
	k.until(r, "countdown countdown")
	k.user("By the way, why is the sky blue?")
	k.until(r, "wait idle")
	k.until(r, "countdown countdown")
	k.continuations(0)
	r = r.again(func(c *watch.Config) { c.Policy.Continuous, c.Policy.MaxIterations = true, 1 })
	k.until(r, "let_go iterations")
	k.user("Go on, please.")
	if e := k.until(r, "send open"); e.Iteration != 1 {
		t.Errorf("after the user's prompt it is iteration %d", e.Iteration)
	}
	k.until(r, "let_go iterations")
	k.continuations(2)
}

// An abort stops the session, also across a restart. An order to start lifts it once the abort window is over.
func TestAbortIsObeyed(t *testing.T) {
	w := newWorld(t)
	release := make(chan struct{})
	defer close(release)
	k := w.begin(func(ctx context.Context, r scriptmodel.Request) scriptmodel.Reply {
		reply := steps(half, say("late"), say("I look at b."), say("I still look at b."))(ctx, r)
		if r.AssistantTurns() == 1 {
			reply.Wait = release
		}
		return reply
	})
	r := w.watch()
	k.until(r, "wait idle") // at work
	events := w.client.Subscribe(opencode.Filter{Sessions: []string{k.id}})
	defer events.Close()
	for {
		todos, err := w.dir.Todos(w.ctx, k.id)
		if err != nil {
			t.Fatal(err)
		}
		if len(todos) > 0 {
			break
		}
		<-events.C()
	}
	if err := w.dir.Abort(w.ctx, k.id); err != nil {
		t.Fatal(err)
	}
	k.until(r, "wait stopped", "aborted")
	r = r.again(func(c *watch.Config) { c.Policy.AbortWindow = never })
	k.until(r, "wait stopped")
	k.continuations(0)
	if report, err := r.ask(watch.Request{Session: k.id, Order: watch.OrderStart}); err != nil || len(report.Named) != 1 {
		t.Fatal(report.Named, err)
	}
	k.until(r, "wait abort")
	r = r.again()
	k.until(r, "send open")
}

// testPlanIsLeftAlone: the session of a planning agent is left to the user until they switch to another agent.
func testPlanIsLeftAlone(t *testing.T, w *world, r *running) {
	t.Helper()
	k := w.chat(opencode.NewSession{Title: t.Name()}, steps(
		say("Shall I write b as well?"), say("I look at b."), promised,
	))
	other := w.chat(opencode.NewSession{Title: "other"}, twice)
	k.prompt(opencode.Prompt{Agent: "plan", Model: agentModel, Text: "Plan a and b.\n" + k.mark})
	k.until(r, "wait agent", "the agent plan is left to the user")
	other.user("Write a and b.")
	other.until(r, "finish work") // by then a continuation to the first would be overdue
	k.continuations(0)
	k.user("Yes.")
	k.until(r, "send open", boulder.Promise)
	k.until(r, "finish work")
	k.continuations(1)
}

func TestPlanIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	testPlanIsLeftAlone(t, w, w.watch())
}

// Asks of a planning agent go to the user even where blockers are on.
func asksTheUser(t *testing.T, w *world) {
	t.Helper()
	away := newStandIn(t, true)
	k := w.chat(opencode.NewSession{Title: t.Name()}, steps(question, say("I plan it with that name.")))
	events := w.events()
	defer events.Close()
	k.prompt(opencode.Prompt{Agent: "plan", Model: agentModel, Text: "Plan a.\n" + k.mark})
	var asked opencode.Asked
	for ok := false; !ok; {
		asked, ok = (<-events.C()).Payload.(opencode.Asked)
	}
	r := w.watch(func(c *watch.Config) { c.Diverter, c.Once = away, true })
	<-r.done
	away.blockersOf(k, 0)
	if err := w.dir.AnswerQuestion(w.ctx, asked.Request.ID, [][]string{{"a"}}); r.err != nil || err != nil {
		t.Error(r.err, err)
	}
}

func TestPlanAsksTheUser(t *testing.T) { asksTheUser(t, newWorld(t)) }

func TestOpenCode2PlanAsksTheUser(t *testing.T) { asksTheUser(t, secondWorld(t)) }

// request calls a route of the session that the client has no method for, as OpenCode's screen does.
func (k *chat) request(method, path, body string) {
	k.t.Helper()
	address := k.w.url + "/session/" + k.id + path + "?" + url.Values{"directory": {k.w.dir.Path()}}.Encode()
	req, err := http.NewRequestWithContext(k.w.ctx, method, address, strings.NewReader(body))
	if err != nil {
		k.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		k.t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		k.t.Fatalf("%s %s: %s: %s", method, path, resp.Status, text)
	}
}

// An archived session is left alone, and a deleted one is forgotten. A session with an undone turn is left alone until
// the user redoes it: a continuation would delete that turn for good.
func TestArchivedAndDeletedAndUndone(t *testing.T) {
	w := newWorld(t)
	archived, k := w.chat(opencode.NewSession{Title: "archived"}, twice), w.begin(twice)
	forgotten := make(chan string, 1)
	r := w.watch(func(c *watch.Config) {
		c.Policy.Countdown = never
		c.Forget = func(_ context.Context, sessionID string) error { forgotten <- sessionID; return nil }
	})
	archived.user("Write a and b.")
	archived.until(r, "countdown countdown")
	archived.request(http.MethodPatch, "", `{"time":{"archived":1767225600000}}`)
	archived.until(r, "wait owned", "archived")
	archived.continuations(0)
	if err := w.dir.DeleteSession(w.ctx, archived.id); err != nil {
		t.Fatal(err)
	}
	select {
	case id := <-forgotten:
		if id != archived.id {
			t.Errorf("%s is forgotten", id)
		}
	case <-w.ctx.Done():
		t.Fatal("what is stored elsewhere about the deleted session stays")
	}
	k.until(r, "countdown countdown")
	before := k.messages()
	k.request(http.MethodPost, "/revert", `{"messageID":"`+before[0].Info.ID+`"}`)
	k.until(r, "wait undo")
	records, err := r.store.Records()
	if err != nil || len(records) != 1 || records[0].SessionID != k.id {
		t.Errorf("%+v, %v", records, err)
	}
	r = r.again() // without the long countdown, and from the start of the session
	k.until(r, "wait undo")
	k.request(http.MethodPost, "/unrevert", "")
	k.until(r, "send open")
	k.until(r, "finish work")
	if after := k.messages(); len(after) <= len(before) || after[0].Info.ID != before[0].Info.ID {
		t.Errorf("%d messages of %d are left", len(after), len(before))
	}
}

// Sessions of a run and of its sub-agents get no prompts. With All, a user's sub-agent is watched by itself.
func TestRunsAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	model := steps(say("I wrote a."))
	tagged := w.chat(opencode.NewSession{Title: "one", Metadata: map[string]any{session.TagKey: "manager:b/a#1"}}, model)
	left := []*chat{
		tagged, w.chat(opencode.NewSession{Title: "two [manager:b/a#1]"}, model),
		w.chat(opencode.NewSession{Title: "child", ParentID: tagged.id}, model),
	}
	users := w.chat(opencode.NewSession{Title: "three"}, model)
	own := w.chat(opencode.NewSession{Title: "own child", ParentID: users.id}, twice)
	r := w.watch(func(c *watch.Config) { c.All = true })
	for _, k := range append(left, own) {
		k.user("Write a and b.")
	}
	for _, k := range left {
		k.until(r, "wait owned", "run of manager")
	}
	own.until(r, "finish work") // by then continuations to the others would be overdue
	for _, k := range left {
		k.continuations(0)
	}
}

// Nothing is sent while a sub-agent's sub-agent is at work, even after a restart, when no event reports it. Sub-agents'
// sessions are not watched by themselves.
func TestGrandchildAtWork(t *testing.T) {
	w := newWorld(t)
	release := make(chan struct{})
	model := func(context.Context, scriptmodel.Request) scriptmodel.Reply {
		return scriptmodel.Reply{Text: "It is used in two places.", Wait: release}
	}
	k := w.begin(twice)
	r := w.watch(func(c *watch.Config) { c.Policy.Countdown = never })
	k.until(r, "countdown countdown")
	child := w.chat(opencode.NewSession{Title: "child", ParentID: k.id}, model)
	grandchild := w.chat(opencode.NewSession{Title: "grandchild", ParentID: child.id}, model)
	grandchild.user("Where is a used?")
	k.until(r, "wait background")
	r = r.again()
	k.until(r, "wait background", `"grandchild" is at work`)
	close(release)
	k.until(r, "finish work")
	k.continuations(1)
	if said := r.decisionLog(child.id) + r.decisionLog(grandchild.id); strings.Contains(said, "/") {
		t.Errorf("about the sub-agents' sessions:\n%s", said)
	}
}

// A session compacted too often without progress is replaced by a fresh one. That is told the work, inherits the
// counters, and finishes. A crash that leaves the fresh session without its prompt makes no second one.
func TestFreshSessionAfterCompactions(t *testing.T) {
	w := newWorld(t)
	k := w.chat(opencode.NewSession{Title: "long"}, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		switch {
		case len(r.Tools) == 0:
			return say("Summary: a is written, b is not.")
		case strings.Contains(r.FirstUser(), "another one"):
			if r.TurnsSinceUser() == 0 {
				return whole
			}
			return say("Both are there.")
		case r.AssistantTurns() == 0 && !strings.Contains(r.Text(), "Summary"):
			return list("Write b", "pending")
		case strings.HasPrefix(r.LastUser(), "Continue"):
			return say("I look at it.")
		}
		return long("I look at it once more.")
	})
	crashed, how := w.crashing(func(r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/prompt_async") && !strings.Contains(r.URL.Path, k.id)
	})
	once := func(c *watch.Config) { c.Policy.Compactions = 1 }
	r := w.watch(listed, once, how)
	k.user("Write a and b.")
	sent := k.until(r, "fresh open")
	<-crashed
	r = r.again(listed, once, soon)
	k.until(r, "wait stopped")
	fresh := &chat{t: t, w: w}
	r.wait(t, "a decision about the fresh session", func() bool {
		for _, e := range r.log {
			if e.SessionID != k.id {
				fresh.id = e.SessionID
			}
		}
		return fresh.id != ""
	})
	if done := fresh.until(r, "finish work"); done.Iteration != sent.Iteration {
		t.Errorf("iteration %d after %d", done.Iteration, sent.Iteration)
	}
	m := fresh.continuations(1)[0]
	if m.Info.ID != sent.MessageID {
		t.Errorf("%+v, want message %s", m.Info, sent.MessageID)
	}
	for _, want := range []string{"Write a and b.", "Summary: a is written, b is not.", "- Write b"} {
		if !strings.Contains(m.Text(), want) {
			t.Errorf("the fresh session is not told %q: %s", want, m.Text())
		}
	}
	sessions, err := w.dir.Sessions(w.ctx, opencode.SessionFilter{})
	if err != nil || len(sessions) != 2 {
		t.Errorf("%d sessions, %v", len(sessions), err)
	}
}

// A dry run neither acts nor stores anything, not even a used-up budget. Once does what is due, and ends.
func TestDryRunAndOnce(t *testing.T) {
	w := newWorld(t)
	k := w.begin(steps(say("I wrote a.")))
	r := w.watch(func(c *watch.Config) { c.DryRun, c.Budget = true, &boulder.Budget{Tokens: 1} })
	k.until(r, "let_go budget") // it is idle by then
	r = r.again(func(c *watch.Config) { c.Once, c.DryRun = true, true })
	e := k.until(r, "send open")
	<-r.done
	if r.err != nil || !e.DryRun || !strings.Contains(e.Prompt, boulder.Promise) {
		t.Errorf("%+v, %v", e, r.err)
	}
	k.continuations(0)
	r = r.again(func(c *watch.Config) { c.Once = true })
	k.until(r, "send open")
	<-r.done
	if r.err != nil {
		t.Error(r.err)
	}
	k.continuations(1)
}

// Stop and start reach a running watch, and survive a restart. A second watch is refused. A "stop" typed by the user
// holds until they write again.
func TestStopAndStart(t *testing.T) {
	w := newWorld(t)
	k := w.begin(func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if strings.Contains(r.LastUser(), "Go on.") {
			return promised
		}
		return say("I look at b next.")
	})
	r := w.watch(func(c *watch.Config) { c.Policy.Countdown = never })
	k.until(r, "countdown countdown")
	if _, err := watch.OpenStore(w.db, store.Options{}); !errors.Is(err, store.ErrHeld) {
		t.Errorf("a second watch: %v", err)
	}
	stop := watch.Request{Order: watch.OrderStop, Session: k.id[len(k.id)-6:]}
	if report, err := r.ask(stop); err != nil || len(report.Named) != 1 || report.Named[0] != k.id {
		t.Fatal(report.Named, err)
	}
	k.until(r, "wait stopped")
	k.user("Is it blue?") // does not lift an explicit stop
	report, err := r.ask(watch.Request{})
	if err != nil || report.Holder.PID != 42 || !report.Online || len(report.Sessions) != 1 ||
		report.Sessions[0].Status != enforcer.Stopped || !report.Sessions[0].Watched {
		t.Errorf("%+v, %v", report, err)
	}
	if report, err := r.ask(watch.Request{Order: watch.OrderStop, Session: "nobody"}); err != nil || len(report.Named) != 0 {
		t.Errorf("an order for nobody: %v, %v", report.Named, err)
	}
	r = r.again(func(c *watch.Config) { c.Policy.Countdown = never })
	k.until(r, "wait stopped")
	if report, err := r.ask(watch.Request{Order: watch.OrderStart}); err != nil || len(report.Named) != 1 {
		t.Fatal(report.Named, err)
	}
	k.until(r, "countdown countdown")
	k.write("Stop!", agentModel)
	k.until(r, "wait stopped", "wrote")
	r = r.again()
	k.until(r, "wait stopped", "wrote")
	k.user("Go on.")
	k.until(r, "finish work")
	k.continuations(0)
	if report, err := r.ask(watch.Request{Session: k.id}); err != nil || len(report.History) < 4 {
		t.Errorf("%d decisions, %v", len(report.History), err)
	}
}

// crashing holds up a request of the watch, so that the watch can be ended there.
func (w *world) crashing(at func(r *http.Request) bool) (crashed <-chan struct{}, how func(*watch.Config)) {
	w.t.Helper()
	reached := make(chan struct{}, 1)
	return reached, proxied(w.t, w.url, func(r *http.Request, _ string) bool {
		if !at(r) {
			return false
		}
		reached <- struct{}{}
		<-r.Context().Done()
		return true
	})
}

// After a crash between the decision and the sending, the same message is sent, once, and the count continues. A crash
// during or after the answer sends nothing.
func TestRestartAroundASend(t *testing.T) {
	w := newWorld(t)
	release := make(chan struct{})
	k := w.begin(func(ctx context.Context, r scriptmodel.Request) scriptmodel.Reply {
		reply := twice(ctx, r)
		if r.AssistantTurns() == 1 {
			reply.Wait = release
		}
		return reply
	})
	crashed, how := w.crashing(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/prompt_async") })
	r := w.watch(how)
	intended := k.until(r, "send open")
	<-crashed
	r.end()
	k.continuations(0)
	r = r.again(soon)
	k.until(r, "look in_flight")
	k.until(r, "wait in_flight", "at work")
	said := r.decisionLog(k.id)
	r = r.again(soon)
	k.until(r, "wait in_flight", "at work")
	r.end()
	said += r.decisionLog(k.id)
	close(release)
	r = r.again(soon)
	k.until(r, "finish work")
	if m := k.continuations(1)[0]; m.Info.ID != intended.MessageID || strings.Contains(said+r.decisionLog(k.id), "send open") {
		t.Errorf("%s after %s:\n%s", m.Info.ID, intended.MessageID, said+r.decisionLog(k.id))
	}
}

// The wait for a server that does not answer goes by the clock of the configuration.
func TestServerThatNeverAnswers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	w := watch.New(watch.Config{
		Attach: func(context.Context) (*opencode.Client, error) { return nil, opencode.ErrUnavailable },
		Note:   func(string) {}, Logger: slog.New(slog.DiscardHandler),
		After: func(d time.Duration) <-chan time.Time {
			if d != time.Second {
				t.Errorf("it waits for %s", d)
			}
			cancel()
			return nil
		},
	})
	if err := w.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// OpenCode dies at work, and a new one has its sessions: the watch waits, says so once, and continues the session.
func TestOpenCodeRestarts(t *testing.T) {
	w := newWorld(t)
	s, err := octest.Serve(shared.repos.Home, shared.env, "0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	first := worldOn(t, s.URL, w.dir.Path())
	hang := make(chan struct{})
	defer close(hang)
	var dead atomic.Bool
	k := first.begin(func(context.Context, scriptmodel.Request) scriptmodel.Reply {
		if dead.Load() {
			return promised
		}
		return scriptmodel.Reply{Text: "never heard", Wait: hang}
	})
	var url atomic.Value
	url.Store(s.URL)
	r := w.watch(func(c *watch.Config) {
		c.Attach = func(ctx context.Context) (*opencode.Client, error) { return attach(ctx, url.Load().(string)) }
	})
	k.until(r, "wait idle") // at work
	s.Kill()
	r.waitForNote("does not answer")
	dead.Store(true)
	url.Store(w.url)
	r.waitForNote("answers again")
	k.until(r, "send open")
	k.until(r, "finish work")
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.notes) != 2 {
		t.Errorf("notes: %q", r.notes)
	}
}
