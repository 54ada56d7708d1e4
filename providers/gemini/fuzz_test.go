package gemini_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/gemini"
)

// answers is a transport that gives every request the same answer.
type answers struct {
	status int
	body   []byte
}

func (a answers) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: a.status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(a.body)), Request: req,
	}, nil
}

// Whatever a server sends, a call ends with an answer or with an error of the contract, and never in a panic.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		says("STOP", `{"text":"x"}`),
		`{"candidates":"none"}`,
		`{"candidates":[{"content":{"parts":{"a":1}}}],"usageMetadata":[]}`,
		`[{"error":{"code":503,"details":[{"violations":[7]}]}}]`,
	} {
		f.Add(200, body)
		f.Add(400, body)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 200 || status > 599 {
			t.Skip("no HTTP status of a final answer")
		}
		c, err := gemini.New(providers.NewKey("k"), gemini.Options{
			BaseURL: "http://server.invalid", HTTPClient: &http.Client{Transport: answers{status, []byte(body)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Complete(t.Context(), ask())
		if err == nil && resp != nil {
			return
		}
		if failure, ok := errors.AsType[*providers.Error](err); !ok || resp != nil || failure.Kind == "" {
			t.Fatalf("got %+v, %v", resp, err)
		}
	})
}
