package providers

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/bouldermgr/manager/internal/retryafter"
	"github.com/bouldermgr/manager/internal/text"
)

// Classify makes the [*Error] for a failed call: status as in [Error.Status], the provider's own code and words, the
// headers of the answer, and the error on this side; each may be zero. It is the one place that maps failures to
// kinds. The caller adds who was asked, and scrubs them with its own key first.
//
// Statuses alone are not enough: vendors report missing credit as 400, 402, 403 and 429, a wrong key as 400, 401 and
// 403, and a request that is too long as 400, 413 and 429. So code and text are looked at first, the gravest meaning
// before the milder ones, and nothing that waiting cannot cure is taken for something it can.
func Classify(status int, code, said string, header http.Header, err error) *Error {
	e := &Error{
		Status:     status,
		Code:       text.Cut(Redact(code), 100),
		Message:    text.Cut(Redact(strings.TrimSpace(said)), maxMessage),
		RequestID:  RequestID(header),
		RetryAfter: retryafter.Of(header, time.Now()),
		Err:        err,
	}
	if e.Message == "" && err != nil {
		e.Message = text.Cut(Redact(err.Error()), maxMessage)
	}
	e.Kind = kindOf(status, strings.ToLower(code), strings.ToLower(said), err)
	return e
}

func kindOf(status int, code, text string, err error) Kind {
	says := func(cues ...string) bool {
		for _, cue := range cues {
			if strings.Contains(code, cue) || strings.Contains(text, cue) {
				return true
			}
		}
		return false
	}
	switch {
	case errors.Is(err, context.Canceled):
		return KindCanceled
	case status == http.StatusPaymentRequired,
		says("insufficient_quota", "billing_hard_limit", "billing_not_active", "credit balance", "insufficient credit",
			"insufficient balance", "available credits", "spending limit", "specified api usage limits",
			"credits are depleted", "credits are required", "extra usage is required", "billing_disabled",
			"requires billing", "enable billing"):
		return KindQuota
	case status == http.StatusUnauthorized,
		says("invalid_api_key", "api_key_invalid", "incorrect api key", "invalid api key", "api key not valid",
			"authentication_error", "no auth credentials"):
		return KindAuth
	case status == http.StatusRequestEntityTooLarge,
		says("context_length", "exceed_context_size", "maximum context", "context window", "prompt is too long",
			"maximum prompt length", "input is too long", "request too large", "request_too_large",
			"exceeds the available context", "exceed context limit", "exceeds the maximum number of tokens"):
		return KindContextLength
	case says("content_filter", "content_policy", "content management policy", "content filtering policy",
		"usage policies", "safety_violation"):
		return KindContentFilter
	case status == http.StatusForbidden:
		return KindAuth
	case status == http.StatusServiceUnavailable, status == 529, says("overloaded"):
		return KindOverloaded
	case status == http.StatusTooManyRequests, says("rate_limit", "resource_exhausted"):
		return KindRateLimit
	case status >= 500, status == http.StatusRequestTimeout, status == 0, status < 300:
		return KindNetwork
	default:
		return KindBadRequest
	}
}

// RequestID is the provider's name for a call, from the headers of its answer.
func RequestID(header http.Header) string {
	id := cmp.Or(header.Get("X-Request-Id"), header.Get("Request-Id"), header.Get("X-Goog-Request-Id"))
	return text.Cut(Redact(id), 100)
}
