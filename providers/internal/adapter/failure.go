package adapter

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/bouldermgr/manager/providers"
)

// failed returns the error for a call without a usable answer. err is the SDK's, nil if it accepted the answer; it is
// kept in the chain only if it arose locally. failed reads the recorded answer instead of the SDKs' error types: those
// lose string errors and errors in a 200 answer, and carry the unredacted body.
func (a *Adapter) failed(model string, answer *recorded, missing string, err error) *providers.Error {
	cause := transportError(err)
	if refused := errors.Is(err, errRedirect) || errors.Is(err, errTooLarge); refused || answer.Status == 0 {
		failure := providers.Classify(0, "", a.Key.Scrub(cmp.Or(cause, err).Error()), answer.Header, cmp.Or(cause, err))
		if refused || cause == nil { // what an SDK or the transport refuses to send, it will refuse again
			failure.Kind = providers.KindBadRequest
		}
		return a.attribute(model, failure)
	}
	success := answer.Status < http.StatusBadRequest
	what := string(answer.Body)
	switch {
	case isHTML(answer):
		what = "the server answered with a web page instead of JSON"
	case success && err == nil:
		what = "the answer contains no " + missing
	case success:
		reason, _, _ := strings.Cut(err.Error(), "\n") // genai puts the whole body on the following lines
		what = "the answer cannot be read: " + reason
	}
	body := []byte(a.Key.Scrub(string(answer.Body)))
	failure := providers.ClassifyBody(answer.Status, answer.Header, body, a.Key.Scrub(what), cause)
	if success && isHTML(answer) && failure.Kind != providers.KindCanceled {
		failure.Kind = providers.KindBadRequest // a wrong base URL answers like that every time
	}
	return a.attribute(model, failure)
}

func (a *Adapter) attribute(model string, failure *providers.Error) *providers.Error {
	failure.Provider, failure.Model = a.Provider, model
	return failure
}

// transportError returns the failure of the connection or context, without the URL that net/http adds and the SDK
// errors that repeat the answer. Nil if err is neither.
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

func isHTML(answer *recorded) bool {
	mediaType, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	return mediaType == "text/html" || bytes.HasPrefix(bytes.TrimSpace(answer.Body), []byte("<"))
}
