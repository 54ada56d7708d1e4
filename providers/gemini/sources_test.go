package gemini_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/gemini"
)

// The whole way from a reference to a request. What the process's own environment says to the SDK does not count: not
// parallel, because it sets it.
func TestRegistryToWire(t *testing.T) {
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the environment led the request away, headers %v", r.Header)
	}))
	t.Cleanup(thief.Close)
	for name, value := range map[string]string{
		"GOOGLE_GEMINI_BASE_URL": thief.URL, "GOOGLE_VERTEX_BASE_URL": thief.URL, "GOOGLE_API_KEY": "of-the-process",
		"GOOGLE_GENAI_USE_VERTEXAI": "1", "GOOGLE_GENAI_USE_ENTERPRISE": "1", "GOOGLE_CLOUD_PROJECT": "p",
		"GOOGLE_CLOUD_LOCATION": "us",
	} {
		t.Setenv(name, value)
	}
	var path string
	var seen http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, seen = r.URL.String(), r.Header.Clone()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(says("STOP", `{"text":"yes"}`)))
	}))
	t.Cleanup(server.Close)

	env := map[string]string{"GEMINI_API_KEY": "given\n", "GOOGLE_GEMINI_BASE_URL": server.URL}
	getenv := func(name string) string { return env[name] }
	r, err := providers.NewRegistry(providers.RegistryConfig{Getenv: getenv},
		gemini.Sources(getenv, gemini.Options{HTTPClient: httpClient(t)})...)
	if err != nil {
		t.Fatal(err)
	}
	ref, ok := r.Default()
	if !ok || ref.String() != "google/"+gemini.DefaultModel {
		t.Errorf("default %s", ref)
	}
	c, err := r.Completer(ref)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Complete(t.Context(), &providers.Request{Messages: ask().Messages})
	if err != nil || resp.Text != "yes" || resp.Provider != "google" || resp.Model != "m-1" {
		t.Fatalf("got %+v, %v", resp, err)
	}
	if path != "/v1beta/models/"+gemini.DefaultModel+":generateContent" || seen.Get("X-Goog-Api-Key") != "given" {
		t.Errorf("path %s, headers %v", path, seen)
	}
}

// An auth error names the variable that the refused key is in.
func TestErrorNamesTheKeysVariable(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	for variable, env := range map[string]map[string]string{
		"GEMINI_API_KEY": {"GEMINI_API_KEY": "a", "GOOGLE_API_KEY": "b"},
		"GOOGLE_API_KEY": {"GEMINI_API_KEY": " ", "GOOGLE_API_KEY": "b"},
	} {
		getenv := func(name string) string { return env[name] }
		r, err := providers.NewRegistry(providers.RegistryConfig{Getenv: getenv},
			gemini.Sources(getenv, gemini.Options{BaseURL: server.URL, HTTPClient: httpClient(t)})...)
		if err != nil {
			t.Fatal(err)
		}
		c, err := r.Completer(providers.ModelRef{Provider: "google", Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		if failure := failing(t, c, ask()); failure.KeyEnv != variable || !strings.Contains(failure.Error(), variable) {
			t.Errorf("want %s: %v", variable, failure)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	_, err := gemini.New(providers.Key{}, gemini.Options{})
	if err == nil || !strings.Contains(err.Error(), "GEMINI_API_KEY") {
		t.Errorf("no key: %v", err)
	}
	for _, address := range []string{"localhost:8080", "https://user:pw@host", "https://host?key=1"} {
		_, err := gemini.New(providers.NewKey("k"), gemini.Options{BaseURL: address})
		if err == nil || !strings.Contains(err.Error(), "base URL") || strings.Contains(err.Error(), "pw") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
