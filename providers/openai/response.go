package openai

import (
	"fmt"
	"unicode"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/transport"
)

// response translates an answer with status 200, which need not be a success.
func (c *Client) response(
	req *providers.Request, sent *sdk.ChatCompletionRequest, resp *sdk.ChatCompletionResponse, answer *transport.Answer,
) (*providers.Response, *providers.Error) {
	if len(resp.Choices) == 0 {
		return nil, c.failures.Failed(req.Model, answer, nil)
	}
	spent := usage(resp.Usage)
	if err := promptCut(sent, spent); err != nil {
		return nil, c.failures.Refused(req.Model, answer, providers.KindContextLength, err.Error(), spent)
	}
	choice := resp.Choices[0]
	switch {
	case choice.Message.Refusal != "":
		return nil, c.failures.Refused(req.Model, answer, providers.KindContentFilter, choice.Message.Refusal, spent)
	case choice.FinishReason == sdk.FinishReasonContentFilter:
		return nil, c.failures.Refused(req.Model, answer, providers.KindContentFilter, "finish_reason content_filter", spent)
	case choice.FinishReason == sdk.FinishReasonLength && req.Schema != nil:
		return nil, c.failures.Refused(req.Model, answer, providers.KindTruncated, "", spent)
	}
	model := resp.Model
	if model == "" {
		model = req.Model
	}
	return &providers.Response{
		Text:      choice.Message.Content,
		Stop:      stop(choice.FinishReason),
		Provider:  c.endpoint.Name,
		Model:     model,
		RequestID: answer.Header.Get("X-Request-Id"),
		Usage:     spent,
	}, nil
}

func stop(reason sdk.FinishReason) providers.Stop {
	switch reason {
	case sdk.FinishReasonStop:
		return providers.StopEnd
	case sdk.FinishReasonLength:
		return providers.StopLength
	default:
		return providers.StopOther
	}
}

// usage normalises: OpenAI counts reasoning inside of the completion tokens, xAI beside them. The total tells which.
func usage(u sdk.Usage) providers.Usage {
	out := providers.Usage{Input: int64(u.PromptTokens), Output: int64(u.CompletionTokens)}
	if u.PromptTokensDetails != nil {
		out.CachedInput = int64(u.PromptTokensDetails.CachedTokens)
	}
	if u.CompletionTokensDetails != nil {
		out.Reasoning = int64(u.CompletionTokensDetails.ReasoningTokens)
	}
	if out.Reasoning > 0 && int64(u.TotalTokens) == out.Input+out.Output+out.Reasoning {
		out.Output += out.Reasoning
	}
	return out
}

// promptCut recognises a server that silently read only the end of the prompt, as Ollama does at its default of 4,096
// tokens: a verdict on evidence that nobody read is worse than an error. Six letters or digits per token is more than
// tokenisers reach on prose or code of any language (about four), so an honest count is never this low. Counts below
// 1,500 are not looked at: no server's default context is that small.
func promptCut(sent *sdk.ChatCompletionRequest, spent providers.Usage) error {
	const lettersPerToken, tooSmallToTell = 6, 1500
	if spent.Input < tooSmallToTell {
		return nil
	}
	var letters int64
	for _, m := range sent.Messages {
		for _, r := range m.Content {
			if unicode.IsLetter(r) || unicode.IsDigit(r) {
				letters++
			}
		}
	}
	if letters < spent.Input*lettersPerToken {
		return nil
	}
	return fmt.Errorf("the server counted %d tokens in a prompt of %d letters, so it read only a part; raise its "+
		"context length (Ollama: OLLAMA_CONTEXT_LENGTH)", spent.Input, letters)
}
