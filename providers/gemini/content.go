package gemini

import (
	"math"
	"strings"

	"google.golang.org/genai"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/adapter"
)

func contents(req *providers.Request) []*genai.Content {
	var out []*genai.Content
	for _, m := range req.Messages {
		role := genai.RoleUser
		if m.Role == providers.RoleAssistant {
			role = genai.RoleModel
		}
		out = append(out, &genai.Content{Role: role, Parts: []*genai.Part{{Text: m.Text}}})
	}
	return out
}

func config(req *providers.Request, use adapter.Features) *genai.GenerateContentConfig {
	out := &genai.GenerateContentConfig{
		MaxOutputTokens:       int32(min(req.MaxOutputTokens, math.MaxInt32)),
		AutomaticContinuation: new(false), // one request per attempt
	}
	if req.Effort != "" {
		out.ThinkingConfig = &genai.ThinkingConfig{ThinkingLevel: genai.ThinkingLevel(strings.ToUpper(req.Effort))}
	}
	system := req.System
	if !use.Has(structured) {
		system = adapter.Prompted(req)
	}
	if system != "" {
		out.SystemInstruction = &genai.Content{Parts: []*genai.Part{{Text: system}}}
	}
	if use.Has(jsonMode) {
		out.ResponseMIMEType = "application/json"
	}
	if use.Has(structured) {
		// The SDK's own field would decode the schema and sort its properties, but models answer in their order.
		out.HTTPOptions = &genai.HTTPOptions{ExtrasRequestProvider: func(body map[string]any) map[string]any {
			body["generationConfig"].(map[string]any)["responseJsonSchema"] = req.Schema // next to the MIME type
			return body
		}}
	}
	return out
}

func reply(resp *genai.GenerateContentResponse) adapter.Reply {
	out := adapter.Reply{Response: providers.Response{Model: resp.ModelVersion}}
	if u := resp.UsageMetadata; u != nil { // thoughts are counted apart from the answer; both are billed as output
		out.Usage = boulder.Usage{
			Input:     int64(u.PromptTokenCount) + int64(u.ToolUsePromptTokenCount),
			CacheRead: int64(u.CachedContentTokenCount),
			Output:    int64(u.CandidatesTokenCount) + int64(u.ThoughtsTokenCount),
			Reasoning: int64(u.ThoughtsTokenCount),
		}
	}
	filtered := func(what string, reason, said string) adapter.Reply {
		out.Refused, out.Why = providers.KindContentFilter, strings.TrimSpace(what+" blocked: "+reason+" "+said)
		return out
	}
	if feedback := resp.PromptFeedback; feedback != nil && feedback.BlockReason != "" {
		return filtered("prompt", string(feedback.BlockReason), feedback.BlockReasonMessage)
	}
	if len(resp.Candidates) == 0 || resp.Candidates[0] == nil {
		return adapter.Reply{Missing: "candidates"}
	}
	candidate := resp.Candidates[0]
	switch reason := candidate.FinishReason; reason {
	case genai.FinishReasonSafety, genai.FinishReasonRecitation, genai.FinishReasonLanguage,
		genai.FinishReasonBlocklist, genai.FinishReasonProhibitedContent, genai.FinishReasonSPII:
		return filtered("answer", string(reason), candidate.FinishMessage)
	case genai.FinishReasonMaxTokens, genai.FinishReasonContinuation: // the server wants a request for the rest
		out.Refused = providers.KindTruncated
	}
	if candidate.Content == nil {
		return out
	}
	// The SDK's Text method prints warnings to standard error. There are no parts if thoughts took the whole output limit.
	for _, part := range candidate.Content.Parts {
		if part != nil && !part.Thought {
			out.Text += part.Text
		}
	}
	return out
}
