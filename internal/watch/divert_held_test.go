package watch_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/watch"
	"github.com/bouldermgr/manager/opencode"
)

// unsure cannot say once what has become of an ask.
type unsure struct {
	standIn
	once  *sync.Once
	asked chan<- struct{}
}

func (s unsure) Ruling(ctx context.Context, id string) (r boulder.Ruling, err error) {
	s.once.Do(func() {
		err = errors.New("the database is held")
		close(s.asked)
	})
	if err != nil {
		return r, err
	}
	return s.standIn.Ruling(ctx, id)
}

// A person who may still answer an ask is not cut short because the database could not be read.
func TestPersonIsWaitedForAllTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	away := newStandIn(t, true)
	root := t.TempDir()
	var err error
	away.Desk, err = blockers.Open(blockers.Config{
		Root: root, Path: filepath.Join(root, blockers.FileName), Enabled: true,
		Policy: blockers.Policy{Permissions: []blockers.Rule{{Permission: "bash", Action: blockers.AskMe, Wait: time.Hour}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	k := w.begin(t, steps(half, bash("true"), whole, say("It works.")), askForBash)
	asked := make(chan struct{})
	r := w.watch(func(c *watch.Config) { c.Diverter = unsure{away, new(sync.Once), asked} })
	select {
	case <-asked:
	case <-w.ctx.Done():
		t.Fatalf("nobody looked whether a person answered:\n%s", r.said(k.id))
	}
	if _, err := away.Settle(w.ctx, "B1", blockers.Settlement{Status: boulder.BlockerAnswered, Allowed: true}); err != nil {
		t.Fatal(err)
	}
	k.until(r, "finish work")
	if b, err := away.Get(w.ctx, "B1"); err != nil || b.Ask.Reply != boulder.ReplyAllowed {
		t.Errorf("the agent got %+v, %v", b.Ask, err)
	}
}

// Of two permissions that are asked for at once one is refused and one is the user's to give: the refusal, which would
// sweep the other away, waits for the answer, also if the event of the other one does not come in time.
func TestRefusalSweepsNothingAway(t *testing.T) {
	t.Parallel()
	t.Run("both told", func(t *testing.T) {
		t.Parallel()
		refuseOneOfTwo(t, nil)
	})
	t.Run("one told", func(t *testing.T) {
		t.Parallel()
		refuseOneOfTwo(t, func(event string) bool {
			return strings.Contains(event, `"permission.asked"`) && strings.Contains(event, "echo perhaps")
		})
	})
}

// withoutEvents is a server before another one, which keeps some events to itself.
func withoutEvents(t *testing.T, to string, drop func(event string) bool) string {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	proxy.ModifyResponse = func(r *http.Response) error {
		if !strings.Contains(r.Header.Get("Content-Type"), "event-stream") {
			return nil
		}
		from, body := r.Body, bufio.NewReader(r.Body)
		pr, pw := io.Pipe()
		go func() {
			for {
				line, err := body.ReadString('\n')
				if !drop(line) {
					_, _ = io.WriteString(pw, line)
				}
				if err != nil {
					_ = pw.CloseWithError(err)
					return
				}
			}
		}()
		r.Body = struct {
			io.Reader
			io.Closer
		}{pr, from}
		return nil
	}
	s := httptest.NewServer(proxy)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// patient rules when both are asked for.
type patient struct {
	standIn
	both <-chan struct{}
}

func (p patient) Divert(ctx context.Context, ask boulder.Blocker) (boulder.Ruling, error) {
	select {
	case <-p.both:
	case <-ctx.Done():
	}
	return p.standIn.Divert(ctx, ask)
}

func refuseOneOfTwo(t *testing.T, drop func(event string) bool) {
	w := newWorld(t)
	asked := make(chan struct{})
	sub := w.client.Subscribe(opencode.Filter{Directory: w.dir.Path()})
	t.Cleanup(sub.Close)
	go func() {
		n := 0
		for e := range sub.C() {
			if _, ok := e.Payload.(opencode.PermissionAsked); ok {
				n++
			}
			if n == 2 {
				close(asked)
				return
			}
		}
	}()
	away := newStandIn(t, true)
	root := t.TempDir()
	var err error
	away.Desk, err = blockers.Open(blockers.Config{
		Root: root, Path: filepath.Join(root, blockers.FileName), Enabled: true,
		Policy: blockers.Policy{Permissions: []blockers.Rule{
			{Permission: "bash", Pattern: "echo no", Action: blockers.Deny},
			{Permission: "bash", Pattern: "echo perhaps", Action: blockers.AskMe, Wait: time.Hour},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	both := bash("echo no")
	both.ToolCalls = append(both.ToolCalls, bash("echo perhaps").ToolCalls...)
	k := w.begin(t, steps(both, say("I did what I may.")), askForBash)
	r := w.watch(func(c *watch.Config) {
		c.Diverter = patient{away, asked}
		if drop != nil {
			at := withoutEvents(t, w.url, drop)
			c.Attach = func(ctx context.Context) (*opencode.Client, error) {
				return opencode.Attach(ctx, at, opencode.AttachConfig{})
			}
		}
	})
	r.noted(t, "waits for you until")
	r.noted(t, "was refused")
	all, err := away.List(w.ctx, blockers.Filter{SessionID: k.id})
	if err != nil || len(all) != 2 {
		t.Fatalf("%d blockers, %v", len(all), err)
	}
	for _, b := range all {
		if b.Ask.Reply != boulder.ReplyWaiting {
			continue
		}
		if _, err := away.Settle(w.ctx, b.ID, blockers.Settlement{Status: boulder.BlockerAnswered, Allowed: true}); err != nil {
			t.Fatal(err)
		}
	}
	k.until(r, "finish work")
	messages, err := w.dir.Messages(w.ctx, k.id, 0)
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]opencode.ToolState{}
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Tool != nil {
				states[p.Tool.Title+string(p.Tool.Input)] = p.Tool.State
			}
		}
	}
	ran := 0
	for what, state := range states {
		if strings.Contains(what, "perhaps") && state == opencode.ToolCompleted {
			ran++
		}
	}
	if ran != 1 || len(states) != 2 {
		t.Errorf("what the user allowed did not run: %v", states)
	}
	for _, b := range all {
		if b, err := away.Get(w.ctx, b.ID); err != nil || b.Ask.Reply == boulder.ReplyWaiting || b.Ask.Reply == boulder.ReplyGone {
			t.Errorf("recorded as %+v, %v", b.Ask, err)
		}
	}
}
