package opencode_test

import (
	"errors"
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

	"github.com/bouldermgr/manager/opencode"
)

const hello = `data: {"payload":{"id":"evt_1","type":"server.connected","properties":{}}}` + "\n\n"

// stream is a fake's event stream: each string is sent as it is. It stays open until the client or the test goes.
func stream(chunks ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, chunk := range chunks {
			_, _ = io.WriteString(w, chunk)
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}
}

// streamFrom says hello, and the rest once begin is closed.
func streamFrom(begin <-chan struct{}, chunks ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, hello)
		_ = http.NewResponseController(w).Flush()
		<-begin
		stream(chunks...)(w, r)
	}
}

func todoEvent(content string) string {
	return fmt.Sprintf(`data: {"directory":"/repo","payload":{"id":"evt_2","type":"todo.updated","properties":`+
		`{"sessionID":"ses_1","todos":[{"content":%q,"status":"pending","priority":"low"}]}}}`+"\n\n", content)
}

func subscribe(t *testing.T, handler http.HandlerFunc, cfg opencode.AttachConfig) *opencode.Subscription {
	t.Helper()
	fake := newFake(t, map[string]http.HandlerFunc{"GET /global/event": handler})
	client := attach(t, fake.URL, cfg)
	t.Cleanup(client.Close) // before the fake waits for its connections
	return client.Subscribe(opencode.Filter{})
}

func TestStreamSurvivesGarbage(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10<<20)
	sub := subscribe(t, stream(hello,
		"data: {{{\n\n", "data: null\n\n", ": a comment\n\n", "event: x\n\n",
		`data: {"payload":{"type":"todo.updated","properties":{"todos":"none"}}}`+"\n\n",
		`data: {"payload":{"type":"message.part.delta","properties":{"delta":"a"}}}`+"\n\n",
		`data: {"payload":{"type":"never.heard.of","properties":{"sessionID":"ses_1","x":1}}}`+"\n\n",
		todoEvent(long), todoEvent("last"),
	), opencode.AttachConfig{})
	events := await(waiting(t), t, sub, func(e opencode.Event) bool {
		p, ok := e.Payload.(opencode.TodosUpdated)
		return ok && p.Todos[0].Content == "last"
	})
	if len(events) != 4 || !is[opencode.Resync](events[0]) {
		t.Fatalf("events: %s", kinds(events))
	}
	unknown, ok := events[1].Payload.(opencode.Unknown)
	if !ok || unknown.Type != "never.heard.of" || events[1].SessionID != "ses_1" || len(unknown.Properties) == 0 {
		t.Errorf("the unknown event is %+v", events[1])
	}
	// What is too long for an event is cut, and costs nothing else.
	if got := events[2].Payload.(opencode.TodosUpdated).Todos[0].Content; got != long[:64<<10] {
		t.Errorf("of the long event %d bytes came", len(got))
	}
}

func TestSilentStreamIsReplaced(t *testing.T) {
	t.Parallel()
	sub := subscribe(t, stream(hello), opencode.AttachConfig{EventSilence: 50 * time.Millisecond})
	ctx := waiting(t)
	events := await(ctx, t, sub, is[opencode.Disconnected])
	err := events[len(events)-1].Payload.(opencode.Disconnected).Err
	if !errors.Is(err, opencode.ErrUnavailable) || !strings.Contains(err.Error(), "heartbeat") {
		t.Errorf("the reason is %v", err)
	}
	await(ctx, t, sub, is[opencode.Resync])
}

func TestStreamThatIsNoneIsTriedAgain(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	tries := 0
	sub := subscribe(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		tries++
		n := tries
		mu.Unlock()
		switch n {
		case 1:
			writeJSON(w, "{}")
		case 2:
			w.WriteHeader(http.StatusInternalServerError)
		case 3:
			panic(http.ErrAbortHandler)
		default:
			stream(hello)(w, r)
		}
	}, opencode.AttachConfig{})
	events := await(waiting(t), t, sub, is[opencode.Resync])
	if len(events) != 1 { // nothing was connected, so nothing was lost
		t.Errorf("events: %s", kinds(events))
	}
}

