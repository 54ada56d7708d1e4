package opencode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/bouldermgr/manager/internal/retryafter"
	"github.com/bouldermgr/manager/internal/text"
)

var (
	// ErrUnavailable says that the server failed: connection refused or cut, a 5xx answer, or no answer in time. The
	// same call may succeed later or on a restarted server. Whether it had an effect is unknown.
	ErrUnavailable = errors.New("OpenCode server unavailable")
	// ErrBadAddress says that a string is not a server's address.
	ErrBadAddress = errors.New("is not the address of a server")
	// ErrUnauthorized says that the server refused the user name or password.
	ErrUnauthorized = errors.New("OpenCode server refused the credentials")
	// ErrNotFound says that the session, message, permission or question does not exist on the server.
	ErrNotFound = errors.New("not found on the OpenCode server")
	// ErrUnsupported says that the server does not know the call: it is another version of OpenCode, or not OpenCode.
	ErrUnsupported = errors.New("call not supported by this server")
	// ErrClosed says that this program closed the client or the host.
	ErrClosed = errors.New("OpenCode client closed")

	errTooLong = errors.New("answer too long")
)

// Error is a failed call. It matches [ErrUnavailable], [ErrUnauthorized], [ErrNotFound] or [ErrUnsupported]; the cause
// of the caller's context, if that was canceled; or none of them, if the server understood the call and refused it.
type Error struct {
	Op      string // the call, for people: "create session"
	Status  int    // HTTP status, 0 if there was no answer
	Message string // the server's words, cut to a readable length
	kind    error
	cause   error
}

func (e *Error) Error() string {
	words := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	return text.JoinedBy(": ", "opencode", e.Op, words(e.kind), httpStatus(e.Status), e.Message, words(e.cause))
}

func httpStatus(status int) string { return text.If(status != 0, fmt.Sprintf("HTTP %d", status)) }

func (e *Error) Unwrap() []error { return []error{e.kind, e.cause} }

// transportError classifies a call without a complete answer. All but the caller's cancel is the server's failure, even
// a deadline of the caller.
func transportError(ctx context.Context, op string, err error) *Error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return &Error{Op: op, cause: context.Cause(ctx)}
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // op says as much as the method and address in front of it
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return &Error{Op: op, kind: ErrUnavailable, cause: err}
}

func statusKind(status int) error {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return ErrUnauthorized
	case status == http.StatusNotFound:
		return ErrNotFound
	case status >= http.StatusInternalServerError:
		return ErrUnavailable
	}
	return nil
}

// Names of a [TurnError].
const (
	APIError            = "APIError" // the provider refused; see StatusCode
	ProviderAuth        = "ProviderAuthError"
	MessageAborted      = "MessageAbortedError"
	ContextOverflow     = "ContextOverflowError"
	MessageOutputLength = "MessageOutputLengthError"
	ContentFilter       = "ContentFilterError"
	StructuredOutput    = "StructuredOutputError" // the model did not produce the requested JSON
	UnknownError        = "UnknownError"          // includes unknown models and unknown agents
)

var (
	// ErrUnknownModel matches a [*TurnError] about a model that OpenCode lacks or whose provider is not connected.
	ErrUnknownModel = errors.New("unknown model")
	// ErrUnknownAgent matches a [*TurnError] about an agent that is not defined.
	ErrUnknownAgent = errors.New("unknown agent")
)

// OpenCode's words for the two. There is no other sign: both are an UnknownError.
const (
	modelNotFound      = "Model not found: "
	modelNotFoundTrace = "ProviderModelNotFoundError: "
	agentNotFound      = "Agent not found: "
)

// TurnError is the failure of a turn: a fact about the model or the agent, not about the call that reported it.
type TurnError struct {
	Name    string
	Message string
	// For APIError only:

	StatusCode int           // the provider's HTTP status, 0 if unknown
	Retryable  bool          `json:"isRetryable"`  // in OpenCode's judgement; it has already retried
	RetryAfter time.Duration `json:"-"`            // what the provider asked for; 0: nothing
	Body       string        `json:"responseBody"` // the provider's answer
}

func (e *TurnError) Error() string {
	return text.JoinedBy(": ", e.Name, httpStatus(e.StatusCode), text.Short(e.Message, maxErrorMessage))
}

// Is matches [ErrUnknownModel] and [ErrUnknownAgent].
func (e *TurnError) Is(target error) bool {
	if e.Name != UnknownError {
		return false
	}
	switch target {
	case ErrUnknownModel:
		return strings.HasPrefix(e.Message, modelNotFound) || strings.HasPrefix(e.Message, modelNotFoundTrace)
	case ErrUnknownAgent:
		return strings.HasPrefix(e.Message, agentNotFound)
	}
	return false
}

// UnmarshalJSON reads OpenCode's form. Anything else becomes an [UnknownError].
func (e *TurnError) UnmarshalJSON(data []byte) error {
	type plain TurnError
	var wire struct {
		Name string
		Data struct {
			plain
			ResponseHeaders map[string]string
		}
	}
	if json.Unmarshal(data, &wire) != nil {
		*e = TurnError{Name: UnknownError, Message: "OpenCode gave a reason that could not be read"}
		return nil //nolint:nilerr // e reports it
	}
	header := http.Header{}
	for name, value := range wire.Data.ResponseHeaders {
		header.Set(name, value)
	}
	*e = TurnError(wire.Data.plain)
	e.Name, e.RetryAfter = wire.Name, retryafter.Of(header, time.Now())
	return nil
}
