package openai

import (
	"cmp"
	"errors"
	"fmt"
	"unicode"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/adapter"
)

// body translates a request. go-openai refuses max_tokens for names that look like OpenAI's reasoning models, even on
// other vendors' endpoints; its own validator tells which.
func (e Endpoint) body(req *providers.Request, use adapter.Features) sdk.ChatCompletionRequest {
	body := sdk.ChatCompletionRequest{Model: req.Model, ReasoningEffort: req.Effort}
	system := req.System
	switch {
	case use.Has(string(JSONSchema)):
		body.ResponseFormat = &sdk.ChatCompletionResponseFormat{
			Type: sdk.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &sdk.ChatCompletionResponseFormatJSONSchema{
				// A RawMessage is sent verbatim, with its property order.
				Name: cmp.Or(req.SchemaName, "answer"), Schema: req.Schema, Strict: true,
			},
		}
	case use.Has(string(JSONObject)):
		body.ResponseFormat = &sdk.ChatCompletionResponseFormat{Type: sdk.ChatCompletionResponseFormatTypeJSONObject}
		fallthrough
	default:
		system = adapter.Prompted(req)
	}
	if system != "" {
		body.Messages = append(body.Messages, sdk.ChatCompletionMessage{Role: sdk.ChatMessageRoleSystem, Content: system})
	}
	for _, m := range req.Messages {
		body.Messages = append(body.Messages, sdk.ChatCompletionMessage{Role: string(m.Role), Content: m.Text})
	}
	if e.TokenParam == MaxCompletionTokens {
		body.MaxCompletionTokens = req.MaxOutputTokens
	} else {
		body.MaxTokens = req.MaxOutputTokens //nolint:staticcheck // the only one that older servers know
	}
	if errors.Is(sdk.NewReasoningValidator().Validate(body), sdk.ErrReasoningModelMaxTokensDeprecated) {
		body.MaxCompletionTokens, body.MaxTokens = body.MaxTokens, 0 //nolint:staticcheck // as above
	}
	return body
}

func reply(sent *sdk.ChatCompletionRequest, resp *sdk.ChatCompletionResponse) adapter.Reply {
	if len(resp.Choices) == 0 {
		return adapter.Reply{Missing: "choices"}
	}
	choice := resp.Choices[0]
	if choice.FinishReason == "error" { // an outage behind a gateway
		return adapter.Reply{Missing: "whole text (finish_reason error)"}
	}
	out := adapter.Reply{Response: providers.Response{
		Text: choice.Message.Content, Model: resp.Model, Usage: usage(resp.Usage),
	}}
	switch cut := promptCut(sent, out.Usage); {
	case cut != "":
		out.Refused, out.Why = providers.KindContextLength, cut
	case choice.Message.Refusal != "" || choice.FinishReason == sdk.FinishReasonContentFilter:
		out.Refused = providers.KindContentFilter
		out.Why = cmp.Or(choice.Message.Refusal, "finish_reason content_filter")
	case choice.FinishReason == sdk.FinishReasonLength:
		out.Refused = providers.KindTruncated
	}
	return out
}

// usage normalizes: OpenAI includes reasoning in the completion tokens, xAI does not. The total shows which.
func usage(u sdk.Usage) boulder.Usage {
	out := boulder.Usage{Input: int64(u.PromptTokens), Output: int64(u.CompletionTokens)}
	if u.PromptTokensDetails != nil {
		out.CacheRead = int64(u.PromptTokensDetails.CachedTokens)
	}
	if u.CompletionTokensDetails != nil {
		out.Reasoning = int64(u.CompletionTokensDetails.ReasoningTokens)
	}
	if out.Reasoning > 0 && int64(u.TotalTokens) == out.Input+out.Output+out.Reasoning {
		out.Output += out.Reasoning
	}
	return out
}

// promptCut detects a server that silently read only the end of the prompt, as Ollama does at its default of 4,096
// tokens: a verdict on unread evidence is worse than an error. Tokenizers reach about four letters or digits per token
// in any language, so six prove it. Counts below 1,500 are ignored: no default context is that small.
func promptCut(sent *sdk.ChatCompletionRequest, spent boulder.Usage) string {
	const lettersPerToken, tooSmallToTell = 6, 1500
	var letters int64
	for _, m := range sent.Messages {
		for _, r := range m.Content {
			if unicode.IsLetter(r) || unicode.IsDigit(r) {
				letters++
			}
		}
	}
	if spent.Input < tooSmallToTell || letters < spent.Input*lettersPerToken {
		return ""
	}
	return fmt.Sprintf("the server counted %d tokens in a prompt of %d letters, so it read only a part; raise its "+
		"context length (Ollama: OLLAMA_CONTEXT_LENGTH)", spent.Input, letters)
}
