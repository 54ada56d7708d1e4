package adaptertest

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/providers"
)

// ErrorForm is an error response of a server, and the expected error of the adapter.
type ErrorForm struct {
	Status int
	Type   string // Content-Type; defaults to application/json
	Header map[string]string
	Body   string

	Kind       providers.Kind
	WantStatus int    // defaults to Status
	WantText   string // part of the error's text
	RetryAfter time.Duration
}

// webPages come from proxies or wrong hosts, so from any address.
var webPages = map[string]ErrorForm{
	"proxy: HTML 502": {
		Status: 502, Type: "text/html", Body: `<html><h1>Bad gateway</h1></html>`,
		Kind: providers.KindNetwork, WantText: "web page",
	},
	"base URL of a web site: HTML 200 is not worth a retry": {
		Status: 200, Type: "text/html", Body: `<!doctype html><title>Console</title>`,
		Kind: providers.KindBadRequest, WantText: "web page",
	},
}

// ErrorForms tests the provider's forms and those that any address may send.
func ErrorForms(t *testing.T, open Open, forms map[string]ErrorForm) {
	all := maps.Clone(webPages)
	maps.Copy(all, forms)
	for name, form := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failure := Fails(t, At(t, open, form), Ask())
			if failure.Kind != form.Kind || failure.Status != cmp.Or(form.WantStatus, form.Status) ||
				failure.RetryAfter != form.RetryAfter {
				t.Errorf("kind %s, status %d, retry after %s: %v",
					failure.Kind, failure.Status, failure.RetryAfter, failure)
			}
			if !strings.Contains(failure.Error(), form.WantText) {
				t.Errorf("%q does not contain %q", failure, form.WantText)
			}
		})
	}
}

// ServeHTTP sends the error response.
func (f ErrorForm) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", cmp.Or(f.Type, "application/json"))
	for key, value := range f.Header {
		w.Header().Set(key, value)
	}
	w.WriteHeader(f.Status)
	_, _ = io.WriteString(w, f.Body)
}

// End is a complete answer that was billed with ten tokens, and the expected outcome.
type End struct {
	Body string
	Kind providers.Kind // of the error; empty: a success
}

// Ends runs a test for each end.
func Ends(t *testing.T, open Open, ends map[string]End) {
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := At(t, open, JSON(end.Body))
			if end.Kind != "" {
				failure := Fails(t, c, Ask())
				if failure.Kind != end.Kind || failure.Usage.Tokens() != 10 {
					t.Errorf("kind %s, usage %v: %v", failure.Kind, failure.Usage, failure)
				}
			} else if resp, err := c.Complete(t.Context(), Ask()); err != nil {
				t.Errorf("got %+v, %v", resp, err)
			}
		})
	}
}

// FuzzAnswer tests that each call returns an answer or an error of the contract. bodies are the seeds.
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
