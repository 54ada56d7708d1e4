package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
)

func ask(sessionID, id, permission string) opencode.Request {
	return opencode.Request{ID: id, SessionID: sessionID, Permission: permission}
}

// An ask is session, id, P (permission) or Q (question), and + allowed, - refused, w waits, ? undecided, * replied to.
func TestReplies(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ asks, want string }{ // in the notation above
		"nothing":                          {},
		"allowed before refused":           {"s1P- s2P+", "2 1"},
		"the newest refusal first":         {"s1P- s2P-", "2 1"},
		"a refusal waits":                  {"s1P- s2Pw s3P+", "3"},
		"and for what is not decided":      {"s1P- s2P?", ""},
		"but not for another session":      {"s1P- t2Pw", "1"},
		"nor for a question":               {"s1P- s2Qw", "1"},
		"a question sweeps none away":      {"s1Q- s2Pw", "1"},
		"and none of another's is due":     {"s1Pw t2P?", ""},
		"what was replied to is not again": {"s1P* s2P-", "2"},
	} {
		var asks []*Ruled
		for _, a := range strings.Fields(test.asks) {
			asks = append(asks, &Ruled{
				Request: ask(a[:1], a[1:2], strings.Trim(a[2:3], "Q")), done: a[3] == '*',
				Ruling: boulder.Ruling{Reply: map[byte]boulder.AskReply{
					'-': boulder.ReplyDiverted, '+': boulder.ReplyAllowed, 'w': boulder.ReplyWaiting, '*': boulder.ReplyAllowed,
				}[a[3]]},
			})
		}
		var got []string
		for _, r := range replies(asks) {
			got = append(got, r.ID)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, want %s", name, got, test.want)
		}
	}
}

// ruler is a Diverter that refuses the pattern "no" and makes everything else wait; then Ruling returns then and err.
type ruler struct {
	Diverter
	until time.Time
	then  boulder.Ruling
	err   error
	ended []string // "B1 replied" or "B1 gone"
}

func (*ruler) On(boulder.BlockerScope) bool       { return true }
func (*ruler) Diversion() boulder.Diversion       { return boulder.Diversion{} }
func (*ruler) Instruction(boulder.Blocker) string { return "Move on" }
func (r *ruler) Divert(_ context.Context, b boulder.Blocker) (boulder.Ruling, error) {
	if slices.Contains(b.Ask.Patterns, "no") {
		return boulder.Ruling{BlockerID: "B2", Reply: boulder.ReplyDiverted}, nil
	}
	return boulder.Ruling{BlockerID: "B1", Reply: boulder.ReplyWaiting, Until: r.until}, nil
}
func (r *ruler) Ruling(context.Context, boulder.BlockerScope, string) (boulder.Ruling, error) {
	return r.then, r.err
}
func (r *ruler) EndWait(_ context.Context, _ boulder.BlockerScope, id string, replied bool) error {
	r.ended = append(r.ended, id+map[bool]string{true: " replied", false: " gone"}[replied])
	return nil
}

var errNoReply = errors.New("told, and not replied to")

