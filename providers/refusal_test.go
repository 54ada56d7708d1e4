package providers_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/openai"
	ocprovider "github.com/bouldermgr/manager/providers/opencode"
)

// refusals are answers as providers give them, by what is expected of both ways to a model. %s is eight hours ahead,
// without a zone.
var refusals = map[string]struct {
	status int
	header map[string]string
	body   string
	kind   providers.Kind
	wait   time.Duration // up to a second less
	guess  bool
}{
	"zhipu: no balance, by number and in Chinese": {status: 429, kind: providers.KindQuota,
		body: `{"error":{"code":"1113","message":"余额不足或无可用资源包,请充值。"}}`},
	"zhipu: locked account": {status: 429, kind: providers.KindAuth, body: `{"error":{"code":"1112","message":"您的账户已被锁定"}}`},
	"zhipu: concurrency":    {status: 429, kind: providers.KindRateLimit, body: `{"error":{"code":1302,"message":"您的账户已达到速率限制"}}`},
	"zhipu: overload":       {status: 429, kind: providers.KindOverloaded, body: `{"error":{"code":"1305","message":"该模型当前访问量过大"}}`},
	"zhipu: a stamp without a zone beside an exact header": {status: 429, header: map[string]string{"retry-after-ms": "997000"},
		body: `{"type":"error","error":{"type":"rate_limit_error","code":"1308","message":"[1308][Usage limit reached for 5 hour.` +
			` Your limit will reset at %s][id]"}}`, kind: providers.KindRateLimit, wait: 997 * time.Second},
	"zhipu: a stamp without a zone alone": {status: 429, kind: providers.KindRateLimit, guess: true,
		body: `{"error":{"code":"1308","message":"Usage limit reached for 5 hour. Your limit will reset at %s"}}`},
	"siliconflow: balance":      {status: 403, kind: providers.KindQuota, body: `{"code":30001,"message":"Sorry, your account balance is insufficient","data":null}`},
	"siliconflow: paid balance": {status: 403, kind: providers.KindQuota, body: `{"code":30011,"message":"Sorry, your paid balance is insufficient."}`},
	"deepseek":                  {status: 402, kind: providers.KindQuota, body: `{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}`},
	"moonshot":                  {status: 429, kind: providers.KindQuota, body: `{"error":{"message":"Your account is suspended, please check your plan","type":"exceeded_current_quota_error"}}`},
	"moonshot: overload":        {status: 429, kind: providers.KindOverloaded, body: `{"error":{"message":"The engine is currently overloaded","type":"engine_overloaded_error"}}`},
	"minimax: with 200":         {status: 200, kind: providers.KindQuota, body: `{"choices":null,"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`},
	"minimax: rate limit":       {status: 200, kind: providers.KindRateLimit, body: `{"base_resp":{"status_code":1002,"status_msg":"rate limit"}}`},
	"volcengine: paused":        {status: 429, kind: providers.KindQuota, body: `{"error":{"code":"SetLimitExceeded","message":"Your account has reached the set inference limit","type":"TooManyRequests"}}`},
	"volcengine: overdue":       {status: 403, kind: providers.KindQuota, body: `{"error":{"code":"AccountOverdueError","message":"The request failed","type":"Forbidden"}}`},
	"volcengine: a window, with an offset": {status: 429, kind: providers.KindRateLimit, wait: time.Hour, header: map[string]string{"retry-after": "3600"},
		body: `{"error":{"code":"AccountQuotaExceeded","message":"You have exceeded the 5-hour usage quota. It will reset at %s"}}`},
	"dashscope":                 {status: 400, kind: providers.KindQuota, body: `{"code":"Arrearage","message":"Access denied, please make sure your account is in good standing."}`},
	"dashscope: free tier only": {status: 403, kind: providers.KindQuota, body: `{"error":{"code":"AllocationQuota.FreeTierOnly","message":"The free tier of the model has been exhausted."}}`},
	"openrouter: no credit":     {status: 402, kind: providers.KindQuota, body: `{"error":{"message":"This request requires more credits","code":402}}`},
	"openrouter: the key's own limit": {status: 403, kind: providers.KindQuota,
		body: `{"error":{"message":"Key limit exceeded (total limit). Manage it using https://example.com/settings/keys","code":403}}`},
	"openrouter: the upstream's error in raw": {status: 429, kind: providers.KindQuota,
		body: `{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"{\"error\":{\"type\":\"insufficient_quota\"}}","provider_name":"P"}}}`},
	"openrouter: raw is words": {status: 429, kind: providers.KindRateLimit,
		body: `{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"m is temporarily rate-limited upstream"}}}`},
	"openrouter: the reset in headers of the body": {status: 429, kind: providers.KindRateLimit, wait: 20 * time.Minute,
		body: `{"error":{"message":"Rate limit exceeded: free-models-per-day. Add 10 credits to unlock more","code":429,` +
			`"metadata":{"headers":{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"%d"}}}}`},
	"openai: no credit, by code and type": {status: 429, kind: providers.KindQuota,
		body: `{"error":{"message":"You have no credits remaining. Add credits to continue.","type":"insufficient_quota","code":"credit_balance_exhausted"}}`},
	"openai: tokens per minute": {status: 429, kind: providers.KindRateLimit, wait: 20 * time.Second,
		body: `{"error":{"message":"Rate limit reached for gpt on tokens per min. Please try again in 20s.","type":"tokens","code":"rate_limit_exceeded"}}`},
	"codex: seconds": {status: 429, kind: providers.KindRateLimit, wait: 70 * time.Minute,
		body: `{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus","resets_in_seconds":4200}}`},
	"codex: the reset is in the past": {status: 429, kind: providers.KindRateLimit,
		body: `{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","resets_at":1764000000}}`},
	"xai": {status: 403, kind: providers.KindQuota,
		body: `{"code":"The caller does not have permission","error":"Your team has used all available credits or reached its monthly spending limit."}`},
	"xai: a new team": {status: 403, kind: providers.KindQuota, body: `{"code":"permission-denied","error":"Your newly created team doesn't have any credits yet."}`},
	"gemini: per minute": {status: 429, kind: providers.KindRateLimit, wait: 37 * time.Second,
		body: `[{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[` +
			`{"violations":[{"quotaId":"RequestsPerMinutePerProject"}]},{"retryDelay":"37s"}]}}]`},
	"gemini: per day": {status: 429, kind: providers.KindQuota, wait: 37 * time.Second,
		body: `{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[` +
			`{"violations":[{"quotaId":"GenerateRequestsPerDayPerProject"}]},{"retryDelay":"37s"}]}}`},
	"anthropic: credit": {status: 400, kind: providers.KindQuota,
		body: `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}`},
	"a spend limit with its end days ahead": {status: 429, header: map[string]string{"retry-after-ms": "274579000"},
		body: `{"error":{"message":"You have reached your monthly spend limit."}}`, kind: providers.KindRateLimit, wait: 274579 * time.Second},
	"copilot":               {status: 429, kind: providers.KindQuota, body: `{"error":{"message":"You have exceeded your monthly quota","code":"quota_exceeded"}}`},
	"a wrong key stays one": {status: 401, kind: providers.KindAuth, body: `{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}`},
	"a date in the header": {status: 429, kind: providers.KindRateLimit, wait: 90 * time.Second, body: `{}`,
		header: map[string]string{"Date": "Thu, 26 Nov 2026 18:00:00 GMT", "Retry-After": "Thu, 26 Nov 2026 18:01:30 GMT"}},
}

