package gemini_test

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/gemini"
	"github.com/bouldermgr/manager/providers/internal/adaptertest"
	"github.com/bouldermgr/manager/providers/providerstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	providerstest.Run(t, providerstest.Adapter{
		Provider: "google", Wire: wire, Open: open,
	})
}

// open makes the adapter for a server.
func open(t testing.TB, baseURL string, key providers.Key, client *http.Client) providers.Completer {
	t.Helper()
	c, err := gemini.New(key, gemini.Options{BaseURL: baseURL, HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func FuzzAnswer(f *testing.F) {
	adaptertest.FuzzAnswer(f, open,
		says("STOP", `{"text":"x"}`),
		`{"candidates":"none"}`,
		`{"candidates":[{"content":{"parts":{"a":1}}}],"usageMetadata":[]}`,
		`[{"error":{"code":503,"details":[{"violations":[7]}]}}]`,
	)
}
