package anthropic_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/anthropic"
)

// The whole way from a reference to a request. What the process's own environment says to the SDK does not count: not
// parallel, because it sets it.
func TestRegistryToWire(t *testing.T) {
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the environment led the request away, headers %v", r.Header)
	}))
	t.Cleanup(thief.Close)
	for name, value := range map[string]string{
		"ANTHROPIC_BASE_URL": thief.URL, "ANTHROPIC_API_KEY": "of-the-process", "ANTHROPIC_AUTH_TOKEN": "token",
		"ANTHROPIC_PROFILE": "nobody", "ANTHROPIC_CUSTOM_HEADERS": "X-Extra: 1",
	} {
		t.Setenv(name, value)
	}
	var seen http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(says("end_turn", `{"type":"text","text":"yes"}`)))
	}))
	t.Cleanup(server.Close)

	env := map[string]string{"ANTHROPIC_API_KEY": "given\n", "ANTHROPIC_BASE_URL": server.URL}
	getenv := func(name string) string { return env[name] }
	r, err := providers.NewRegistry(providers.RegistryConfig{Getenv: getenv},
		anthropic.Sources(getenv, anthropic.Options{HTTPClient: httpClient(t)})...)
	if err != nil {
		t.Fatal(err)
	}
	ref, ok := r.Default()
	if !ok || ref.String() != "anthropic/"+anthropic.DefaultModel {
		t.Errorf("default %s", ref)
	}
	c, err := r.Completer(ref)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Complete(t.Context(), &providers.Request{Messages: ask().Messages})
	if err != nil || resp.Text != "yes" || resp.Provider != "anthropic" || resp.Model != "m-1" {
		t.Fatalf("got %+v, %v", resp, err)
	}
	if seen.Get("X-Api-Key") != "given" || seen.Get("Authorization") != "" || seen.Get("X-Extra") != "" {
		t.Errorf("headers %v", seen)
	}
}

func TestBadBaseURL(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"localhost:8080", "https://user:pw@host", "https://host?key=1"} {
		_, err := anthropic.New(providers.NewKey("k"), anthropic.Options{BaseURL: address})
		if err == nil || !strings.Contains(err.Error(), "base URL") || strings.Contains(err.Error(), "pw") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
