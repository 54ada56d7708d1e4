package opencode_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/opencode"
)

// All messages of a long session arrive, as one list or one by one, and the caller may stop early.
func TestLongSession(t *testing.T) {
	t.Parallel()
	const each, n = 100 << 10, 50
	output := strings.Repeat("x", each)
	dir := newFake(t, opencode.AttachConfig{}, "GET /session/{id}/message", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := range n {
			fmt.Fprintf(w, `%c{"info":{"id":"m%d"},"parts":[{"id":"p","type":"tool","state":{"output":%q}}]}`,
				"[,"[min(i, 1)], i, output)
		}
		_, _ = io.WriteString(w, "]")
	}).In("/repo")
	all, err := dir.Messages(t.Context(), "ses_1", n)
	if err != nil || len(all) != n || all[n-1].Info.ID != "m49" || all[n-1].Parts[0].Tool.Output != output {
		t.Fatalf("%d messages, %v", len(all), err)
	}
	seen := 0
	for m, err := range dir.EachMessage(t.Context(), "ses_1") {
		if err != nil || m.Info.ID != all[seen].Info.ID || m.Parts[0].Tool.Output != output {
			t.Fatalf("message %d is %s, %v", seen, m.Info.ID, err)
		}
		if seen++; seen == n-1 {
			break
		}
	}
	if seen != n-1 {
		t.Errorf("%d messages came", seen)
	}
}

// A truncated, broken, missing or hung message list yields the messages before the fault, then an error.
func TestMessagesThatBreakOff(t *testing.T) {
	t.Parallel()
	const one = `[{"info":{"id":"m1"},"parts":[]}`
	for name, test := range map[string]struct {
		body  string
		after http.HandlerFunc
		came  int
		want  error
	}{
		"connection cut": {one + `,{"info":`, cut, 1, opencode.ErrUnavailable},
		"hung":           {one + `,`, hang, 1, opencode.ErrUnavailable},
		"unfinished":     {one, nil, 1, nil},
		"no JSON":        {one + `{{{`, nil, 1, nil},
		"no list":        {`{}`, nil, 0, nil},
		"no object":      {`[7]`, nil, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := opencode.AttachConfig{}
			if name == "hung" {
				cfg.CallTimeout = 200 * time.Millisecond
			}
			dir := newFake(t, cfg, "GET /session/{id}/message", func(w http.ResponseWriter, r *http.Request) {
				writeJSON(w, test.body)
				if test.after != nil {
					_ = http.NewResponseController(w).Flush()
					test.after(w, r)
				}
			}).In("/repo")
			_, err := dir.Messages(t.Context(), "ses_1", 9)
			if err == nil || errors.Is(err, opencode.ErrUnavailable) != (test.want != nil) {
				t.Errorf("all at once: %v", err)
			}
			came := 0
			var last error
			for m, err := range dir.EachMessage(t.Context(), "ses_1") {
				if last = err; err == nil && m.Info.ID == "m1" {
					came++
				}
			}
			if came != test.came || last == nil || errors.Is(last, opencode.ErrUnavailable) != (test.want != nil) {
				t.Errorf("one at a time: %d came, %v", came, last)
			}
		})
	}
}

// Ask gives up after its own timeout, which leaves a busy machine the time to make a session, and deletes the session.
func TestAskOfAHungServer(t *testing.T) {
	t.Parallel()
	deleted := make(chan string, 1)
	dir := newFake(t, opencode.AttachConfig{}, "/", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // net/http notices that the caller left only after that
		switch {
		case strings.HasSuffix(r.URL.Path, "/message"):
			hang(w, r)
		case r.Method == http.MethodDelete:
			deleted <- r.URL.Path
		}
		writeJSON(w, `{"id":"ses_1"}`)
	}).In("/repo")
	_, err := dir.Ask(t.Context(), opencode.AskRequest{Timeout: 3 * time.Second})
	if !errors.Is(err, opencode.ErrUnavailable) {
		t.Errorf("the error is %v", err)
	}
	if path := <-deleted; path != "/session/ses_1" {
		t.Errorf("deleted: %s", path)
	}
}