// One reader that does not read must cost the others nothing, and must learn that it missed something.
func TestSlowSubscriberGetsAResync(t *testing.T) {
	t.Parallel()
	const many = 3000
	begin := make(chan struct{})
	fake := newFake(t, map[string]http.HandlerFunc{
		"GET /global/event": streamFrom(begin, strings.Repeat(todoEvent("again"), many-1)+todoEvent("last")),
	})
	client := attach(t, fake.URL, opencode.AttachConfig{})
	t.Cleanup(client.Close)
	ctx := waiting(t)
	slow, fast := client.Subscribe(opencode.Filter{}), client.Subscribe(opencode.Filter{})
	await(ctx, t, slow, is[opencode.Resync])
	await(ctx, t, fast, is[opencode.Resync])
	close(begin)
	last := func(e opencode.Event) bool {
		p, ok := e.Payload.(opencode.TodosUpdated)
		return ok && p.Todos[0].Content == "last"
	}
	await(ctx, t, fast, last)
	events := await(ctx, t, slow, last)
	if len(events) >= many || !slices.ContainsFunc(events, is[opencode.Resync]) {
		t.Errorf("the slow reader got %d events", len(events))
	}
	if !is[opencode.Resync](events[0]) {
		t.Error("events from before the gap came after it was announced")
	}
}

func TestSubscriptionsEnd(t *testing.T) {
	t.Parallel()
	fake := newFake(t, map[string]http.HandlerFunc{"GET /global/event": stream(hello)})
	client := attach(t, fake.URL, opencode.AttachConfig{})
	one, two := client.Subscribe(opencode.Filter{}), client.Subscribe(opencode.Filter{})
	one.Close()
	one.Close()
	await(waiting(t), t, two, is[opencode.Resync])
	client.Close()
	client.Close()
	for name, sub := range map[string]*opencode.Subscription{
		"closed": one, "of a closed client": two, "made afterwards": client.Subscribe(opencode.Filter{}),
	} {
		for e := range sub.C() { // which ends
			if !is[opencode.Resync](e) {
				t.Errorf("%s: %v", name, e)
			}
		}
	}
}

// Subscribing late must not leave the subscriber without its starting point.
func TestLateSubscriberIsToldToRead(t *testing.T) {
	t.Parallel()
	s := newScene(t, steps())
	s.follow(s.dir.Client())
	s.follow(s.dir.Client())
}

// A cut between this client and the real server costs a Resync and nothing else.
func TestResyncAfterACut(t *testing.T) {
	t.Parallel()
	s := newScene(t, steps(bash("true")))
	target, err := url.Parse(s.dir.Client().URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(httputil.NewSingleHostReverseProxy(target))
	t.Cleanup(proxy.Close)
	client := shared.server.Through(t, proxy.URL)
	session := s.session()
	sub := s.follow(client, session.ID)
	proxy.CloseClientConnections()
	await(s.ctx, t, sub, is[opencode.Disconnected])
	await(s.ctx, t, sub, is[opencode.Resync])
	s.send(session.ID, "go")
	events := await(s.ctx, t, sub, status(opencode.Idle))
	if !slices.ContainsFunc(events, tool(opencode.ToolCompleted)) {
		t.Errorf("after the cut came %s", kinds(events))
	}
}

// An event that never ends is given up: the connection is made again, and what comes then is heard.
func TestEventWithoutEndIsGivenUp(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	fake := newFake(t, map[string]http.HandlerFunc{"GET /global/event": func(w http.ResponseWriter, r *http.Request) {
		if connections.Add(1) > 1 {
			stream(hello, todoEvent("after"))(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, err := io.WriteString(w, hello+`data: {"payload":{"type":"x","properties":{"a":"`)
		for err == nil {
			_, err = io.WriteString(w, strings.Repeat("a", 1000))
		}
	}})
	client := attach(t, fake.URL, opencode.AttachConfig{})
	client.LimitEvents(100_000)
	sub := client.Subscribe(opencode.Filter{})
	t.Cleanup(sub.Close)
	await(waiting(t), t, sub, is[opencode.Disconnected])
	await(waiting(t), t, sub, is[opencode.TodosUpdated])
}
