package adapter

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/bouldermgr/manager/providers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answering is a server without a network, so that redirects may go to hosts that do not exist.
type answering func(*http.Request) *http.Response

func (f answering) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

func post(ctx context.Context, url string, server answering) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("question"))
	if err != nil {
		return err
	}
	resp, err := Client(&http.Client{Transport: server}).Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// Only a refusal that names a requested feature, with a status for that, leads to another call.
func TestWhatIsARefusal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status int
		text   string
		calls  int
		wanted string // the user's own effort
	}{
		"it was wanted":      {status: 400, text: "no Effort here", calls: 1, wanted: "high"},
		"refusal":            {status: 400, text: "no Effort here", calls: 2},
		"another status":     {status: 409, text: "effort", calls: 1},
		"another kind":       {status: 400, text: "prompt is too long, effort", calls: 1},
		"nothing is named":   {status: 400, text: "roles", calls: 1},
		"it was not used":    {status: 400, text: "tools", calls: 1},
		"the first one goes": {status: 422, text: "tools and effort", calls: 2},
	} {
		calls := 0
		a := Adapter{
			Provider: "p",
			Features: []Feature{
				{Name: "tool", Words: []string{"tools"}, Wanted: func(*providers.Request, Features) bool { return false }},
				{Name: "effort", Words: []string{"effort"}},
			},
			Call: func(ctx context.Context, _ *providers.Request, _ Features) (Reply, error) {
				calls++
				return Reply{}, errors.Join(errors.New("refused"), post(ctx, "http://host", func(*http.Request) *http.Response {
					return &http.Response{
						StatusCode: tt.status, Body: io.NopCloser(strings.NewReader(`{"error":"` + tt.text + `"}`)),
					}
				}))
			},
		}
		_, err := a.Complete(t.Context(), &providers.Request{Model: "m", Effort: tt.wanted})
		if failure, ok := errors.AsType[*providers.Error](err); !ok || failure.Message != tt.text || calls != tt.calls {
			t.Errorf("%s: %d calls, want %d: %v", name, calls, tt.calls, err)
		}
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status   int
		location string
		refused  bool
	}{
		"same server":     {http.StatusTemporaryRedirect, "https://host/v1/chat/", false},
		"another host":    {http.StatusTemporaryRedirect, "https://other/v1", true},
		"another port":    {http.StatusPermanentRedirect, "https://host:8443/v1", true},
		"without TLS":     {http.StatusTemporaryRedirect, "http://host/v1/chat/", true},
		"POST to GET":     {http.StatusFound, "https://host/login", true},
		"round and round": {http.StatusTemporaryRedirect, "https://host/start", true},
	} {
		var visited []string
		err := post(t.Context(), "https://host/start", func(r *http.Request) *http.Response {
			visited = append(visited, r.URL.String())
			if r.URL.Path != "/start" {
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}
			}
			return &http.Response{StatusCode: tt.status, Header: http.Header{"Location": {tt.location}}, Body: http.NoBody}
		})
		if errors.Is(err, errRedirect) != tt.refused || !tt.refused && (err != nil || len(visited) != 2) {
			t.Errorf("%s: visited %v: %v", name, visited, err)
		}
		for _, url := range visited {
			if !strings.HasPrefix(url, "https://host/") {
				t.Errorf("%s: the request went to %s", name, url)
			}
		}
	}
}
