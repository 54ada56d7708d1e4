package gemini_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/gemini"
	"github.com/bouldermgr/manager/providers/internal/adaptertest"
)

// The whole way from a reference to a request. What the process's own environment says to the SDK does not count: not
// parallel, because it sets it.
func TestRegistryToWire(t *testing.T) {
	thief := adaptertest.Trap(t)
	for name, value := range map[string]string{
		"GOOGLE_GEMINI_BASE_URL": thief, "GOOGLE_VERTEX_BASE_URL": thief, "GOOGLE_API_KEY": "of-the-process",
		"GOOGLE_GENAI_USE_VERTEXAI": "1", "GOOGLE_GENAI_USE_ENTERPRISE": "1", "GOOGLE_CLOUD_PROJECT": "p",
		"GOOGLE_CLOUD_LOCATION": "us",
	} {
		t.Setenv(name, value)
	}
	var path string
	var seen http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, seen = r.URL.String(), r.Header.Clone()
		adaptertest.JSON(says("STOP", `{"text":"yes"}`))(w, r)
	}))
	t.Cleanup(server.Close)

	getenv := adaptertest.Env(map[string]string{"GEMINI_API_KEY": "given\n", "GOOGLE_GEMINI_BASE_URL": server.URL})
	resp := adaptertest.ByDefault(t, getenv, "google/"+gemini.DefaultModel,
		gemini.Sources(getenv, gemini.Options{HTTPClient: adaptertest.HTTPClient(t)})...)
	if resp.Text != "yes" || resp.Provider != "google" || resp.Model != "m-1" {
		t.Errorf("got %+v", resp)
	}
	if path != "/v1beta/models/"+gemini.DefaultModel+":generateContent" || seen.Get("X-Goog-Api-Key") != "given" {
		t.Errorf("path %s, headers %v", path, seen)
	}
}

func TestNewRefusesNoKey(t *testing.T) {
	t.Parallel()
	_, err := gemini.New(providers.Key{}, gemini.Options{})
	if err == nil || !strings.Contains(err.Error(), "GEMINI_API_KEY") {
		t.Errorf("no key: %v", err)
	}
}

func TestBaseURL(t *testing.T) {
	t.Parallel()
	adaptertest.BaseURLWithSlash(t, open, "/v1beta/models/m:generateContent", says("STOP", `{"text":"yes"}`))
	adaptertest.BadBaseURLs(t, func(address string) error {
		_, err := gemini.New(providers.NewKey("k"), gemini.Options{BaseURL: address})
		return err
	})
}
