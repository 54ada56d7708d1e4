package openai

import (
	"errors"
	"math"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/prompted"
)

// body translates a request. go-openai refuses some parameters for models whose names look like reasoning models of
// OpenAI, also on other vendors' endpoints; its own validator is asked which, and those are left out or renamed.
func (c *Client) body(req *providers.Request, format Structured) sdk.ChatCompletionRequest {
	body := sdk.ChatCompletionRequest{
		Model:           req.Model,
		Messages:        messages(req, format),
		ReasoningEffort: req.Effort,
		ResponseFormat:  responseFormat(req, format),
	}
	if c.endpoint.TokenParam == MaxCompletionTokens {
		body.MaxCompletionTokens = req.MaxOutputTokens
	} else {
		body.MaxTokens = req.MaxOutputTokens //nolint:staticcheck // the only one that older servers know
	}
	if req.Temperature != nil {
		body.Temperature = temperature(*req.Temperature)
	}

	validator := sdk.NewReasoningValidator()
	if errors.Is(validator.Validate(body), sdk.ErrReasoningModelMaxTokensDeprecated) {
		body.MaxCompletionTokens, body.MaxTokens = body.MaxTokens, 0 //nolint:staticcheck // as above
	}
	if err := validator.Validate(body); errors.Is(err, sdk.ErrReasoningModelLimitationsOther) ||
		errors.Is(err, sdk.ErrReasoningSamplingUnsupported) {
		body.Temperature = 0
	}
	return body
}

// temperature keeps a wanted zero from being dropped by omitempty.
func temperature(t float64) float32 {
	if t == 0 {
		return math.SmallestNonzeroFloat32
	}
	return float32(t)
}

func messages(req *providers.Request, format Structured) []sdk.ChatCompletionMessage {
	system := req.System
	if req.Schema != nil && format != JSONSchema {
		system = prompted.System(req)
	}
	out := make([]sdk.ChatCompletionMessage, 0, len(req.Messages)+1)
	if system != "" {
		out = append(out, sdk.ChatCompletionMessage{Role: sdk.ChatMessageRoleSystem, Content: system})
	}
	for _, m := range req.Messages {
		out = append(out, sdk.ChatCompletionMessage{Role: string(m.Role), Content: m.Text})
	}
	return out
}

func responseFormat(req *providers.Request, format Structured) *sdk.ChatCompletionResponseFormat {
	switch {
	case req.Schema == nil || format == Prompted:
		return nil
	case format == JSONObject:
		return &sdk.ChatCompletionResponseFormat{Type: sdk.ChatCompletionResponseFormatTypeJSONObject}
	}
	name := req.SchemaName
	if name == "" {
		name = "answer"
	}
	return &sdk.ChatCompletionResponseFormat{
		Type: sdk.ChatCompletionResponseFormatTypeJSONSchema,
		JSONSchema: &sdk.ChatCompletionResponseFormatJSONSchema{
			Name: name, Schema: req.Schema, Strict: true, // a RawMessage goes out verbatim, property order kept
		},
	}
}
