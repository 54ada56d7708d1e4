package fakeopencode

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tmaxmax/go-sse"
	"go.uber.org/goleak"

	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds waits that take milliseconds.
const patience = time.Minute

// world is a server with a scripted model. Every answer and event is checked against the schemas.
type world struct {
	*testing.T
	dir     string
	model   *scriptmodel.Server
	server  *Server
	http    *httptest.Server
	schemas *schemas
	environ map[string]string
	events  chan received
	stop    func() // stops the server in an orderly way
}

type received struct {
	Type    string
	Durable *durable
	Data    map[string]any
	Where   *locationRef `json:"location"`
}

func newWorld(t *testing.T, b Behaviour, model scriptmodel.Handler) *world {
	t.Helper()
	w := &world{T: t, dir: t.TempDir(), events: make(chan received, 10_000)}
	var err error
	if w.schemas, err = described(); err != nil {
		t.Fatal(err)
	}
	if w.model, err = scriptmodel.Start(model); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.model.Close)
	home := t.TempDir()
	w.environ = map[string]string{
		"PATH": "/usr/bin:/bin", "HOME": home, "XDG_DATA_HOME": home, "XDG_CONFIG_HOME": home,
		"OPENCODE_CONFIG_CONTENT": scriptmodel.OpenCodeConfig(w.model.URL()),
	}
	w.start(b)
	return w
}

func (w *world) start(b Behaviour) {
	w.Helper()
	if b.Retry == 0 {
		b.Retry = time.Millisecond
	}
	server, err := New(Config{Behaviour: b, Dir: w.dir, Environ: w.environ, Password: "secret"})
	if err != nil {
		w.Fatal(err)
	}
	w.server, w.http = server, httptest.NewServer(server.Handler())
	resp := w.send(http.MethodGet, "/api/event", nil)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer resp.Body.Close()
		for e, err := range sse.Read(resp.Body, nil) {
			if err != nil {
				return
			}
			if err := w.schemas.event([]byte(e.Data)); err != nil {
				w.Error(err)
			}
			var event received
			_ = json.Unmarshal([]byte(e.Data), &event) // validated above
			w.events <- event
		}
	})
	w.await("server.connected")
	stop := sync.OnceFunc(func() {
		w.http.CloseClientConnections()
		server.Close()
		w.http.Close()
		reading.Wait()
	})
	w.Cleanup(stop)
	w.stop = stop
}

func (w *world) send(method, path string, body any) *http.Response {
	w.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		w.Fatal(err)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, w.http.URL+path, bytes.NewReader(data))
	if err != nil {
		w.Fatal(err)
	}
	req.SetBasicAuth("opencode", "secret")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	return resp
}

// call requests an operation, whose path it fills in, and checks request and answer against the schemas.
func (w *world) call(operation string, status int, body any, out any, path ...string) {
	w.Helper()
	i := slices.IndexFunc(routes, func(r route) bool { return r.operation == operation })
	if i < 0 {
		w.Fatalf("no operation %s", operation)
	}
	method, pattern, _ := strings.Cut(routes[i].pattern, " ")
	for _, element := range path {
		before, rest, placeholder := strings.Cut(pattern, "{")
		if !placeholder {
			pattern += "?" + element
			continue
		}
		_, after, _ := strings.Cut(rest, "}")
		pattern = before + url.PathEscape(element) + after
	}
	if body != nil {
		sent, _ := json.Marshal(body)
		if err := w.schemas.check(w.schemas.Operations[operation].Request, sent); err != nil {
			w.Fatalf("%s: %v: %s", operation, err, sent)
		}
	}
	resp := w.send(method, pattern, body)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	if resp.StatusCode != status {
		w.Fatalf("%s: HTTP %d, want %d: %s", operation, resp.StatusCode, status, got)
	}
	if err := w.schemas.answer(operation, status, got); err != nil {
		w.Error(err)
	}
	if out != nil {
		var wrapped struct{ Data json.RawMessage }
		_ = json.Unmarshal(got, &wrapped)
		if wrapped.Data == nil {
			wrapped.Data = got
		}
		if err := json.Unmarshal(wrapped.Data, out); err != nil {
			w.Fatalf("%s: %v: %s", operation, err, got)
		}
	}
}

func (w *world) session(more fields) string {
	w.Helper()
	in := fields{"title": "a title", "location": fields{"directory": w.dir}}
	for name, value := range more {
		in[name] = value
	}
	var x sessionInfo
	w.call("session.create", 200, in, &x)
	return x.ID
}

func (w *world) prompt(sessionID, id, text string) {
	w.Helper()
	w.call("session.prompt", 200, fields{"id": id, "text": text}, nil, sessionID)
}

// waiting counts the prompts in the inbox.
func (w *world) waiting(sessionID string) int {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	return len(w.server.sessions[sessionID].Inbox)
}

// await returns the events up to the first of the type.
func (w *world) await(eventType string) (all []received) {
	w.Helper()
	return w.awaitIn("", eventType)
}

func (w *world) awaitIn(sessionID, eventType string) (all []received) {
	w.Helper()
	for {
		select {
		case e := <-w.events:
			all = append(all, e)
			if e.Type == eventType && (sessionID == "" || e.Data["sessionID"] == sessionID) {
				return all
			}
		case <-time.After(patience):
			w.Fatalf("no %s came, but %v", eventType, types(all))
		}
	}
}

func types(events []received) (names []string) {
	for _, e := range events {
		if !strings.HasSuffix(e.Type, ".delta") {
			names = append(names, strings.TrimPrefix(e.Type, "session."))
		}
	}
	return names
}

func (w *world) messages(sessionID string) (all []*message) {
	w.Helper()
	w.call("session.message.list", 200, nil, &all, sessionID, "order=asc&limit=200")
	return all
}

// kinds lists the types of a session's messages, and how each ended.
func (w *world) kinds(sessionID string) string {
	w.Helper()
	var all []string
	for _, m := range w.messages(sessionID) {
		kind := m.Type
		for _, more := range []string{m.Finish, m.Outcome} {
			if more != "" {
				kind += ":" + more
			}
		}
		if m.Error != nil {
			kind += "!" + m.Error.Type
		}
		all = append(all, kind)
	}
	return strings.Join(all, " ")
}

var steps = scriptmodel.Steps

func calls(each ...scriptmodel.ToolCall) scriptmodel.Reply { return scriptmodel.Reply{ToolCalls: each} }

func use(name string, args fields) scriptmodel.ToolCall {
	return scriptmodel.ToolCall{Name: name, Args: map[string]any(args)}
}
