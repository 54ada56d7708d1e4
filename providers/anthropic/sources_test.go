package anthropic_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/anthropic"
	"github.com/bouldermgr/manager/providers/internal/adaptertest"
)

// The whole way from a reference to a request. What the process's own environment says to the SDK does not count: not
// parallel, because it sets it.
func TestRegistryToWire(t *testing.T) {
	for name, value := range map[string]string{
		"ANTHROPIC_BASE_URL": adaptertest.Trap(t), "ANTHROPIC_API_KEY": "of-the-process", "ANTHROPIC_AUTH_TOKEN": "token",
		"ANTHROPIC_PROFILE": "nobody", "ANTHROPIC_CUSTOM_HEADERS": "X-Extra: 1",
	} {
		t.Setenv(name, value)
	}
	var seen http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		adaptertest.JSON(says("end_turn", `{"type":"text","text":"yes"}`))(w, r)
	}))
	t.Cleanup(server.Close)

	getenv := adaptertest.Env(map[string]string{"ANTHROPIC_API_KEY": "given\n", "ANTHROPIC_BASE_URL": server.URL})
	resp := adaptertest.ByDefault(t, getenv, "anthropic/"+anthropic.DefaultModel,
		anthropic.Sources(getenv, anthropic.Options{HTTPClient: adaptertest.HTTPClient(t)})...)
	if resp.Text != "yes" || resp.Provider != "anthropic" || resp.Model != "m-1" {
		t.Errorf("got %+v", resp)
	}
	if seen.Get("X-Api-Key") != "given" || seen.Get("Authorization") != "" || seen.Get("X-Extra") != "" {
		t.Errorf("headers %v", seen)
	}
}

func TestBaseURL(t *testing.T) {
	t.Parallel()
	adaptertest.BaseURLWithSlash(t, open, "/v1/messages", says("end_turn", `{"type":"text","text":"yes"}`))
	adaptertest.BadBaseURLs(t, func(address string) error {
		_, err := anthropic.New(providers.NewKey("k"), anthropic.Options{BaseURL: address})
		return err
	})
}
