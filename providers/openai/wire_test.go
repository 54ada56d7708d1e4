package openai_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/providerstest"
)

var wire = providerstest.Protocol{
	Asks: func(r *http.Request) bool {
		return r.Method == http.MethodPost && r.URL.Path == "/v1/chat/completions"
	},
	Decode: decode, Answer: completion, Fail: fail,
}.Wire

func decode(r *http.Request) (providerstest.Seen, error) {
	var body struct {
		Model               string
		ReasoningEffort     string `json:"reasoning_effort"`
		Messages            []struct{ Role, Content string }
		MaxTokens           int `json:"max_tokens"`
		MaxCompletionTokens int `json:"max_completion_tokens"`
		ResponseFormat      struct {
			Type       string
			JSONSchema struct {
				Name   string
				Schema json.RawMessage
				Strict bool
			} `json:"json_schema"`
		} `json:"response_format"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return providerstest.Seen{}, err
	}
	seen := providerstest.Seen{
		Key:             strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "),
		Model:           body.Model,
		Effort:          body.ReasoningEffort,
		Schema:          body.ResponseFormat.JSONSchema.Schema,
		MaxOutputTokens: body.MaxTokens + body.MaxCompletionTokens,
	}
	for _, m := range body.Messages {
		if m.Role == "system" {
			seen.System = m.Content
			continue
		}
		seen.Messages = append(seen.Messages, providers.Message{Role: providers.Role(m.Role), Text: m.Content})
	}
	return seen, nil
}

func completion(model string, reply providerstest.Reply) []byte {
	text, _ := json.Marshal(reply.Text)
	finish := map[bool]string{false: "stop", true: "length"}[reply.Cut]
	u := reply.Usage
	return fmt.Appendf(nil, `{"id":"c-1","object":"chat.completion","created":1,"model":%q,
		"choices":[{"index":0,"message":{"role":"assistant","content":%s,"refusal":null},"finish_reason":%q}],
		"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,
		"prompt_tokens_details":{"cached_tokens":%d},"completion_tokens_details":{"reasoning_tokens":%d}}}`,
		model+"-2026-11-01", text, finish, u.Input, u.Output, u.Input+u.Output, u.CacheRead, u.Reasoning)
}

func fail(w http.ResponseWriter, reply providerstest.Reply) {
	as := map[providerstest.Fault]struct {
		status     int
		kind, code string
	}{
		providerstest.FaultAuth:          {401, "invalid_request_error", "invalid_api_key"},
		providerstest.FaultQuota:         {429, "insufficient_quota", "insufficient_quota"},
		providerstest.FaultRateLimit:     {429, "requests", "rate_limit_exceeded"},
		providerstest.FaultOverloaded:    {503, "server_error", ""},
		providerstest.FaultContextLength: {400, "invalid_request_error", "context_length_exceeded"},
		providerstest.FaultFiltered:      {400, "invalid_request_error", "content_filter"},
		providerstest.FaultUnknownModel:  {404, "invalid_request_error", "model_not_found"},
		providerstest.FaultInternal:      {500, "server_error", ""},
	}[reply.Fault]
	providerstest.SetRetryAfter(w.Header(), reply)
	code := "null"
	if as.code != "" {
		code = fmt.Sprintf("%q", as.code)
	}
	w.WriteHeader(as.status)
	_, _ = fmt.Fprintf(w, `{"error":{"message":%q,"type":%q,"param":null,"code":%s}}`, reply.Message, as.kind, code)
}
