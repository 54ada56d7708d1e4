package opencode

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/bouldermgr/manager/internal/retryafter"
	"github.com/bouldermgr/manager/internal/text"
)

// Names of a [TurnError].
const (
	APIError            = "APIError" // the provider refused; StatusCode says how
	ProviderAuth        = "ProviderAuthError"
	MessageAborted      = "MessageAbortedError"
	ContextOverflow     = "ContextOverflowError"
	MessageOutputLength = "MessageOutputLengthError"
	ContentFilter       = "ContentFilterError"
	StructuredOutput    = "StructuredOutputError" // the model did not give the demanded JSON
	UnknownError        = "UnknownError"          // among others: unknown model, unknown agent
)

var (
	// ErrUnknownModel is matched by a [*TurnError] about a model that OpenCode does not know or whose provider is not
	// connected.
	ErrUnknownModel = errors.New("unknown model")
	// ErrUnknownAgent is matched by a [*TurnError] about an agent that is not defined.
	ErrUnknownAgent = errors.New("unknown agent")
)

// How OpenCode words the two: there is no other sign, both are an UnknownError.
const (
	modelNotFound      = "Model not found: "
	modelNotFoundTrace = "ProviderModelNotFoundError: "
	agentNotFound      = "Agent not found: "
)

// TurnError is how a turn failed: a fact about the model or the agent, not about the call that reported it.
type TurnError struct {
	Name    string
	Message string
	// Of APIError:

	StatusCode int           // the provider's HTTP status, 0 if unknown
	Retryable  bool          // by OpenCode's reckoning; it has retried already
	RetryAfter time.Duration // what the provider asked for, 0 if nothing
	Body       string        // the provider's answer
}

func (e *TurnError) Error() string {
	message := text.Short(e.Message, maxErrorMessage)
	if e.StatusCode != 0 {
		return fmt.Sprintf("%s: HTTP %d: %s", e.Name, e.StatusCode, message)
	}
	return fmt.Sprintf("%s: %s", e.Name, message)
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

// UnmarshalJSON reads OpenCode's form. It never loses that there was an error.
func (e *TurnError) UnmarshalJSON(data []byte) error {
	var wire struct {
		Name string
		Data struct {
			Message         string
			StatusCode      int
			IsRetryable     bool
			ResponseHeaders map[string]string
			ResponseBody    string
		}
	}
	if json.Unmarshal(data, &wire) != nil {
		*e = TurnError{Name: UnknownError, Message: "OpenCode gave a reason that could not be read"}
		return nil //nolint:nilerr // what it is, is in e
	}
	header := http.Header{}
	for name, value := range wire.Data.ResponseHeaders {
		header.Set(name, value)
	}
	*e = TurnError{
		Name: wire.Name, Message: wire.Data.Message, StatusCode: wire.Data.StatusCode,
		Retryable: wire.Data.IsRetryable, Body: wire.Data.ResponseBody,
		RetryAfter: retryafter.Of(header, time.Now()),
	}
	return nil
}
