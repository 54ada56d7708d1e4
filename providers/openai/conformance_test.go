package openai_test

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/adaptertest"
	"github.com/bouldermgr/manager/providers/openai"
	"github.com/bouldermgr/manager/providers/providerstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, param := range []openai.TokenParam{openai.MaxTokens, openai.MaxCompletionTokens} {
		t.Run(string(param), func(t *testing.T) {
			providerstest.Run(t, providerstest.Adapter{
				Provider: "local", Wire: wire,
				Open: opening(func(e *openai.Endpoint) { e.TokenParam = param }),
			})
		})
	}
}

// open makes the adapter for a server.
var open = opening(func(*openai.Endpoint) {})

// opening makes the adapter for an endpoint that differs.
func opening(change func(*openai.Endpoint)) adaptertest.Open {
	return func(t testing.TB, baseURL string, key providers.Key, client *http.Client) providers.Completer {
		t.Helper()
		endpoint := openai.Endpoint{Name: "local", BaseURL: baseURL + "/v1", KeyEnv: "LOCAL_KEY"}
		change(&endpoint)
		c, err := openai.New(endpoint, key, openai.Options{HTTPClient: client})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}

func FuzzAnswer(f *testing.F) {
	adaptertest.FuzzAnswer(f, open,
		fine,
		`{"choices":"none"}`,
		`{"choices":[{"message":{"content":[1]}}],"usage":[]}`,
		`[{"error":{"code":503,"message":{"a":1}}}]`,
	)
}
