package opencode

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
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

// TurnError is how a turn failed: a fact about the model or the agent, not about
// the call that reported it.
type TurnError struct {
	Name    string
	Message string
	// Of APIError:

	StatusCode int           // the provider's HTTP status, 0 if unknown
	Retryable  bool          // by OpenCode's reckoning; it has retried already
	RetryAfter time.Duration // what the provider asked for in seconds, 0 if nothing
	Body       string        // the provider's answer
}

func (e *TurnError) Error() string {
	message := shorten(e.Message)
	if e.StatusCode != 0 {
		return fmt.Sprintf("%s: HTTP %d: %s", e.Name, e.StatusCode, message)
	}
	return fmt.Sprintf("%s: %s", e.Name, message)
}

// UnmarshalJSON reads OpenCode's form.
func (e *TurnError) UnmarshalJSON(data []byte) error {
	var wire struct {
		Name string `json:"name"`
		Data struct {
			Message         string            `json:"message"`
			StatusCode      int               `json:"statusCode"`
			IsRetryable     bool              `json:"isRetryable"`
			ResponseHeaders map[string]string `json:"responseHeaders"`
			ResponseBody    string            `json:"responseBody"`
		} `json:"data"`
	}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	*e = TurnError{
		Name: wire.Name, Message: wire.Data.Message, StatusCode: wire.Data.StatusCode,
		Retryable: wire.Data.IsRetryable, Body: wire.Data.ResponseBody,
		RetryAfter: retryAfter(wire.Data.ResponseHeaders),
	}
	return nil
}

func retryAfter(header map[string]string) time.Duration {
	for name, value := range header {
		if !strings.EqualFold(name, "retry-after") {
			continue
		}
		if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
			return time.Duration(seconds) * time.Second
		}
	}
	return 0
}
