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

// maxBody bounds an answer in bytes. The largest honest one, 128k tokens with escapes, is below 2 MiB.
const maxBody = 16 << 20

var (
	errRedirect = errors.New("redirect refused")
	errTooLarge = fmt.Errorf("answer is larger than %d MiB", maxBody>>20)
)

// recorded is what the server said last within the context of an attempt, which has it under [answerKey], and SDKs drop: an
// error inside a 200 answer or a Retry-After header is then not lost. Zero: it said nothing. It may be read when the SDK
// has returned.
type recorded struct {
	Status int
	Header http.Header
	Body   []byte
}

type answerKey struct{}

// Client gives a copy of base that records answers, reads them whole and refuses redirects which would carry the key
// somewhere else or turn the request into another. Nil base: a client with the default transport. Attempts are bounded
// by their context, so base should have no Timeout of its own.
func Client(base *http.Client) *http.Client {
	client := *cmp.Or(base, new(http.Client))
	client.Transport = recorder{next: cmp.Or(client.Transport, http.DefaultTransport)}
	client.CheckRedirect = checkRedirect
	return &client
}

// checkRedirect follows within one server only. It names no more than the host: the rest of a location may be secret.
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

// RoundTrip reads the whole answer before it returns, so that a cut body is an error here, of one kind for all SDKs.
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

// CheckBaseURL says what is wrong with a configured address. Addresses are printed, so there may be no secret in one.
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
