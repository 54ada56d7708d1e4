package watch_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/blockers/mcptool"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/watch"
	"github.com/bouldermgr/manager/opencode"
)

// standIn is who stands in for the user, as `manager watch --blockers` puts it together.
type standIn struct {
	*blockers.Desk
	*mcptool.Server
}

func newStandIn(t *testing.T, on bool, rules ...blockers.Rule) standIn {
	t.Helper()
	desk, err := blockers.Open(blockers.Config{Root: t.TempDir(), Enabled: on, Policy: blockers.Policy{Permissions: rules}})
	if err != nil {
		t.Fatal(err)
	}
	server := mcptool.New(mcptool.Config{Desk: desk})
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return standIn{desk, server}
}

// settle has the user answer a blocker.
func (s standIn) settle(w *world, id string, how blockers.Settlement) {
	w.t.Helper()
	how.Status = boulder.BlockerAnswered
	if _, err := s.Settle(w.ctx, id, how); err != nil {
		w.t.Fatal(err)
	}
}

// all are the blockers of a session, of which there have to be so many.
func (s standIn) all(k *talk, want int) []boulder.Blocker {
	k.t.Helper()
	all, err := s.Raised(k.w.ctx, boulder.BlockerScope{SessionID: k.id})
	if err != nil || len(all) != want {
		k.t.Fatalf("%d blockers, want %d: %v", len(all), want, err)
	}
	return all
}

// mayDelete is an agent that needs the user.
var mayDelete = use(blockers.DefaultTool, map[string]any{
	"category": "destructive", "question": "May I delete the directory old?", "context": "Nothing uses it.",
	"blocks_progress": true,
})

const answer = "Yes, but keep old/LICENSE."

// deletes is an agent that needs the user at once, and what they say.
var deletes = steps(mayDelete, say("I cannot go on without an answer."), say("It is gone.\n"+boulder.DoneMarker))

var askForBash = opencode.Rule{Permission: "bash", Pattern: "*", Action: opencode.Ask}

// sendsAnswer waits for a continuation that has the user's answer in it.
func (k *talk) sendsAnswer(r *running) {
	k.t.Helper()
	sent := k.until(r, "send open")
	if !strings.Contains(sent.Prompt, answer) || !strings.Contains(sent.Prompt, boulder.DoneMarker) {
		k.t.Errorf("the continuation lacks the answer, or how to end:\n%s", sent.Prompt)
	}
}

// A session whose user is away is refused what it asks for and goes on in the same turn; what it cannot do without
// them holds it up until there is an answer, and then it goes on with that.
func TestDiverted(t *testing.T) {
	w := newWorld(t)
	away := newStandIn(t, true)
	k := w.talk(opencode.NewSession{Title: t.Name(), Rules: []opencode.Rule{askForBash}}, steps(
		half, bash("rm -r old"), mayDelete,
		say("I cannot go on without an answer."), whole, say("It is gone.\n"+boulder.DoneMarker),
	))
	r := w.watch(func(c *watch.Config) { c.Diverter = away })
	r.noted(blockers.DefaultTool)
	k.user("Write a and b.")
	k.until(r, "wait asks")
	r.wait(t, "the wait for an answer to B2", func() bool {
		for _, e := range r.log {
			if e.SessionID == k.id && strings.Contains(e.Reason, "an answer to B2: May I delete the directory old?") {
				return true
			}
		}
		return false
	})
	all := away.all(k, 2)
	asked, hard := all[0], all[1]
	if a := asked.Ask; asked.Hard || asked.Category != boulder.BlockerPermission || a == nil ||
		a.Reply != boulder.ReplyDiverted || a.Permission != "bash" || strings.Join(a.Patterns, " ") != "rm -r old" ||
		a.Tool != "bash" || !strings.Contains(a.Arguments, "rm -r old") {
		t.Errorf("the ask is recorded as %+v, %+v", asked, a)
	}
	if !hard.Hard || hard.SessionID != k.id {
		t.Errorf("the hard one is recorded as %+v", hard)
	}
	k.continued(0)
	away.settle(w, hard.ID, blockers.Settlement{Answer: answer})
	k.sendsAnswer(r)
	k.until(r, "finish work")
	k.continued(1)
}

// Switched off, nobody stands in for the user. A switch counts for what is asked already.
func TestDivertedWhenSwitchedOn(t *testing.T) {
	w := newWorld(t)
	away := newStandIn(t, false)
	k := w.begin(steps(half, bash("true"), whole, say("It works.")), askForBash)
	r := w.watch(func(c *watch.Config) { c.Diverter = away })
	k.until(r, "wait asks", "permission bash [true]")
	// Another test may have had the directory before, and withdrawn the tool.
	if servers, err := w.dir.MCPServers(w.ctx); err != nil ||
		servers[mcptool.DefaultName].Status == opencode.MCPConnected {
		t.Errorf("the tool is offered although nobody asked for that: %v, %v", servers, err)
	}
	on := true
	if err := away.Switch(w.ctx, k.id, &on); err != nil {
		t.Fatal(err)
	}
	k.until(r, "finish work")
	away.all(k, 1)
}

// proxied puts a server before OpenCode, which may refuse requests.
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

// An answer is told until a turn came of it: OpenCode refused the first prompt that had it.
func TestAnswerIsToldAgain(t *testing.T) {
	w := newWorld(t)
	away := newStandIn(t, true)
	k := w.talk(opencode.NewSession{Title: t.Name()}, deletes)
	var refused atomic.Bool
	r := w.watch(func(c *watch.Config) { c.Diverter = away }, proxied(t, w.url, func(r *http.Request, body string) bool {
		return strings.HasSuffix(r.URL.Path, "/prompt_async") && strings.Contains(body, answer) && !refused.Swap(true)
	}))
	r.noted(blockers.DefaultTool)
	k.user("Delete what nothing uses.")
	k.until(r, "wait asks")
	away.settle(w, "B1", blockers.Settlement{Answer: answer})
	k.sendsAnswer(r)
	k.sendsAnswer(r)
	k.until(r, "finish work")
	if k.continued(1); !refused.Load() {
		t.Error("nothing was refused")
	}
}

// A watch that is started again goes on with a session that waits for an answer, however long it rested.
func TestAnswerAfterARestart(t *testing.T) {
	w := newWorld(t)
	away := newStandIn(t, true)
	k := w.talk(opencode.NewSession{Title: t.Name()}, deletes)
	change := func(c *watch.Config) { c.Diverter, c.Since = away, time.Nanosecond }
	events := w.client.Subscribe(opencode.Filter{Directory: w.dir.Path()})
	defer events.Close()
	r := w.watch(change)
	r.noted(blockers.DefaultTool)
	k.user("Delete what nothing uses.")
	k.until(r, "wait asks")
	for e := range events.C() { // it waits for that while it is still at work
		if p, ok := e.Payload.(opencode.StatusChanged); ok && e.SessionID == k.id && p.Status.Type == opencode.Idle {
			break
		}
	}
	r.end()
	away.settle(w, "B1", blockers.Settlement{Answer: answer})
	r = r.again(change)
	k.sendsAnswer(r)
	k.until(r, "finish work")
}
