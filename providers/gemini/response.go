package gemini

import (
	"cmp"
	"strings"

	"google.golang.org/genai"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/transport"
)

// response translates an answer with status 200, which need not be a success.
func (c *Client) response(
	req *providers.Request, resp *genai.GenerateContentResponse, answer *transport.Answer,
) (*providers.Response, *providers.Error) {
	spent := usage(resp.UsageMetadata)
	refused := func(kind providers.Kind, text string) (*providers.Response, *providers.Error) {
		return nil, c.failures.Refused(req.Model, answer, kind, text, spent)
	}
	if feedback := resp.PromptFeedback; feedback != nil && feedback.BlockReason != "" {
		return refused(providers.KindContentFilter,
			strings.TrimSpace("prompt blocked: "+string(feedback.BlockReason)+" "+feedback.BlockReasonMessage))
	}
	if len(resp.Candidates) == 0 || resp.Candidates[0] == nil {
		return nil, c.failures.Failed(req.Model, answer, nil)
	}
	candidate := resp.Candidates[0]
	if filtered(candidate.FinishReason) {
		return refused(providers.KindContentFilter,
			strings.TrimSpace("answer blocked: "+string(candidate.FinishReason)+" "+candidate.FinishMessage))
	}
	stopped := stop(candidate.FinishReason)
	if stopped == providers.StopLength && req.Schema != nil {
		return refused(providers.KindTruncated, "")
	}
	return &providers.Response{
		Text:      text(candidate.Content),
		Stop:      stopped,
		Provider:  name,
		Model:     cmp.Or(resp.ModelVersion, req.Model),
		RequestID: cmp.Or(answer.Header.Get("X-Goog-Request-Id"), resp.ResponseID),
		Usage:     spent,
	}, nil
}

// text joins the parts without the model's thoughts. There are none at all when the thoughts took the whole output
// limit. The SDK's Text method would print a warning to standard error.
func text(content *genai.Content) string {
	if content == nil {
		return ""
	}
	var b strings.Builder
	for _, part := range content.Parts {
		if part != nil && !part.Thought {
			b.WriteString(part.Text)
		}
	}
	return b.String()
}

func filtered(reason genai.FinishReason) bool {
	switch reason {
	case genai.FinishReasonSafety, genai.FinishReasonRecitation, genai.FinishReasonLanguage,
		genai.FinishReasonBlocklist, genai.FinishReasonProhibitedContent, genai.FinishReasonSPII:
		return true
	default:
		return false
	}
}

func stop(reason genai.FinishReason) providers.Stop {
	switch reason {
	case genai.FinishReasonStop:
		return providers.StopEnd
	// After CONTINUATION the server wants to be asked for the rest.
	case genai.FinishReasonMaxTokens, genai.FinishReasonContinuation:
		return providers.StopLength
	default:
		return providers.StopOther
	}
}

// usage normalises: Gemini counts thoughts beside the answer; both are billed as output.
func usage(u *genai.GenerateContentResponseUsageMetadata) providers.Usage {
	if u == nil {
		return providers.Usage{}
	}
	return providers.Usage{
		Input:       int64(u.PromptTokenCount) + int64(u.ToolUsePromptTokenCount),
		CachedInput: int64(u.CachedContentTokenCount),
		Output:      int64(u.CandidatesTokenCount) + int64(u.ThoughtsTokenCount),
		Reasoning:   int64(u.ThoughtsTokenCount),
	}
}
