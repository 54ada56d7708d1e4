package providers

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// Kind says what went wrong in terms of what a caller can do about it.
type Kind string

// Only rate_limit, overloaded and network are worth another attempt of the same request.
const (
	KindAuth            Kind = "auth"             // the key is missing, wrong or not allowed to use the model: stop the run
	KindQuota           Kind = "quota"            // no credit, or a spending limit was reached: does not pass by waiting
	KindRateLimit       Kind = "rate_limit"       // too many requests or tokens per minute; RetryAfter may say when it passes
	KindOverloaded      Kind = "overloaded"       // the provider has no capacity at the moment
	KindContextLength   Kind = "context_length"   // the request is too long for the model: shorten it and try once
	KindContentFilter   Kind = "content_filter"   // the provider's filter or the model refused, and will refuse it again
	KindNetwork         Kind = "network"          // no connection, a cut or late answer, a 5xx, or an answer without content
	KindTruncated       Kind = "truncated"        // a structured answer was cut by the output limit
	KindMalformedOutput Kind = "malformed_output" // the answers could not be used, after all repairs; see [Structured]
	KindBadRequest      Kind = "bad_request"      // the request itself is refused: an unknown model or parameter
	KindCanceled        Kind = "canceled"         // the caller's context ended
	KindSetup           Kind = "setup"            // a program is missing, of another version, or refuses the password
)

// Error is every error of a [Completer]. Its text is for people: it says what happened, what the provider said and
// what to do, and contains no secret. Branch on Kind.
type Error struct {
	Kind Kind
	// Provider and Model say who was asked; Model is the provider's own name.
	Provider, Model string
	// KeyEnv is the environment variable that the key came from; named to the person when the key is the trouble.
	KeyEnv string
	// Status is the HTTP status, or the one that an error inside a 200 answer claims. Zero: there was no answer.
	Status    int
	Code      string // the provider's own word for the error ("insufficient_quota"). Empty: none.
	Message   string // the provider's text, without secrets, at most 600 characters
	RequestID string // the provider's name for the call. Empty: not told.
	// RetryAfter is how long the provider asked to wait, counted from the answer. Zero: it did not say.
	RetryAfter time.Duration
	Usage      boulder.Usage // what the failed attempt cost, as far as the provider told
	// Err is the cause on this side: a transport error, the end of a context, a decoding error. Nil when the provider
	// answered with an error.
	Err error
}

// meanings say of each kind what happened and what to do, and whether the same request may succeed later.
var meanings = map[Kind]struct {
	what, todo string
	passes     bool
}{
	KindAuth: {"the key was refused", "check the provider's key and that it may use this model", false},
	KindQuota: {"no credit left or a spending limit reached",
		"add credit with the provider or choose another model", false},
	KindRateLimit:  {"rate limit reached", "try again later or choose another model", true},
	KindOverloaded: {"the provider is overloaded", "try again later or choose another model", true},
	KindContextLength: {"the request is too long for the model",
		"shorten the request or choose a model with a larger context", false},
	KindContentFilter: {"the request was refused by the provider's filter or the model",
		"reword the request or choose another model", false},
	KindNetwork:         {"no usable answer from the provider", "check the connection and the provider's base URL", true},
	KindTruncated:       {"the answer was cut by the output limit", "raise the output limit or ask for less", false},
	KindMalformedOutput: {"the model gave no usable answer", "choose another with --ledger-model", false},
	KindBadRequest: {"the provider did not accept the request",
		"check the model's name and the provider's settings", false},
	KindCanceled: {"cancelled", "", false},
	KindSetup:    {"no way to ask a model", "", false},
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	if who := strings.Trim(e.Provider+"/"+e.Model, "/"); who != "" {
		b.WriteString(who + ": ")
	}
	meaning := meanings[e.Kind]
	b.WriteString(cmp.Or(meaning.what, "failed"))
	status := ""
	if e.Status != 0 {
		status = strconv.Itoa(e.Status)
	}
	if status = strings.TrimSpace(status + " " + e.Code); status != "" {
		b.WriteString(" (" + status + ")")
	}
	if e.Message != "" {
		b.WriteString(": " + strings.TrimRight(e.Message, ". \n"))
	}
	todo := meaning.todo
	switch {
	case e.Kind == KindAuth && e.KeyEnv != "":
		todo = "check the key in " + e.KeyEnv + " and that it may use this model"
	case (e.Kind == KindRateLimit || e.Kind == KindOverloaded) && e.RetryAfter > 0:
		todo = "try again in " + e.RetryAfter.Round(time.Second).String()
	}
	if todo != "" {
		b.WriteString("; " + todo)
	}
	return b.String()
}

// Unwrap gives the cause on this side, for errors.Is(err, context.Canceled) and the like.
func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether the same request may succeed later.
func (e *Error) Retryable() bool { return meanings[e.Kind].passes }

// asError gives a copy of what a Completer returned; what breaks its contract is classified.
func asError(err error) *Error {
	if typed, ok := errors.AsType[*Error](err); ok {
		return new(*typed)
	}
	return Classify(0, "", "", nil, err)
}
