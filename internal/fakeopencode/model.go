package fakeopencode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/tmaxmax/go-sse"

	"github.com/bouldermgr/manager/internal/retryafter"
)

// endpoint is a model at a provider that speaks OpenAI's chat completions.
type endpoint struct {
	provider provider
	model    model
	id       string
	retry    time.Duration // before the first try after a failure; it doubles
}

// maxRetries are the tries after the first one. Then the turn fails.
const maxRetries = 4

// maxChunk is the most that one event of an answer may be, in bytes.
const maxChunk = 16 << 20

// providerError is how a call of the model failed.
type providerError struct {
	turnError
	after time.Duration // what the provider asked to wait
}

// retryable reports whether the same call may succeed later.
func (e *providerError) retryable() bool {
	switch e.Type {
	case "provider.rate-limit", "provider.internal", "provider.transport":
		return true
	}
	return false
}

// stream asks the model and passes on the answer, piece by piece.
func (e endpoint) stream(
	ctx context.Context, sessionID string, messages []openai.ChatCompletionMessage, tools []openai.Tool,
	take func(openai.ChatCompletionStreamResponse),
) error {
	body, err := json.Marshal(openai.ChatCompletionRequest{
		Model: e.id, Messages: messages, Tools: tools, Stream: true, StreamOptions: &openai.StreamOptions{IncludeUsage: true},
	})
	if err != nil {
		return err
	}
	url := strings.TrimSuffix(e.provider.Options.BaseURL, "/") + "/chat/completions"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+e.provider.Options.APIKey)
	req.Header.Set("X-Session-Id", sessionID)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return &providerError{turnError: turnError{Type: "provider.transport", Message: err.Error()}}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusal(resp)
	}
	finished := false
	for event, err := range sse.Read(resp.Body, &sse.ReadConfig{MaxEventSize: maxChunk}) {
		if err != nil {
			return &providerError{turnError: turnError{Type: "provider.transport", Message: err.Error()}}
		}
		if event.Data == "[DONE]" {
			break
		}
		var piece openai.ChatCompletionStreamResponse
		if err := json.Unmarshal([]byte(event.Data), &piece); err != nil {
			return &providerError{turnError: turnError{Type: "provider.invalid-output", Message: err.Error()}}
		}
		for _, choice := range piece.Choices {
			finished = finished || choice.FinishReason != ""
		}
		take(piece)
	}
	if !finished {
		return &providerError{turnError: turnError{Type: "provider.transport", Message: "The stream ended early"}}
	}
	return nil
}

// refusal classifies an HTTP error of the provider.
func refusal(resp *http.Response) error {
	body, _ := io.ReadAll(resp.Body)
	var said struct{ Error struct{ Message string } }
	_ = json.Unmarshal(body, &said)
	e := &providerError{
		turnError: turnError{Type: "provider.invalid-request", Message: said.Error.Message, Status: resp.StatusCode},
		after:     retryafter.Of(resp.Header, time.Now()),
	}
	if e.Message == "" {
		e.Message = string(body)
	}
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		e.Type = "provider.auth"
	case resp.StatusCode == http.StatusPaymentRequired:
		e.Type = "provider.unknown"
	case resp.StatusCode == http.StatusTooManyRequests:
		e.Type = "provider.rate-limit"
	case resp.StatusCode >= http.StatusInternalServerError:
		e.Type = "provider.internal"
	}
	return e
}

// asProviderError is the part of err that a turn can tell of.
func asProviderError(err error) *providerError {
	if e, ok := errors.AsType[*providerError](err); ok {
		return e
	}
	return &providerError{turnError: turnError{Type: "unknown", Message: err.Error()}}
}
