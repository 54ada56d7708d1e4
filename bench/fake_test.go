package main

import (
	"net/http/httptest"
	"testing"
)

// TestTurnsOnTheFake would fail if the fake were no OpenCode to the manager, or ended a turn with less than it was
// told.
func TestTurnsOnTheFake(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ events, messages int }{{0, 1}, {0, 200_000}, {1_000_000, 0}} {
		f := &fakeServer{
			ctx: t.Context(), events: test.events, messages: test.messages, together: 1,
			ready: make(chan struct{}), sessions: map[string]*fakeSession{},
		}
		server := httptest.NewServer(f.routes())
		turns, err := newTurns(t.Context(), server.URL, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := turns.first(t.Context(), 1); err != nil {
			t.Errorf("%+v: %v", test, err)
		}
		first := held(f, turns)
		if err := turns.next(t.Context()); err != nil {
			t.Errorf("%+v, next turn: %v", test, err)
		}
		turns.client.Close()
		server.Close()
		next := held(f, turns) - first
		if first < test.messages || next < min(test.messages, ordinary) || next > 3*ordinary {
			t.Errorf("%+v: %d bytes of messages, then %d", test, first, next)
		}
	}
}

// held is the size of the session's messages.
func held(f *fakeServer, t *turns) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	size := 0
	for _, m := range f.sessions[t.job.Attempt.SessionID].messages {
		size += len(m)
	}
	return size
}

func TestBothLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ours, theirs, most float64
		want               bool
	}{{1, 4, 1, true}, {1.1, 4, 1, false}, {1, 1, 2, false}, {3, 8, unbounded, true}} {
		c := comparison{
			ours: side{results: []float64{test.ours}}, theirs: side{results: []float64{test.theirs}},
			format: seconds, limit: 0.5, most: test.most,
		}
		if got := c.pass(); got != test.want {
			t.Errorf("%+v: pass = %v", test, got)
		}
	}
	c := comparison{format: milliseconds, limit: 1, most: 0.005}
	if got := c.bound(); got != "≤ 1.00 and ≤ 5.0 ms" {
		t.Errorf("the limit is shown as %q", got)
	}
}
