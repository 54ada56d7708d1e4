package adapter

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/bouldermgr/manager/providers"
)

// Said is the error in a body. Absent fields are zero.
type Said struct {
	Code       string // the provider's own error code
	Text       string
	Status     int            // claimed by the body. It counts if the real status is a success.
	RetryAfter time.Duration  // how long the body asks to wait; the longer of this and the header's counts
	Kind       providers.Kind // set if the body says more than code and text
}

// Unmarshal reads the JSON of an error, possibly inside a list. A field of an unexpected type stays zero.
func Unmarshal(body []byte, into any) {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	_ = json.Unmarshal(body, into)
}

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
	said := a.Parse(answer.Body)
	status := answer.Status
	if status < http.StatusBadRequest && said.Status >= http.StatusBadRequest {
		status = said.Status // an upstream's failure, or one after the headers were sent
	}
	success := status < http.StatusBadRequest
	what := said.Text
	switch {
	case what != "":
	case isHTML(answer):
		what = "the server answered with a web page instead of JSON"
	case success && err == nil:
		what = "the answer contains no " + missing
	case success:
		reason, _, _ := strings.Cut(err.Error(), "\n") // genai puts the whole body on the following lines
		what = "the answer cannot be read: " + reason
	default:
		what = string(answer.Body)
	}
	failure := providers.Classify(status, said.Code, a.Key.Scrub(what), answer.Header, cause)
	failure.RetryAfter = max(failure.RetryAfter, said.RetryAfter)
	switch {
	case failure.Kind == providers.KindCanceled:
	case said.Kind != "":
		failure.Kind = said.Kind
	case success && isHTML(answer):
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
