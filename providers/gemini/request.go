package gemini

import (
	"math"
	"strconv"
	"strings"

	"google.golang.org/genai"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/prompted"
)

func contents(req *providers.Request) []*genai.Content {
	out := make([]*genai.Content, 0, len(req.Messages))
	for _, m := range req.Messages {
		role := genai.RoleUser
		if m.Role == providers.RoleAssistant {
			role = genai.RoleModel
		}
		out = append(out, &genai.Content{Role: role, Parts: []*genai.Part{{Text: m.Text}}})
	}
	return out
}

func config(req *providers.Request, ask features) *genai.GenerateContentConfig {
	out := &genai.GenerateContentConfig{
		MaxOutputTokens:       int32(min(req.MaxOutputTokens, math.MaxInt32)),
		AutomaticContinuation: new(false), // one request for each attempt
	}
	system := req.System
	if req.Schema != nil && !ask.Has(structured) {
		system = prompted.System(req)
	}
	if system != "" {
		out.SystemInstruction = &genai.Content{Parts: []*genai.Part{{Text: system}}}
	}
	if req.Temperature != nil {
		out.Temperature = new(float32(*req.Temperature))
	}
	if ask.Has(thinking) {
		out.ThinkingConfig = thinkingConfig(req.Effort)
	}
	if ask.Has(jsonMode) {
		out.ResponseMIMEType = "application/json"
	}
	if ask.Has(structured) {
		out.HTTPOptions = &genai.HTTPOptions{ExtrasRequestProvider: addSchema(req)}
	}
	return out
}

// addSchema puts the schema into the body as it is. The SDK's own field would decode it and sort its properties, and
// their order is the one in which current models answer.
func addSchema(req *providers.Request) func(map[string]any) map[string]any {
	return func(body map[string]any) map[string]any {
		generation, ok := body["generationConfig"].(map[string]any)
		if !ok {
			generation = make(map[string]any)
			body["generationConfig"] = generation
		}
		generation["responseJsonSchema"] = req.Schema
		return body
	}
}

// thinkingConfig takes a number as a budget of tokens and anything else as a level.
func thinkingConfig(effort string) *genai.ThinkingConfig {
	if budget, err := strconv.ParseInt(effort, 10, 32); err == nil {
		return &genai.ThinkingConfig{ThinkingBudget: new(int32(budget))}
	}
	return &genai.ThinkingConfig{ThinkingLevel: genai.ThinkingLevel(strings.ToUpper(effort))}
}
