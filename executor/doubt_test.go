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
)

// The idle event came before the turn was taken up again, and the statuses are late. No rule ends the turn here: who
// believes them waits for ever. A fake, because the real server is late by less than can be hit.
func TestStatusesThatAreLate(t *testing.T) {
	t.Parallel()
	const late = 5 // answers
	var asked atomic.Int64
	mux := http.NewServeMux()
	answer := func(pattern string, body func() string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, body())
		})
	}
	answer("GET /global/health", func() string { return `{"healthy":true,"version":"1.18.33"}` })
	answer("GET /session/status", func() string {
		if asked.Add(1) <= late {
			return `{"ses_1":{"type":"busy"}}`
		}
		return `{}`
	})
	answer("GET /session/ses_1", func() string { return `{"id":"ses_1"}` })
	for _, none := range []string{"/session/ses_1/children", "/session/ses_1/todo", "/permission", "/question"} {
		answer("GET "+none, func() string { return `[]` })
	}
	answer("GET /session/ses_1/message", func() string {
		return `[{"info":{"id":"msg_1","role":"user","sessionID":"ses_1","time":{"created":1}},"parts":[]},
			{"info":{"id":"msg_2","role":"assistant","sessionID":"ses_1","parentID":"msg_1","finish":"stop",
				"time":{"created":2,"completed":3}},"parts":[{"id":"prt_1","type":"text","text":"Done."}]}]`
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	client, err := opencode.Attach(t.Context(), server.URL, opencode.AttachConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)

	now := time.Now()
	tick := func() time.Time { now = now.Add(time.Minute); return now } // nobody waits for the clock
	sub := client.Subscribe(opencode.Filter{Sessions: []string{"ses_1"}})
	defer sub.Close()
	e := bare(Config{Now: tick, After: time.After, Rules: &enforcer.Rules{ProviderRetries: -1}})
	tu := e.newTurn(boulder.Job{}, nil)
	tu.tree, tu.sub = session.NewTurn("ses_1", enforcer.Rules{}, nil), sub
	tu.conn, tu.dir = opencode.Connection{Client: client}, client.In(t.TempDir())
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

// A turn that is at work for long is not asked about all the time.
func TestDoubtFades(t *testing.T) {
	t.Parallel()
	n, now := 0, at(0)
	tu := bare(Config{Now: func() time.Time { return now }}).newTurn(boulder.Job{}, nil)
	for ; now.Before(at(30 * time.Minute)); n++ {
		tu.doubt()
		now = tu.seen.recheck
	}
	if n > 11 {
		t.Errorf("asked %d times in half an hour", n)
	}
}

func at(d time.Duration) time.Time { return time.Unix(1_000_000, 0).Add(d) }
