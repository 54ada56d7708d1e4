package executor

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

const twoSteps = `
rules:
  - when: {first_user: "begin"}
    replies: [{tool_calls: [{name: write, args: {filePath: a.txt, content: "a\n"}}]}, {text: Done.}]
`

// After a crash before the session's id was stored or its prompt sent, the session is adopted by tag and prompted once.
func TestCrashBeforeThePrompt(t *testing.T) {
	t.Parallel()
	for name, crash := range map[string]struct {
		at      func(boulder.Body) bool
		refusal error
	}{
		"session": {is[boulder.SubTaskStart], errCrash}, "message": {is[boulder.TurnSent], nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, script(t, twoSteps))
			a := w.newAttempt("x", "begin")
			a.dies(t, w, a.run, crash.at, crash.refusal)
			if e, err := a.again(t.Context(), w); err != nil || e.FinalMessage != "Done." {
				t.Fatalf("%q, %v", e.FinalMessage, err)
			}
			found, err := w.dir().Sessions(t.Context(), opencode.SessionFilter{Title: a.Attempt.Tag})
			if err != nil || len(found) != 1 || found[0].ID != a.Attempt.SessionID {
				t.Errorf("%d sessions carry the tag (%v)", len(found), err)
			}
			if n := w.prompts("begin"); n != 1 {
				t.Errorf("the prompt reached the model %d times", n)
			}
		})
	}
}

// A turn still at work after a restart is followed, not prompted.
func TestBusyTurnIsFollowed(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}, 4), make(chan struct{})
	w := newWorld(t, func(_ context.Context, _ scriptmodel.Request) scriptmodel.Reply {
		asked <- struct{}{}
		return scriptmodel.Reply{Text: "Done.", Wait: release}
	})
	a := w.newAttempt("x", "begin")
	first := a.start(t.Context(), w, a.run, "Done.")
	await(t, asked, first)
	second := a.start(t.Context(), w, a.again, "Done.")
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
	if n := w.prompts("begin"); n != 1 {
		t.Errorf("the prompt reached the model %d times", n)
	}
}

// A turn whose resume prompt was cut off too is not prompted again. Whatever it did, its evidence is truncated.
func TestTurnThatWasCutOffTwiceIsTruncated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		if req.TurnsSinceUser() == 0 {
			return calls(call("write", map[string]any{"filePath": "a.txt", "content": req.LastUser()}))
		}
		return scriptmodel.Reply{Text: "Now the long part.", ToolCalls: []scriptmodel.ToolCall{shell("sleep 600")}}
	})
	a := w.newAttempt("x", "begin")
	a.dies(t, w, a.run, does("sleep 600"), nil)
	a.dies(t, w, a.again, does("sleep 600"), nil)
	e, err := a.again(t.Context(), w)
	if err != nil || e.ToolCount == 0 || e.Ended.Truncated == "" {
		t.Errorf("%d tool calls, ended %+v, %v", e.ToolCount, e.Ended, err)
	}
	if n := w.prompts("RESUME"); n != 1 {
		t.Errorf("the resume prompt reached the model %d times", n)
	}
}

// The idle event came before the turn was picked up, the statuses lag, and no rule ends the turn: trusting them would
// wait forever. A fake, because the real server lags too briefly to be hit.
func TestStatusesThatAreLate(t *testing.T) {
	t.Parallel()
	const late = 5 // answers that still say busy
	var asked atomic.Int64
	bodies := map[string]string{
		"/global/health": `{"healthy":true,"version":"1.18.33"}`, "/session/ses_1": `{"id":"ses_1"}`,
		"/session/ses_1/children": `[]`, "/session/ses_1/todo": `[]`, "/permission": `[]`, "/question": `[]`,
		"/session/ses_1/message": `[
			{"info":{"id":"msg_1","role":"user","sessionID":"ses_1","time":{"created":1}},"parts":[]},
			{"info":{"id":"msg_2","role":"assistant","sessionID":"ses_1","parentID":"msg_1","finish":"stop",
				"time":{"created":2,"completed":3}},"parts":[{"id":"prt_1","type":"text","text":"Done."}]}]`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := bodies[r.URL.Path]
		if r.URL.Path == "/session/status" {
			body = `{}`
			if asked.Add(1) <= late {
				body = `{"ses_1":{"type":"busy"}}`
			}
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	client, err := opencode.Attach(t.Context(), server.URL, opencode.AttachConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)

	now := time.Now()
	tick := func() time.Time { now = now.Add(time.Minute); return now } // a minute per reading: nothing waits
	sub := client.Subscribe(opencode.Filter{Sessions: []string{"ses_1"}})
	defer sub.Close()
	e := bare(Config{Now: tick, After: time.After, Rules: &enforcer.Rules{ProviderRetries: -1}})
	tu := e.newTurn(boulder.Job{}, nil)
	tu.tree, tu.sub = session.NewTurn("ses_1", enforcer.Rules{}, nil), sub
	tu.conn, tu.dir, tu.asks.Tree = opencode.Connection{Client: client}, client.In(t.TempDir()), tu.tree.Tree
	tu.job.Recovered, tu.job.Attempt.SessionID, tu.job.Turn.MessageID = true, "ses_1", "msg_1"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a bound for the failure
	defer cancel()
	if ended, err := tu.pickUp(ctx); ended || err != nil {
		t.Fatalf("taken up: ended %v, %v", ended, err)
	}
	if err := tu.follow(ctx); err != nil {
		t.Fatal(err)
	}
	if n := asked.Load(); n != late+1 {
		t.Errorf("the statuses were read %d times, want %d", n, late+1)
	}
}

func TestDoubtFades(t *testing.T) {
	t.Parallel()
	n, now := 0, at(0)
	tu := bare(Config{Now: func() time.Time { return now }}).newTurn(boulder.Job{}, nil)
	for ; now.Before(at(30 * time.Minute)); n++ {
		tu.recheckSoon()
		now = tu.seen.recheck
	}
	if n > 11 {
		t.Errorf("asked %d times in half an hour", n)
	}
}

func at(d time.Duration) time.Time { return time.Unix(1_000_000, 0).Add(d) }
