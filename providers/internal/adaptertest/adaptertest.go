// Package adaptertest has helpers for tests of adapters that use HTTP: servers with fixed answers, and checks that each
// adapter runs with its own provider's bodies. Package providerstest tests the provider-independent contract.
package adaptertest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/adapter"
)

// Open creates the adapter for a server at baseURL. It must use client for all requests.
type Open = func(t testing.TB, baseURL string, key providers.Key, client *http.Client) providers.Completer

// With turns a constructor into an Open.
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

// HTTPClient returns a separate client, whose connections are closed when the test ends.
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

// Ask returns a question to the model "m".
func Ask() *providers.Request {
	return &providers.Request{
		Model:    "m",
		Messages: []providers.Message{{Role: providers.RoleUser, Text: "Is it done?"}},
		Schema:   json.RawMessage(`{"type":"object"}`),
	}
}

// Fails makes a call that must fail with a [*providers.Error] and without an answer.
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

// Env reads from a map instead of the process's environment.
func Env(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

// Trap returns the address of a server that must get no requests.
func Trap(t testing.TB) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the request was led away, headers %v", r.Header)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Seen returns the address of a server that answers with body, and its last request.
func Seen(t testing.TB, body string) (string, *http.Request) {
	t.Helper()
	var seen http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = *r.Clone(context.Background())
		JSON(body)(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, &seen
}

// ByName asks a model (PROVIDER/MODEL) of a source through a registry.
func ByName(t testing.TB, getenv func(string) string, name string, source providers.Source) *providers.Response {
	t.Helper()
	r, err := providers.NewRegistry(providers.RegistryConfig{Getenv: getenv}, source)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := providers.ParseModel(name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.Completer(ref)
	if err != nil {
		t.Fatal(err)
	}
	req := Ask()
	req.Model = ""
	resp, err := c.Complete(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// BadBaseURLs tests that invalid addresses, and those with a secret, are refused without repeating the secret.
func BadBaseURLs(t testing.TB, open func(address string) error) {
	t.Helper()
	for _, address := range []string{"localhost:8080", "https://user:pw@host", "https://host?key=1"} {
		err := open(address)
		if err == nil || !strings.Contains(err.Error(), "base URL") || strings.Contains(err.Error(), "pw") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// BaseURLWithSlash tests that an address may end with a slash: requests still go to path.
func BaseURLWithSlash(t testing.TB, open Open, path, answer string) {
	t.Helper()
	slashed := func(t testing.TB, baseURL string, key providers.Key, client *http.Client) providers.Completer {
		return open(t, baseURL+"/", key, client)
	}
	c := At(t, slashed, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			t.Errorf("path %s", r.URL.Path)
		}
		JSON(answer)(w, r)
	}))
	if _, err := c.Complete(t.Context(), Ask()); err != nil {
		t.Error(err)
	}
}