// waiting returns a stand-in with one permission that waits an hour for the user. Tell fails for all but that wait.
func waiting(t *testing.T, r *ruler) (s *StandIn, now *time.Time, asks []opencode.Request) {
	t.Helper()
	now = new(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	r.until, asks = now.Add(time.Hour), []opencode.Request{ask("s", "p", "bash")}
	s = &StandIn{
		Tree: NewTree("s", Cursor{}), Diverter: r, Redact: strings.TrimSpace, Now: func() time.Time { return *now }, Log: slog.New(slog.DiscardHandler),
	}
	s.Tell = func(_ context.Context, ruled []*Ruled) error {
		if len(ruled) != 1 || !ruled[0].Waits() {
			return errNoReply
		}
		return nil
	}
	if _, err := s.round(t.Context(), asks); err != nil || !s.Waits() || !s.Awaits("B1") {
		t.Fatalf("%v; waits: %v", err, s.Waits())
	}
	return s, now, asks
}

// A wait ends soon after its time, whatever the register says. Before that, a register that fails does not end it.
func TestWaitThatNobodyEnds(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*ruler{
		"the register fails":          {err: errors.New("the disk is full")},
		"the register waits for ever": {then: boulder.Ruling{Reply: boulder.ReplyWaiting}},
	} {
		s, now, asks := waiting(t, r)
		r.then.Until = r.until
		*now = r.until
		if _, err := s.round(t.Context(), asks); err != nil || !s.Waits() {
			t.Errorf("%s: it is over at its time: %v", name, err)
		}
		*now = r.until.Add(overdue + time.Second)
		if _, err := s.round(t.Context(), asks); !errors.Is(err, errNoReply) || s.Waits() {
			t.Errorf("%s: it goes on: %v", name, err)
		}
		if got := s.asks[0].Ruling; got.Reply != boulder.ReplyDiverted || got.BlockerID != "B1" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A wait is looked at once a second, and at once when the asks change. An ask that vanishes is recorded.
func TestNextRound(t *testing.T) {
	t.Parallel()
	r := &ruler{}
	s, now, asks := waiting(t, r)
	if got := s.next(asks, *now); got != now.Add(time.Second) {
		t.Errorf("it looks after %s", got.Sub(*now))
	}
	if got := s.next(append(asks, ask("s", "q", "")), *now); got != *now {
		t.Errorf("another ask waits for %s", got.Sub(*now))
	}
	if got := s.next(nil, *now); got != *now {
		t.Errorf("what is gone is noticed at %s", got)
	}
	if _, err := s.round(t.Context(), nil); err != nil || !slices.Equal(r.ended, []string{"B1 gone"}) || !s.next(nil, *now).IsZero() {
		t.Errorf("%v; ended: %v, next %s", err, r.ended, s.next(nil, *now))
	}
}

// A session that got the user's whole answer does not get it again. OpenCode takes no text with a granted permission, and
// an ask that is gone had no answer.
func TestEndOfAWait(t *testing.T) {
	t.Parallel()
	const gone = `{"name":"NotFoundError"}`
	for name, c := range map[string]struct {
		permission string
		then       boulder.Ruling
		answer     string // of the server
		want       string
	}{
		"allowed":           {"bash", boulder.Ruling{Reply: boulder.ReplyAllowed, ByUser: true}, "", "B1 replied"},
		"allowed, a text":   {"bash", boulder.Ruling{Reply: boulder.ReplyAllowed, ByUser: true, Message: "Once."}, "", ""},
		"refused":           {"bash", boulder.Ruling{Reply: boulder.ReplyDiverted, ByUser: true, Message: "No."}, "", "B1 replied"},
		"skipped":           {"bash", boulder.Ruling{Reply: boulder.ReplyDiverted, ByUser: true}, "", "B1 replied"},
		"answered":          {"", boulder.Ruling{Reply: boulder.ReplyAllowed, ByUser: true, Message: "Red."}, "", "B1 replied"},
		"time is over":      {"bash", boulder.Ruling{Reply: boulder.ReplyDiverted}, "", ""},
		"the ask is gone":   {"bash", boulder.Ruling{Reply: boulder.ReplyAllowed, ByUser: true}, gone, ""},
		"the end of a turn": {"bash", boulder.Ruling{Reply: boulder.ReplyWaiting}, "", "B1 gone"},
	} {
		r, now := &ruler{until: began.Add(time.Hour)}, began
		s := onServer(t, r, &now, func(req *http.Request) string {
			if req.Method == http.MethodPost {
				return c.answer
			}
			return "[]"
		})
		asks := []opencode.Request{ask("s", "p", c.permission)}
		if _, err := s.round(t.Context(), asks); err != nil || !s.Awaits("B1") {
			t.Fatalf("%s: %v", name, err)
		}
		r.then = c.then
		if _, err := s.round(t.Context(), asks); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s.End(t.Context())
		if got := strings.Join(r.ended, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// onServer returns a stand-in for the session s of a server that gives certain answers; "": true.
func onServer(t *testing.T, d Diverter, now *time.Time, answer func(*http.Request) string) *StandIn {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/global/health" {
			fmt.Fprint(w, `{"healthy":true,"version":"1.18.33"}`)
			return
		}
		said := answer(r)
		if strings.Contains(said, "NotFoundError") {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprint(w, cmp.Or(said, "true"))
	}))
	t.Cleanup(server.Close)
	client, err := opencode.Attach(t.Context(), server.URL, opencode.AttachConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &StandIn{
		Tree: NewTree("s", Cursor{}), Dir: client.In("/p"), Diverter: d, Now: func() time.Time { return *now },
		Tell:   func(context.Context, []*Ruled) error { return nil },
		Redact: strings.TrimSpace, Log: slog.New(slog.DiscardHandler),
	}
}

// OpenCode may send an ask before it has stored the call with its arguments.
func TestAskBeforeItsCall(t *testing.T) {
	t.Parallel()
	parts := []string{
		``, `{"id":"p","type":"tool","tool":"bash","callID":"c","state":{"status":"pending","input":{}}}`,
		`{"id":"p","type":"tool","tool":"bash","callID":"c","state":{"status":"running","input":{"command":"rm"}}}`,
	}
	now := began
	s := onServer(t, &ruler{}, &now, func(*http.Request) string {
		first := parts[0]
		parts = parts[min(1, len(parts)-1):]
		return `{"info":{"id":"m"},"parts":[` + first + `]}`
	})
	ask := ask("s", "p", "bash")
	ask.Tool = &opencode.ToolRef{MessageID: "m", CallID: "c"}
	if _, err := s.round(t.Context(), []opencode.Request{ask}); err != nil {
		t.Fatal(err)
	}
	if got := s.asks[0].blocker.Ask; got.Tool != "bash" || got.Arguments != `{"command":"rm"}` {
		t.Errorf("recorded %+v", got)
	}
}

// Of two simultaneous permissions, the one that waits for the user was in no event. The other's refusal would sweep it
// away, and is held back until the user has answered.
func TestRefusalSweepsNothingAway(t *testing.T) {
	t.Parallel()
	both := func(one string) string {
		return "[" + strings.ReplaceAll(one, "$", "no") + "," + strings.ReplaceAll(one, "$", "perhaps") + "]"
	}
	bodies := map[string]string{
		"/question": `[]`,
		"/permission": both(`{"id":"$","sessionID":"s","permission":"bash","patterns":["$"],
			"tool":{"messageID":"m","callID":"$"}}`),
		"/session/s/message/m": `{"info":{"id":"m"},"parts":` +
			both(`{"id":"$","type":"tool","tool":"bash","callID":"$","state":{"status":"running"}}`) + "}",
	}
	var replied []string
	r, now := &ruler{until: began.Add(time.Hour)}, began
	s := onServer(t, r, &now, func(req *http.Request) string {
		if req.Method == http.MethodPost {
			replied = append(replied, req.URL.Path)
		}
		return bodies[req.URL.Path]
	})
	for _, p := range []opencode.Payload{
		opencode.StatusChanged{Status: opencode.Status{Type: opencode.Busy}},
		opencode.Asked{Request: opencode.Request{
			ID: "no", SessionID: "s", Permission: "bash", Patterns: []string{"no"},
			Tool: &opencode.ToolRef{MessageID: "m", CallID: "no"},
		}},
	} {
		s.Tree.Take(opencode.Event{SessionID: "s", Payload: p}, now)
	}
	if _, _, err := s.Answer(t.Context()); err != nil || !s.Waits() || len(replied) != 0 {
		t.Fatalf("waits: %v, replied to %q, %v", s.Waits(), replied, err)
	}
	r.then, now = boulder.Ruling{Reply: boulder.ReplyAllowed}, now.Add(time.Minute)
	_, _, err := s.Answer(t.Context())
	if want := []string{"/permission/perhaps/reply", "/permission/no/reply"}; err != nil || !slices.Equal(replied, want) {
		t.Errorf("replied to %q, want %q; %v", replied, want, err)
	}
	if len(r.ended) != 0 {
		t.Errorf("swept away: %q", r.ended)
	}
}
