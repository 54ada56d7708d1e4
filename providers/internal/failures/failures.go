// Package failures makes the errors of the adapters that talk HTTP. It reads the recorded answer and not the SDKs'
// error types: those lose what some servers say (string errors, errors inside of a 200), and carry the body into the
// error chain, where no redaction reaches it.
package failures

import (
	"bytes"
	"context"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/transport"
)

// Reporter makes the errors of one adapter.
type Reporter struct {
	// Provider, KeyEnv and Key say who is asked, and with what.
	Provider, KeyEnv string
	Key              providers.Key
	// Parse reads the error in an answer's body; of a body without one it gives the zero value.
	Parse func(body []byte) Said
	// Content is what an answer without any content lacks, in the provider's word: "choices".
	Content string
}

// Said is the error in an answer's body. Zero fields were not there.
type Said struct {
	// Code is the provider's own word for the error.
	Code string
	Text string
	// Status is the HTTP status that the body claims. It counts where the real one is that of a success.
	Status int
	// RetryAfter is how long the body asks to wait; the longer one of this and the header's counts.
	RetryAfter time.Duration
	// Kind is set where the body says more than code and text do.
	Kind providers.Kind
}

// Failed makes the error for a call without a usable answer. err is that of the SDK; nil if it took the answer for a
// good one. It is kept in the chain only if it arose on this side.
func (r *Reporter) Failed(model string, answer *transport.Answer, err error) *providers.Error {
	if answer.Status == 0 || ours(err) {
		return r.local(model, answer, err)
	}
	said := r.Parse(answer.Body)
	status := answer.Status
	if status < http.StatusBadRequest && said.Status >= http.StatusBadRequest {
		status = said.Status // an upstream's failure, or one that came up after the headers were sent
	}
	failure := providers.Classify(
		status, said.Code, r.Key.Scrub(r.text(said, status, answer, err)), answer.Header, transportError(err))
	failure.RetryAfter = max(failure.RetryAfter, said.RetryAfter)
	switch {
	case failure.Kind == providers.KindCanceled:
	case said.Kind != "":
		failure.Kind = said.Kind
	case status < http.StatusBadRequest && isHTML(answer):
		failure.Kind = providers.KindBadRequest // a wrong base URL answers like that every time
	}
	return r.about(model, failure)
}

// Refused makes the error for an answer that came, was billed and cannot be used.
func (r *Reporter) Refused(
	model string, answer *transport.Answer, kind providers.Kind, text string, spent providers.Usage,
) *providers.Error {
	failure := providers.Classify(answer.Status, "", r.Key.Scrub(text), answer.Header, nil)
	failure.Kind, failure.Usage = kind, spent
	return r.about(model, failure)
}

// local classifies what arose on this side: no connection, a refused redirect, a request that the SDK did not send.
func (r *Reporter) local(model string, answer *transport.Answer, err error) *providers.Error {
	// net/http puts the whole URL in front, after a redirect that of the other server with all its parameters.
	wrapped, sent := errors.AsType[*url.Error](err)
	if sent {
		err = wrapped.Err
	}
	failure := providers.Classify(0, "", r.Key.Scrub(err.Error()), answer.Header, err)
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	// What an SDK refuses to send, or the transport to take, it will refuse the next time too.
	if ours(err) || !sent && !ended {
		failure.Kind = providers.KindBadRequest
	}
	return r.about(model, failure)
}

func (r *Reporter) about(model string, failure *providers.Error) *providers.Error {
	failure.Provider, failure.Model, failure.KeyEnv = r.Provider, model, r.KeyEnv
	return failure
}

func (r *Reporter) text(said Said, status int, answer *transport.Answer, err error) string {
	switch {
	case said.Text != "":
		return said.Text
	case isHTML(answer):
		return "the server answered with a web page instead of JSON"
	case status < http.StatusBadRequest && err == nil:
		return "the answer contains no " + r.Content
	case status < http.StatusBadRequest:
		reason, _, _ := strings.Cut(err.Error(), "\n") // genai puts the whole body on the lines that follow
		return "the answer cannot be read: " + reason
	default:
		return strings.TrimSpace(string(answer.Body))
	}
}

// ours reports whether the transport refused what the server said.
func ours(err error) bool {
	return errors.Is(err, transport.ErrRedirect) || errors.Is(err, transport.ErrTooLarge)
}

// transportError keeps what happened to the connection or the context, and drops the errors in which SDKs repeat the
// answer.
func transportError(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, end) {
			return end
		}
	}
	return nil
}

func isHTML(answer *transport.Answer) bool {
	mediaType, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	return mediaType == "text/html" || bytes.HasPrefix(bytes.TrimSpace(answer.Body), []byte("<"))
}
