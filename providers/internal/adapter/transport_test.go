package adapter

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answering is a server without a network: redirects can be tried between hosts that do not exist.
type answering func(*http.Request) *http.Response

func (f answering) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

func post(t *testing.T, client *http.Client, url string) (string, *recorded, error) {
	t.Helper()
	ctx, answer := record(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("question"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", answer, err
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(body), answer, nil
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
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var visited []string
			client := Client(&http.Client{Transport: answering(func(r *http.Request) *http.Response {
				visited = append(visited, r.URL.String())
				resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r}
				resp.Body = io.NopCloser(strings.NewReader("answer"))
				if r.URL.Path == "/start" {
					resp.StatusCode = tt.status
					resp.Header.Set("Location", tt.location)
				}
				return resp
			})})
			body, _, err := post(t, client, "https://host/start")
			if errors.Is(err, errRedirect) != tt.refused {
				t.Errorf("visited %v: %v", visited, err)
			}
			if !tt.refused && body != "answer" {
				t.Errorf("got %q", body)
			}
			for _, url := range visited {
				if !strings.HasPrefix(url, "https://host/") {
					t.Errorf("the request went to %s", url)
				}
			}
		})
	}
}

func TestRecordsTheAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, "slow down")
	}))
	t.Cleanup(server.Close)
	base := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(base.CloseIdleConnections)
	body, answer, err := post(t, Client(base), server.URL)
	if err != nil || body != "slow down" {
		t.Errorf("the SDK reads %q, %v", body, err)
	}
	if answer.Status != http.StatusTooManyRequests || string(answer.Body) != "slow down" ||
		answer.Header.Get("Retry-After") != "7" {
		t.Errorf("recorded %+v", answer)
	}
	if _, own := base.Transport.(*http.Transport); !own {
		t.Error("the caller's client was changed")
	}
}

// What was read of an answer that broke off is kept: the status may tell more than the error.
func TestCutBodyIsAnError(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
	}))
	t.Cleanup(server.Close)
	base := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(base.CloseIdleConnections)
	_, answer, err := post(t, Client(base), server.URL)
	if !errors.Is(err, io.ErrUnexpectedEOF) || answer.Status != http.StatusOK || string(answer.Body) != "half" {
		t.Errorf("recorded %+v, %v", answer, err)
	}
}
