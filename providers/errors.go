package providers

import (
	"fmt"
	"strings"
	"time"
)

// Kind says what went wrong in terms of what a caller can do about it.
type Kind string

// Only rate_limit, overloaded and network are worth another attempt of the same request.
const (
	// KindAuth: the key is missing, wrong or not allowed to use the model. Stop the run and say which key.
	KindAuth Kind = "auth"
	// KindQuota: no credit, or a spending limit was reached. Unlike a rate limit it does not pass by waiting.
	KindQuota Kind = "quota"
	// KindRateLimit: too many requests or tokens per minute. Passes; RetryAfter may say when.
	KindRateLimit Kind = "rate_limit"
	// KindOverloaded: the provider has no capacity at the moment.
	KindOverloaded Kind = "overloaded"
	// KindContextLength: the request is too long for the model. Shorten it and try once.
	KindContextLength Kind = "context_length"
	// KindContentFilter: the provider's filter or the model refused. The same request is refused again.
	KindContentFilter Kind = "content_filter"
	// KindNetwork: no connection, a cut or timed-out answer, a 5xx, or an answer without content.
	KindNetwork Kind = "network"
	// KindTruncated: a structured answer was cut by the output limit.
	KindTruncated Kind = "truncated"
	// KindMalformedOutput: the model's answers could not be used, after all repairs; see [Structured].
	KindMalformedOutput Kind = "malformed_output"
	// KindBadRequest: the provider refused the request itself: an unknown model, a parameter it does not know.
	KindBadRequest Kind = "bad_request"
	// KindCanceled: the caller's context ended.
	KindCanceled Kind = "canceled"
	// KindSetup: the way to the provider cannot be used until a person changes something: a program is missing, is of
	// another version, or refuses the password. The message says what to do.
	KindSetup Kind = "setup"
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
	Status int
	// Code is the provider's own word for the error ("insufficient_quota"). Empty: none.
	Code string
	// Message is the provider's text, without secrets, at most 600 characters.
	Message string
	// RequestID is the provider's name for the call. Empty: not told.
	RequestID string
	// RetryAfter is how long the provider asked to wait, counted from the answer. Zero: it did not say.
	RetryAfter time.Duration
	// Usage is what the failed attempt cost, as far as the provider told.
	Usage Usage
	// Err is the cause on this side: a transport error, the end of a context, a decoding error. Nil when the provider
	// answered with an error.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	if who := e.who(); who != "" {
		b.WriteString(who + ": ")
	}
	b.WriteString(e.what())
	switch {
	case e.Status != 0 && e.Code != "":
		fmt.Fprintf(&b, " (%d %s)", e.Status, e.Code)
	case e.Status != 0:
		fmt.Fprintf(&b, " (%d)", e.Status)
	case e.Code != "":
		fmt.Fprintf(&b, " (%s)", e.Code)
	}
	if e.Message != "" {
		b.WriteString(": " + strings.TrimRight(e.Message, ". \n"))
	}
	if todo := e.todo(); todo != "" {
		b.WriteString("; " + todo)
	}
	return b.String()
}

// Unwrap gives the cause on this side, for errors.Is(err, context.Canceled) and the like.
func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether the same request may succeed later.
func (e *Error) Retryable() bool {
	switch e.Kind {
	case KindRateLimit, KindOverloaded, KindNetwork:
		return true
	default:
		return false
	}
}

func (e *Error) who() string {
	if e.Provider != "" && e.Model != "" {
		return e.Provider + "/" + e.Model
	}
	return e.Provider + e.Model
}

func (e *Error) what() string {
	switch e.Kind {
	case KindAuth:
		return "the key was refused"
	case KindQuota:
		return "no credit left or a spending limit reached"
	case KindRateLimit:
		return "rate limit reached"
	case KindOverloaded:
		return "the provider is overloaded"
	case KindContextLength:
		return "the request is too long for the model"
	case KindContentFilter:
		return "the request was refused by the provider's filter or the model"
	case KindNetwork:
		return "no usable answer from the provider"
	case KindTruncated:
		return "the answer was cut by the output limit"
	case KindMalformedOutput:
		return "the model gave no usable answer"
	case KindBadRequest:
		return "the provider did not accept the request"
	case KindCanceled:
		return "cancelled"
	case KindSetup:
		return "no way to ask a model"
	default:
		return "failed"
	}
}

func (e *Error) todo() string {
	switch e.Kind {
	case KindAuth:
		if e.KeyEnv != "" {
			return "check the key in " + e.KeyEnv + " and that it may use this model"
		}
		return "check the provider's key and that it may use this model"
	case KindQuota:
		return "add credit with the provider or choose another model"
	case KindRateLimit, KindOverloaded:
		if e.RetryAfter > 0 {
			return "try again in " + e.RetryAfter.Round(time.Second).String()
		}
		return "try again later or choose another model"
	case KindContextLength:
		return "shorten the request or choose a model with a larger context"
	case KindNetwork:
		return "check the connection and the provider's base URL"
	case KindTruncated:
		return "raise the output limit or ask for less"
	case KindContentFilter:
		return "reword the request or choose another model"
	case KindMalformedOutput:
		return "choose another with --ledger-model"
	case KindBadRequest:
		return "check the model's name and the provider's settings"
	default:
		return ""
	}
}
