// Package adaptertest holds what the tests of the adapters that talk HTTP have in common: servers that answer in a
// certain way, and what has to hold for each adapter in its own provider's words. The contract that is the same word
// for word is tested by providerstest.
package adaptertest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/adapter"
)

// Open makes the adapter for a server at baseURL. client is to be used for all requests.
type Open = func(t testing.TB, baseURL string, key providers.Key, client *http.Client) providers.Completer

// With is Open for the constructor of an adapter.
func With(open func(providers.Key, adapter.Options) (providers.Completer, error)) Open {
	return func(t testing.TB, baseURL string, key providers.Key, client *http.Client) providers.Completer {
		t.Helper()
		c, err := open(key, adapter.Options{BaseURL: baseURL, HTTPClient: client})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}

// At opens the adapter for a server that runs handler.
func At(t testing.TB, open Open, handler http.Handler) providers.Completer {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return open(t, server.URL, providers.NewKey("not-a-real-key"), HTTPClient(t))
}

// HTTPClient makes a client of its own, whose connections are closed when the test ends.
func HTTPClient(t testing.TB) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// JSON answers every request with body.
func JSON(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// Ask is a question to the model "m".
func Ask() *providers.Request {
	return &providers.Request{
		Model:    "m",
		Messages: []providers.Message{{Role: providers.RoleUser, Text: "Is it done?"}},
		Schema:   json.RawMessage(`{"type":"object"}`),
	}
}

// Fails makes a call that has to fail with a [*providers.Error] and without an answer.
func Fails(t testing.TB, c providers.Completer, req *providers.Request) *providers.Error {
	t.Helper()
	resp, err := c.Complete(t.Context(), req)
	failure, ok := errors.AsType[*providers.Error](err)
	if !ok {
		t.Fatalf("got %+v and error %v, want a *providers.Error", resp, err)
	}
	if resp != nil {
		t.Errorf("got an answer with the error: %+v", resp)
	}
	return failure
}
