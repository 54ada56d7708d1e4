package fakeopencode

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/sashabaranov/go-openai"

	"github.com/bouldermgr/manager/internal/retryafter"
)

type turnError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Status  int    `json:"status,omitempty"` // of the provider

	after time.Duration // the wait that the provider asked for
	said  bool          // the message is a text of the user
}

func (e *turnError) Error() string { return e.Message }

// transient lists the errors after which the same call may succeed later.
var transient = []string{"provider.rate-limit", "provider.internal", "provider.transport"}

// endpoint is a model at a provider that speaks OpenAI's chat completions.
type endpoint struct {
	ref      modelRef
	provider provider
	model    model
}

// maxRetries counts the tries after the first one.
const maxRetries = 4

// sessionCall is a transport that adds the session to a provider's call, and keeps the response.
type sessionCall struct {
	sessionID string
	answer    *http.Response
}

func (c *sessionCall) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Session-Id", c.sessionID)
	c.answer, err = http.DefaultTransport.RoundTrip(r)
	return c.answer, err
}

// ask calls the model without streaming.
func (e endpoint) ask(
	ctx context.Context, sessionID string, messages []openai.ChatCompletionMessage, tools []openai.Tool,
) (openai.ChatCompletionResponse, *turnError) {
	call := &sessionCall{sessionID: sessionID}
	config := openai.DefaultConfig(e.provider.Options.APIKey)
	config.BaseURL, config.HTTPClient = strings.TrimSuffix(e.provider.Options.BaseURL, "/"), &http.Client{Transport: call}
	answer, err := openai.NewClientWithConfig(config).CreateChatCompletion(ctx, openai.ChatCompletionRequest{
		Model: e.ref.ID, Messages: messages, Tools: tools, ReasoningEffort: e.model.Variants[e.ref.Variant].ReasoningEffort,
	})
	if err != nil {
		return answer, call.failure(err)
	}
	return answer, nil
}

// failure classifies the error of a call by the response, if there was one.
func (c *sessionCall) failure(err error) *turnError {
	e := &turnError{Type: "provider.transport", Message: err.Error()}
	if refusal, ok := errors.AsType[*openai.APIError](err); ok {
		e.Message = refusal.Message
	}
	if c.answer == nil || c.answer.StatusCode == http.StatusOK {
		return e
	}
	e.Status, e.after = c.answer.StatusCode, retryafter.Of(c.answer.Header, time.Now())
	switch {
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		e.Type = "provider.auth"
	case e.Status == http.StatusPaymentRequired:
		e.Type = "provider.unknown"
	case e.Status == http.StatusTooManyRequests:
		e.Type = "provider.rate-limit"
	case e.Status >= http.StatusInternalServerError:
		e.Type = "provider.internal"
	default:
		e.Type = "provider.invalid-request"
	}
	return e
}
