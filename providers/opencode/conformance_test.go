package opencode_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/providers"
	ocprovider "github.com/bouldermgr/manager/providers/opencode"
	"github.com/bouldermgr/manager/providers/providerstest"
)

// The suite's server is the model's provider: between it and the adapter there is the real OpenCode, which keeps the
// key, has limits of its own for the answer, and passes no headers on.
func TestConformance(t *testing.T) {
	t.Parallel()
	providerstest.Run(t, providerstest.Adapter{
		Provider: "local",
		Wire:     wire,
		// The scripted model tells of no tokens but these; what becomes of others, TestUsage sees.
		Lacks: []providerstest.Feature{
			providerstest.RequestIDs, providerstest.OutputLimit, providerstest.CachedTokens, providerstest.ReasoningTokens,
		},
		Open: func(t testing.TB, base string, key providers.Key, _ *http.Client) providers.Completer {
			t.Helper()
			return ocprovider.New(ocprovider.Config{
				Host:      shared.host,
				Directory: project(t, map[string]string{"opencode.json": localProvider(base, key.Reveal())}),
				Model:     opencode.ModelRef{ProviderID: "local", ModelID: "default-model"},
				Agent:     ocprovider.Agent,
				Timeout:   timeout(t, base),
			})
		},
	})
}

// timeout is short for a server that is not there: OpenCode tries to reach it for longer than a test should take.
func timeout(t testing.TB, base string) time.Duration {
	t.Helper()
	address, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", address.Host)
	if err != nil {
		return 5 * time.Second
	}
	conn.Close()
	return patience
}

// localProvider is a project's configuration of the provider at base.
func localProvider(base, key string) string {
	model := map[string]any{"name": "m", "tool_call": true, "limit": map[string]any{"context": 200_000, "output": 8_000}}
	config, err := json.Marshal(map[string]any{"provider": map[string]any{"local": map[string]any{
		"name": "Local", "npm": "@ai-sdk/openai-compatible",
		"options": map[string]any{"baseURL": base + "/v1", "apiKey": key},
		"models":  map[string]any{"default-model": model, "some-model": model},
	}}})
	if err != nil {
		panic(fmt.Sprint("strings and numbers always marshal: ", err))
	}
	return string(config)
}
