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

// Said is the error in an answer's body. Zero fields were not there.
type Said struct {
	Code       string // the provider's own word for the error
	Text       string
	Status     int            // the HTTP status that the body claims. It counts where the real one is that of a success.
	RetryAfter time.Duration  // how long the body asks to wait; the longer one of this and the header's counts
	Kind       providers.Kind // set where the body says more than code and text do
}

// Unmarshal reads the JSON of an error, also with a list around it. A field of another type than expected costs that
// field only: what servers say comes in many forms.
func Unmarshal(body []byte, into any) {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	_ = json.Unmarshal(body, into)
}

// failed makes the error for a call without a usable answer. err is that of the SDK; nil if it took the answer for a
// good one. It is kept in the chain only if it arose on this side. The recorded answer is read and not the SDKs' error
// types: those lose what some servers say (string errors, errors inside of a 200), and carry the body into the error
// chain, where no redaction reaches it.
func (a *Adapter) failed(model string, answer *recorded, missing string, err error) *providers.Error {
	cause := transportError(err)
	if refused := errors.Is(err, errRedirect) || errors.Is(err, errTooLarge); refused || answer.Status == 0 {
		failure := providers.Classify(0, "", a.Key.Scrub(cmp.Or(cause, err).Error()), answer.Header, cmp.Or(cause, err))
		if refused || cause == nil { // what an SDK does not send, or the transport not take, it will refuse the next time too
			failure.Kind = providers.KindBadRequest
		}
		return a.about(model, failure)
	}
	said := a.Parse(answer.Body)
	status := answer.Status
	if status < http.StatusBadRequest && said.Status >= http.StatusBadRequest {
		status = said.Status // an upstream's failure, or one that came up after the headers were sent
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
		reason, _, _ := strings.Cut(err.Error(), "\n") // genai puts the whole body on the lines that follow
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
	return a.about(model, failure)
}

func (a *Adapter) about(model string, failure *providers.Error) *providers.Error {
	failure.Provider, failure.Model = a.Provider, model
	return failure
}

// transportError is what happened to the connection or the context, without the whole URL that net/http puts in front,
// and without the errors in which SDKs repeat the answer.
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
