package opencode_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/bouldermgr/manager/opencode"
)

// newFake attaches to a healthy fake with one more handler, for faults that the real server cannot be made to show.
func newFake(t *testing.T, cfg opencode.AttachConfig, pattern string, handler http.HandlerFunc) *opencode.Client {
	t.Helper()
	return attach(t, fakeServer(t, pattern, handler), cfg)
}

func fakeServer(t *testing.T, pattern string, handler http.HandlerFunc) (address string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /global/health", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, `{"healthy":true,"version":"1.18.33"}`)
	})
	if pattern != "" {
		mux.HandleFunc(pattern, handler)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func attach(t *testing.T, url string, cfg opencode.AttachConfig) *opencode.Client {
	t.Helper()
	client, err := opencode.Attach(t.Context(), url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close) // first: closing a fake waits for its connections
	return client
}

func writeJSON(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(body))
}

const hello = `data: {"payload":{"id":"evt_1","type":"server.connected","properties":{}}}` + "\n\n"

// stream sends each chunk as it is, and stays open until the client disconnects.
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

func newStream(t *testing.T, cfg opencode.AttachConfig, handler http.HandlerFunc) *opencode.Client {
	t.Helper()
	return newFake(t, cfg, "GET /global/event", handler)
}

// heldStream attaches to a fake that sends hello, and the chunks once release is called.
func heldStream(t *testing.T, chunks ...string) (c *opencode.Client, release func()) {
	t.Helper()
	begin := make(chan struct{})
	return newStream(t, opencode.AttachConfig{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, hello)
		_ = http.NewResponseController(w).Flush()
		<-begin
		stream(chunks...)(w, r)
	}), func() { close(begin) }
}

func rawEvent(directory, eventType, properties string) string {
	return fmt.Sprintf(`data: {"directory":%q,"payload":{"id":"evt_1","type":%q,"properties":%s}}`+"\n\n",
		directory, eventType, properties)
}

func todoEvent(content string) string {
	return rawEvent("/repo", "todo.updated", fmt.Sprintf(
		`{"sessionID":"ses_1","todos":[{"content":%q,"status":"pending","priority":"low"}]}`, content))
}

// todo matches a TodosUpdated whose first item has the content.
func todo(content string) func(opencode.Event) bool {
	return func(e opencode.Event) bool {
		p, ok := e.Payload.(opencode.TodosUpdated)
		return ok && p.Todos[0].Content == content
	}
}