// A refusal means the same, whether the provider is called directly or through OpenCode.
func TestRefusalsMeanTheSameBothWays(t *testing.T) {
	t.Parallel()
	for name, tt := range refusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := tt.body
			switch {
			case name == "openrouter: the reset in headers of the body":
				body = fmt.Sprintf(body, time.Now().Add(tt.wait).UnixMilli())
			case tt.guess || tt.header["retry-after-ms"] == "997000" || tt.wait == time.Hour:
				body = fmt.Sprintf(body, time.Now().Add(8*time.Hour).Format(time.DateTime))
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				for key, value := range tt.header {
					w.Header().Set(key, value)
				}
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(body))
			}))
			defer server.Close()
			c, err := openai.New(openai.Endpoint{Name: "p", BaseURL: server.URL}, providers.Key{}, openai.Options{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Complete(t.Context(), &providers.Request{
				Model: "m", Schema: json.RawMessage(`{}`), Messages: []providers.Message{{Role: providers.RoleUser, Text: "?"}},
			})
			direct, _ := errors.AsType[*providers.Error](err)
			wire, err := json.Marshal(map[string]any{"name": opencode.APIError, "data": map[string]any{
				"message": "Refused", "statusCode": tt.status, "responseHeaders": tt.header, "responseBody": body,
			}})
			var turn opencode.TurnError
			if err = errors.Join(err, json.Unmarshal(wire, &turn)); err != nil {
				t.Fatal(err)
			}
			for way, got := range map[string]*providers.Error{"direct": direct, "opencode": ocprovider.Classify(&turn)} {
				late := tt.wait - got.RetryAfter
				if got.Kind != tt.kind || late < 0 || late > 30*time.Second && late > tt.wait/2 || (got.Guess > 0) != tt.guess {
					t.Errorf("%s: %s, wait %s, guess %s; want %s, %s: %v", way, got.Kind, got.RetryAfter, got.Guess, tt.kind, tt.wait, got)
				}
			}
		})
	}
}
