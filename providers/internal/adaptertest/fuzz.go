package adaptertest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/bouldermgr/manager/providers"
)

// FuzzAnswer tests that a call ends with an answer or with an error of the contract, and never in a panic, whatever the
// server sends. The bodies are what to begin with.
func FuzzAnswer(f *testing.F, open Open, bodies ...string) {
	for _, body := range bodies {
		f.Add(200, body)
		f.Add(400, body)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 200 || status > 599 {
			t.Skip("no HTTP status of a final answer")
		}
		c := open(t, "http://server.invalid", providers.NewKey("k"),
			&http.Client{Transport: answers{status, []byte(body)}})
		resp, err := c.Complete(t.Context(), Ask())
		if err == nil && resp != nil {
			return
		}
		if failure, ok := errors.AsType[*providers.Error](err); !ok || resp != nil || failure.Kind == "" {
			t.Fatalf("got %+v, %v", resp, err)
		}
	})
}

// answers is a transport that gives every request the same answer.
type answers struct {
	status int
	body   []byte
}

// RoundTrip implements [http.RoundTripper].
func (a answers) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: a.status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(a.body)), Request: req,
	}, nil
}
