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

// turnError says why a turn or a tool failed. It is what a failing step, and a failing tool, returns.
type turnError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Status  int    `json:"status,omitempty"` // of the provider

	after time.Duration // what the provider asked to wait
	said  bool          // the message has the words of a user
}

func (e *turnError) Error() string { return e.Message }

// passing are the errors after which the same call may succeed later.
var passing = []string{"provider.rate-limit", "provider.internal", "provider.transport"}

// endpoint is a model at a provider that speaks OpenAI's chat completions.
type endpoint struct {
	ref      modelRef
	provider provider
	model    model
}

// maxRetries are the tries after the first one. Then the turn fails.
const maxRetries = 4

// sessionCall adds the session to a call of a provider, and keeps what the answer begins with.
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

// ask asks the model. Its answer comes whole.
func (e endpoint) ask(
	ctx context.Context, sessionID string, messages []openai.ChatCompletionMessage, tools []openai.Tool,
) (openai.ChatCompletionResponse, *turnError) {
	call := &sessionCall{sessionID: sessionID}
	config := openai.DefaultConfig(e.provider.Options.APIKey)
	config.BaseURL, config.HTTPClient = strings.TrimSuffix(e.provider.Options.BaseURL, "/"), &http.Client{Transport: call}
	answer, err := openai.NewClientWithConfig(config).CreateChatCompletion(ctx, openai.ChatCompletionRequest{
		Model: e.ref.ID, Messages: messages, Tools: tools,
	})
	if err != nil {
		return answer, call.failure(err)
	}
	return answer, nil
}

// failure says what became of a call that was not answered, or refused.
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
