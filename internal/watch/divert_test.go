package watch_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/blockers/mcptool"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/watch"
	"github.com/bouldermgr/manager/opencode"
)

// standIn is who stands in for the person, as `manager watch --blockers` puts it together.
type standIn struct {
	*blockers.Desk
	*mcptool.Server
}

func (s standIn) Tool(ctx context.Context) (opencode.MCPServer, error) {
	url, headers, err := s.Serve(ctx)
	return opencode.MCPServer{Name: mcptool.DefaultName, URL: url, Headers: headers}, err
}

func (s standIn) ToolName() string { return blockers.DefaultTool }

func (s standIn) Instruction(ask boulder.Blocker) string {
	return blockers.Instruction(blockers.DefaultTool, ask)
}

func newStandIn(t *testing.T, on bool) standIn {
	t.Helper()
	root := t.TempDir()
	desk, err := blockers.Open(blockers.Config{Root: root, Path: filepath.Join(root, blockers.FileName), Enabled: on})
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

// mayDelete is an agent that needs a person.
var mayDelete = use(blockers.DefaultTool, map[string]any{
	"category": "destructive", "question": "May I delete the directory old?", "context": "Nothing uses it.",
	"blocks_progress": true,
})

var askForBash = opencode.Rule{Permission: "bash", Pattern: "*", Action: opencode.Ask}

// A session whose person is away is refused what it asks for and goes on in the same turn; what it cannot do without
// them holds it up until there is an answer, and then it goes on with that.
func TestDiverted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	away := newStandIn(t, true)
	k := w.talk(t, opencode.NewSession{Title: t.Name(), Rules: []opencode.Rule{askForBash}}, steps(
		half, bash("rm -r old"),
		mayDelete,
		say("I cannot go on without an answer."), whole, say("It is gone.\n"+boulder.DoneMarker),
	))
	r := w.watch(func(c *watch.Config) { c.Diverter = away })
	r.noted(t, blockers.DefaultTool)
	k.person("Write a and b.")
	if e := k.until(r, "wait asks"); !strings.Contains(e.Reason, "rm -r old") && !strings.Contains(e.Reason, "B2") {
		t.Error(e.Reason)
	}
	r.wait(t, "the wait for an answer to B2", func() bool {
		for _, e := range r.log {
			if e.SessionID == k.id && strings.Contains(e.Reason, "an answer to B2: May I delete the directory old?") {
				return true
			}
		}
		return false
	})
	all, err := away.List(w.ctx, blockers.Filter{SessionID: k.id})
	if err != nil || len(all) != 2 {
		t.Fatalf("%d blockers, %v", len(all), err)
	}
	asked, hard := all[0], all[1]
	if a := asked.Ask; asked.Hard || asked.Category != boulder.BlockerPermission || a == nil ||
		a.Reply != boulder.ReplyDiverted || a.Permission != "bash" || strings.Join(a.Patterns, " ") != "rm -r old" || a.Tool != "bash" || !strings.Contains(a.Arguments, "rm -r old") {
		t.Errorf("the ask is recorded as %+v, %+v", asked, a)
	}
	if !hard.Hard || hard.SessionID != k.id {
		t.Errorf("the hard one is recorded as %+v", hard)
	}
	if n := len(k.continuations()); n != 0 {
		t.Errorf("%d continuations of what is blocked:\n%s", n, r.said(k.id))
	}
	if _, err := away.Settle(w.ctx, hard.ID, blockers.Settlement{
		Status: boulder.BlockerAnswered, Answer: "Yes, but keep old/LICENSE.",
	}); err != nil {
		t.Fatal(err)
	}
	sent := k.until(r, "send open")
	if !strings.Contains(sent.Prompt, "Yes, but keep old/LICENSE.") || !strings.Contains(sent.Prompt, boulder.DoneMarker) {
		t.Errorf("the continuation lacks the answer, or how to end:\n%s", sent.Prompt)
	}
	k.until(r, "finish work")
	if n := len(k.continuations()); n != 1 {
		t.Errorf("%d continuations:\n%s", n, r.said(k.id))
	}
}

// Switched off, nobody stands in for the person. A switch counts for what is asked already.
func TestDivertedWhenSwitchedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	away := newStandIn(t, false)
	k := w.begin(t, steps(half, bash("true"), whole, say("It works.")), askForBash)
	r := w.watch(func(c *watch.Config) { c.Diverter = away })
	if e := k.until(r, "wait asks"); !strings.Contains(e.Reason, "permission bash [true]") {
		t.Error(e.Reason)
	}
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
	all, err := away.List(w.ctx, blockers.Filter{SessionID: k.id})
	if err != nil || len(all) != 1 {
		t.Errorf("%d blockers, %v", len(all), err)
	}
}

// An answer is told until a turn came of it: OpenCode refused the first prompt that had it.
func TestAnswerIsToldAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	away := newStandIn(t, true)
	k := w.talk(t, opencode.NewSession{Title: t.Name()}, steps(
		mayDelete,
		say("I cannot go on without an answer."), say("It is gone.\n"+boulder.DoneMarker),
	))
	const answer = "Yes, but keep old/LICENSE."
	var refused atomic.Bool
	url := refusing(t, w.url, func(r *http.Request, body string) bool {
		return strings.HasSuffix(r.URL.Path, "/prompt_async") && strings.Contains(body, answer) && !refused.Swap(true)
	})
	r := w.watch(func(c *watch.Config) {
		c.Diverter = away
		c.Attach = func(ctx context.Context) (*opencode.Client, error) {
			return opencode.Attach(ctx, url, opencode.AttachConfig{})
		}
	})
	r.noted(t, blockers.DefaultTool)
	k.person("Delete what nothing uses.")
	k.until(r, "wait asks")
	if _, err := away.Settle(w.ctx, "B1", blockers.Settlement{Status: boulder.BlockerAnswered, Answer: answer}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if sent := k.until(r, "send open"); !strings.Contains(sent.Prompt, answer) {
			t.Errorf("the continuation lacks the answer:\n%s", sent.Prompt)
		}
	}
	k.until(r, "finish work")
	if n := len(k.continuations()); n != 1 || !refused.Load() {
		t.Errorf("%d continuations:\n%s", n, r.said(k.id))
	}
}

// refusing is a server before another one, which refuses some requests.
func refusing(t *testing.T, to string, refuse func(r *http.Request, body string) bool) string {
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
	return s.URL
}
