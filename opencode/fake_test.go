package opencode_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// newFake is an HTTP server that is healthy and otherwise behaves as told: it shows the faults that the real server
// cannot be made to have.
func newFake(t *testing.T, handlers map[string]http.HandlerFunc) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /global/health", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, `{"healthy":true,"version":"1.18.33"}`)
	})
	for pattern, handler := range handlers {
		mux.HandleFunc(pattern, handler)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func writeJSON(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(body))
}
