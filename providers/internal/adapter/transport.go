package adapter

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// maxBody bounds an answer, in bytes. The largest legitimate one, 128k tokens with escapes, is below 2 MiB.
const maxBody = 16 << 20

var (
	errRedirect = errors.New("redirect refused")
	errTooLarge = fmt.Errorf("answer is larger than %d MiB", maxBody>>20)
)

// recorded is the latest answer within an attempt, stored in its context under [answerKey]: SDKs drop errors in a 200
// answer and Retry-After headers. Zero: no answer. Read it only after the SDK has returned.
type recorded struct {
	Status int
	Header http.Header
	Body   []byte
}

type answerKey struct{}

// Client returns a copy of base (nil: default transport) that records answers, reads them whole, and refuses redirects
// that would leak the key or change the request. base should have no Timeout: the context bounds an attempt.
func Client(base *http.Client) *http.Client {
	client := *cmp.Or(base, new(http.Client))
	client.Transport = recorder{next: cmp.Or(client.Transport, http.DefaultTransport)}
	client.CheckRedirect = checkRedirect
	return &client
}

// checkRedirect only follows redirects within one server. It names no more than the host: the rest may be secret.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case len(via) >= 3:
		return fmt.Errorf("%w: %d in a row", errRedirect, len(via))
	case next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host:
		return fmt.Errorf("%w: %s://%s sends on to %s://%s; use that as the base URL if you trust it",
			errRedirect, first.URL.Scheme, first.URL.Host, next.URL.Scheme, next.URL.Host)
	case next.Method != first.Method:
		return fmt.Errorf("%w: %s would turn %s into %s; check the base URL",
			errRedirect, first.URL.Host, first.Method, next.Method)
	}
	return nil
}

type recorder struct{ next http.RoundTripper }

// RoundTrip reads the whole answer, so that a cut body is the same error for all SDKs.
func (t recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	err = errors.Join(err, resp.Body.Close())
	if err == nil && len(body) > maxBody {
		body, err = body[:maxBody], errTooLarge
	}
	if answer, ok := req.Context().Value(answerKey{}).(*recorded); ok {
		*answer = recorded{Status: resp.StatusCode, Header: resp.Header, Body: body}
	}
	if err != nil {
		return nil, fmt.Errorf("read answer (status %d): %w", resp.StatusCode, err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// CheckBaseURL returns what is wrong with a configured address. Addresses are printed: no secrets.
func CheckBaseURL(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("must be a whole address such as https://host")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("may not contain a password, query or fragment; put the key into an environment variable")
	}
	return nil
}
