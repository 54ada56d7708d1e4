package anthropic

import (
	"cmp"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/transport"
)

// response translates an answer with status 200, which need not be a success: an overload that comes up while the model
// works is reported like that.
func (c *Client) response(
	req *providers.Request, message *sdk.Message, answer *transport.Answer,
) (*providers.Response, *providers.Error) {
	if message.Type != "message" || message.StopReason == "" {
		return nil, c.failures.Failed(req.Model, answer, nil)
	}
	spent := usage(message.Usage)
	refused := func(kind providers.Kind, text string) (*providers.Response, *providers.Error) {
		return nil, c.failures.Refused(req.Model, answer, kind, text, spent)
	}
	switch message.StopReason {
	case sdk.StopReasonRefusal:
		return refused(providers.KindContentFilter, cmp.Or(text(message), "stop_reason refusal"))
	case sdk.StopReasonModelContextWindowExceeded:
		return refused(providers.KindContextLength, "the answer did not fit into what the request left of the context")
	case sdk.StopReasonMaxTokens:
		if req.Schema != nil {
			return refused(providers.KindTruncated, "")
		}
	}
	return &providers.Response{
		Text:      text(message),
		Stop:      stop(message.StopReason),
		Provider:  name,
		Model:     cmp.Or(message.Model, req.Model),
		RequestID: answer.Header.Get("Request-Id"),
		Usage:     spent,
	}, nil
}

// text gives the argument of the forced tool where it was called, and else the text without the model's thoughts.
func text(message *sdk.Message) string {
	var b strings.Builder
	for _, block := range message.Content {
		switch block.Type {
		case "tool_use":
			return string(block.Input)
		case "text":
			b.WriteString(block.Text)
		}
	}
	return b.String()
}

func stop(reason sdk.StopReason) providers.Stop {
	switch reason {
	case sdk.StopReasonEndTurn, sdk.StopReasonStopSequence, sdk.StopReasonToolUse:
		return providers.StopEnd
	case sdk.StopReasonMaxTokens:
		return providers.StopLength
	default:
		return providers.StopOther
	}
}

// usage normalises: Anthropic counts what was read from and written to a cache beside the input.
func usage(u sdk.Usage) providers.Usage {
	return providers.Usage{
		Input:       u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens,
		CachedInput: u.CacheReadInputTokens,
		CacheWrite:  u.CacheCreationInputTokens,
		Output:      u.OutputTokens,
		Reasoning:   u.OutputTokensDetails.ThinkingTokens,
	}
}
