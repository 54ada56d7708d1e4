package openai_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/adaptertest"
	"github.com/bouldermgr/manager/providers/openai"
)

func registry(t *testing.T, env map[string]string, endpoints ...openai.Endpoint) *providers.Registry {
	t.Helper()
	sources, err := openai.Sources(adaptertest.Env(env), endpoints, openai.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := providers.NewRegistry(providers.RegistryConfig{Getenv: adaptertest.Env(env)}, sources...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSourcesFromEnvironment(t *testing.T) {
	t.Parallel()
	local := openai.Endpoint{Name: "ollama", BaseURL: "http://127.0.0.1:11434/v1", Model: "qwen3"}
	keyed := openai.Endpoint{Name: "router", BaseURL: "https://router.example/v1", KeyEnv: "ROUTER_KEY"}
	tests := map[string]struct {
		env       map[string]string
		endpoints []openai.Endpoint
		names     []string
		preferred string
	}{
		"nothing": {},
		"openai": {
			map[string]string{"OPENAI_API_KEY": "k"}, nil, []string{"openai"}, "openai/" + openai.DefaultOpenAIModel,
		},
		"xai": {
			map[string]string{"XAI_API_KEY": "k"}, nil, []string{"xai"}, "xai/" + openai.DefaultXAIModel,
		},
		"blank key":    {env: map[string]string{"OPENAI_API_KEY": " \n"}},
		"others' keys": {env: map[string]string{"ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k"}},
		"endpoints": {
			map[string]string{"ROUTER_KEY": "k"}, []openai.Endpoint{keyed, local}, []string{"router", "ollama"}, "ollama/qwen3",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := registry(t, tt.env, tt.endpoints...)
			if got := r.Names(); !slices.Equal(got, tt.names) {
				t.Errorf("available %v, want %v", got, tt.names)
			}
			if ref, _ := r.Default(); ref.String() != tt.preferred {
				t.Errorf("default %q, want %q", ref, tt.preferred)
			}
		})
	}
}

// The whole way from a reference to a request, with the address from the environment.
func TestRegistryToWire(t *testing.T) {
	t.Parallel()
	var path, auth, model string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Model string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		path, auth, model = r.URL.Path, r.Header.Get("Authorization"), body.Model
		adaptertest.JSON(fine)(w, r)
	}))
	t.Cleanup(server.Close)
	env := map[string]string{"OPENAI_API_KEY": "key-from-env\n", "OPENAI_BASE_URL": server.URL + "/v1"}
	options := openai.Options{HTTPClient: adaptertest.HTTPClient(t)}
	sources, err := openai.Sources(adaptertest.Env(env), nil, options)
	if err != nil {
		t.Fatal(err)
	}
	r, err := providers.NewRegistry(providers.RegistryConfig{Getenv: adaptertest.Env(env)}, sources...)
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.Completer(providers.ModelRef{Provider: "openai", Model: "vendor/model"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Complete(t.Context(), &providers.Request{Messages: adaptertest.Ask().Messages}); err != nil {
		t.Fatal(err)
	}
	if path != "/v1/chat/completions" || auth != "Bearer key-from-env" || model != "vendor/model" {
		t.Errorf("path %q, authorization %q, model %q", path, auth, model)
	}
}

func TestEndpointValidation(t *testing.T) {
	t.Parallel()
	good := openai.Endpoint{Name: "local", BaseURL: "http://localhost/v1"}
	if err := good.Validate(); err != nil {
		t.Errorf("a good endpoint: %v", err)
	}
	for want, spoil := range map[string]func(*openai.Endpoint){
		"no name":            func(e *openai.Endpoint) { e.Name = "" },
		"whole address":      func(e *openai.Endpoint) { e.BaseURL = "localhost:8080" },
		"password":           func(e *openai.Endpoint) { e.BaseURL = "https://user:pw@host/v1" },
		"query":              func(e *openai.Endpoint) { e.BaseURL = "https://host/v1?key=1" },
		"structured is":      func(e *openai.Endpoint) { e.Structured = "xml" },
		"token_param is":     func(e *openai.Endpoint) { e.TokenParam = "tokens" },
		"must be a whole ad": func(e *openai.Endpoint) { e.BaseURL = "" },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			endpoint := good
			spoil(&endpoint)
			if err := endpoint.Validate(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v", err)
			}
			if _, err := openai.Sources(adaptertest.Env(nil), []openai.Endpoint{endpoint}, openai.Options{}); err == nil {
				t.Error("Sources takes it")
			}
		})
	}
}
