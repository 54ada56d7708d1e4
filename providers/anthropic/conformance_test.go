package anthropic_test

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/anthropic"
	"github.com/bouldermgr/manager/providers/internal/adaptertest"
	"github.com/bouldermgr/manager/providers/providerstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	providerstest.Run(t, providerstest.Adapter{
		Provider: "anthropic", Wire: wire, Open: open,
	})
}

// open makes the adapter for a server.
func open(t testing.TB, baseURL string, key providers.Key, client *http.Client) providers.Completer {
	t.Helper()
	c, err := anthropic.New(key, anthropic.Options{BaseURL: baseURL, HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func FuzzAnswer(f *testing.F) {
	adaptertest.FuzzAnswer(f, open,
		says("end_turn", `{"type":"text","text":"x"}`),
		`{"type":"error","error":{"type":"overloaded_error"}}`,
		`{"type":"message","stop_reason":"end_turn","content":{"a":1},"usage":[]}`,
		`[]`,
	)
}
