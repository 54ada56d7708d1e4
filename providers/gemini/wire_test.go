package gemini_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/providerstest"
)

var wire = providerstest.Protocol{
	Asks: func(r *http.Request) bool {
		_, method := called(r)
		return r.Method == http.MethodPost && method == "generateContent" && r.URL.RawQuery == ""
	},
	Decode: decode, Answer: answer, Fail: fail,
}.Wire

// called parses a path: /v1beta/models/MODEL:METHOD.
func called(r *http.Request) (model, method string) {
	model, method, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1beta/models/"), ":")
	return model, method
}

type content struct {
	Role  string
	Parts []struct{ Text string }
}

func decode(r *http.Request) (providerstest.Seen, error) {
	var body struct {
		SystemInstruction content
		Contents          []content
		GenerationConfig  struct {
			MaxOutputTokens    int
			ThinkingConfig     struct{ ThinkingLevel string }
			ResponseMimeType   string
			ResponseJSONSchema json.RawMessage `json:"responseJsonSchema"`
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return providerstest.Seen{}, err
	}
	model, _ := called(r)
	seen := providerstest.Seen{
		Effort: strings.ToLower(body.GenerationConfig.ThinkingConfig.ThinkingLevel), Model: model, Key: r.Header.Get("X-Goog-Api-Key"), MaxOutputTokens: body.GenerationConfig.MaxOutputTokens,
		Schema: body.GenerationConfig.ResponseJSONSchema,
	}
	for _, part := range body.SystemInstruction.Parts {
		seen.System += part.Text
	}
	for _, c := range body.Contents {
		role := map[string]providers.Role{"user": providers.RoleUser, "model": providers.RoleAssistant}[c.Role]
		seen.Messages = append(seen.Messages, providers.Message{Role: role, Text: c.Parts[0].Text})
	}
	return seen, nil
}

func answer(model string, reply providerstest.Reply) []byte {
	text, _ := json.Marshal(reply.Text)
	stop := map[bool]string{false: "STOP", true: "MAX_TOKENS"}[reply.Cut]
	u := reply.Usage
	return fmt.Appendf(nil, `{"candidates":[{"content":{"role":"model","parts":[
		{"text":"Let me think.","thought":true},{"text":%s,"thoughtSignature":"c2ln"}]},"finishReason":%q,"index":0}],
		"modelVersion":%q,
		"usageMetadata":{"promptTokenCount":%d,"toolUsePromptTokenCount":1,"cachedContentTokenCount":%d,"candidatesTokenCount":%d,
		"thoughtsTokenCount":%d,"totalTokenCount":%d}}`,
		text, stop, model+"-001", u.Input-1, u.CacheRead, u.Output-u.Reasoning, u.Reasoning, u.Tokens())
}

func fail(w http.ResponseWriter, reply providerstest.Reply) {
	if reply.Fault == providerstest.FaultFiltered { // no error on the wire
		_, _ = w.Write([]byte(`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},
			"usageMetadata":{"promptTokenCount":9,"totalTokenCount":9}}`))
		return
	}
	as := map[providerstest.Fault]struct {
		code                  int
		status, text, details string
	}{
		providerstest.FaultAuth: {code: 400, status: "INVALID_ARGUMENT",
			details: `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}`},
		providerstest.FaultQuota: {code: 429, status: "RESOURCE_EXHAUSTED",
			details: `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[
				{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}`},
		providerstest.FaultRateLimit: {code: 429, status: "RESOURCE_EXHAUSTED",
			text: "You exceeded your current quota, please check your plan and billing details.",
			details: `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[
				{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]}`},
		providerstest.FaultOverloaded: {code: 503, status: "UNAVAILABLE", text: "The model is overloaded."},
		providerstest.FaultContextLength: {code: 400, status: "INVALID_ARGUMENT",
			text: "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."},
		providerstest.FaultUnknownModel: {code: 404, status: "NOT_FOUND", text: "models/some-model is not found"},
		providerstest.FaultInternal:     {code: 500, status: "INTERNAL"},
	}[reply.Fault]
	if as.text == "" {
		as.text = reply.Message
	}
	details := []string{`{"@type":"type.googleapis.com/google.rpc.Help","links":[{"url":"https://example.com"}]}`}
	if as.details != "" {
		details = append(details, as.details)
	}
	if reply.RetryAfter > 0 {
		details = append(details, fmt.Sprintf(
			`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"%ds"}`, reply.RetryAfter/time.Second))
	}
	w.WriteHeader(as.code)
	_, _ = fmt.Fprintf(w, `{"error":{"code":%d,"message":%q,"status":%q,"details":[%s]}}`,
		as.code, as.text, as.status, strings.Join(details, ","))
}
