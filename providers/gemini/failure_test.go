package gemini_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/providers"
)

// The forms in which the API, and proxies before it, report errors.
func TestErrorForms(t *testing.T) {
	t.Parallel()
	status := func(code, status, text, details string) string {
		return fmt.Sprintf(`{"error":{"code":%s,"message":%q,"status":%q,"details":[%s]}}`, code, text, status, details)
	}
	const retryInfo = `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"37.5s"}`
	const quota = "You exceeded your current quota, please check your plan and billing details."
	for name, tt := range map[string]struct {
		status     int
		html       bool
		body       string
		header     string // Retry-After
		kind       providers.Kind
		wantStatus int
		wantText   string
		retryAfter time.Duration
	}{
		"wrong key is a 400": {
			status: 400, body: status("400", "INVALID_ARGUMENT", "Please pass a valid key.",
				`{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}`),
			kind: providers.KindAuth, wantText: "API_KEY_INVALID",
		},
		"not allowed": {
			status: 403, body: status("403", "PERMISSION_DENIED", "no access to this model", ""),
			kind: providers.KindAuth, wantText: "GEMINI_API_KEY",
		},
		"limit per minute": {
			status: 429, body: status("429", "RESOURCE_EXHAUSTED", quota, retryInfo+
				`,{"violations":[{"quotaId":"GenerateContentInputTokensPerModelPerMinute-FreeTier"}]}`),
			kind: providers.KindRateLimit, wantText: "RESOURCE_EXHAUSTED", retryAfter: 37500 * time.Millisecond,
		},
		"the longer of two waits": {
			status: 429, body: status("429", "RESOURCE_EXHAUSTED", quota, retryInfo), header: "50",
			kind: providers.KindRateLimit, wantText: "quota", retryAfter: 50 * time.Second,
		},
		"limit per day": {
			status: 429, body: status("429", "RESOURCE_EXHAUSTED", quota, retryInfo+
				`,{"violations":[{"quotaId":"PerMinute"},{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}`),
			kind: providers.KindQuota, wantText: "quota", retryAfter: 37500 * time.Millisecond,
		},
		"model is not in the tier": {
			status: 429, body: status("429", "RESOURCE_EXHAUSTED", quota+
				" * Quota exceeded for metric: free_tier_requests, limit: 0, model: gemini-pro", retryInfo),
			kind: providers.KindQuota, wantText: "limit: 0", retryAfter: 37500 * time.Millisecond,
		},
		"no credit": {
			status: 429, body: status("429", "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted.", ""),
			kind: providers.KindQuota, wantText: "depleted",
		},
		"overloaded": {
			status: 503, body: status("503", "UNAVAILABLE", "The model is overloaded. Please try again later.", ""),
			kind: providers.KindOverloaded, wantText: "UNAVAILABLE",
		},
		"overloaded inside of a 200, with a list around it": {
			status: 200, body: "[" + status("503", "UNAVAILABLE", "The model is overloaded.", "") + "]",
			kind: providers.KindOverloaded, wantStatus: 503, wantText: "UNAVAILABLE",
		},
		"error inside of a 200": {
			status: 200, body: status("429", "RESOURCE_EXHAUSTED", "slow down", retryInfo),
			kind: providers.KindRateLimit, wantStatus: 429, wantText: "slow down", retryAfter: 37500 * time.Millisecond,
		},
		"deadline": {
			status: 504, body: status("504", "DEADLINE_EXCEEDED", "Deadline expired.", ""),
			kind: providers.KindNetwork, wantText: "DEADLINE",
		},
		"details of unknown forms": {
			status: 500, body: status("500", "INTERNAL", "oops", `{"reason":7,"violations":{"a":1}},{"retryDelay":"soon"}`),
			kind: providers.KindNetwork, wantText: "oops",
		},
		"prompt too long": {
			status: 400, body: status("400", "INVALID_ARGUMENT",
				"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", ""),
			kind: providers.KindContextLength, wantText: "1200000",
		},
		"location": {
			status: 400, body: status("400", "FAILED_PRECONDITION", "User location is not supported for the API use.", ""),
			kind: providers.KindBadRequest, wantText: "location",
		},
		"proxy: HTML 502": {
			status: 502, html: true, body: `<html><h1>Bad gateway</h1></html>`,
			kind: providers.KindNetwork, wantText: "web page",
		},
		"base URL of a web site: HTML 200 is not worth a retry": {
			status: 200, html: true, body: `<!doctype html><title>Console</title>`,
			kind: providers.KindBadRequest, wantText: "web page",
		},
		"no candidates": {status: 200, body: `{"modelVersion":"m"}`, kind: providers.KindNetwork, wantText: "no candidates"},
		"empty":         {status: 200, kind: providers.KindNetwork, wantText: "no candidates"},
		"cut":           {status: 200, body: `{"candidates":[{"con`, kind: providers.KindNetwork, wantText: "cannot be read"},
		// The SDK panics at this one.
		"another type": {
			status: 200, body: `{"candidates":"none"}`, kind: providers.KindNetwork, wantText: "cannot be read",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := at(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", map[bool]string{true: "text/html", false: "application/json"}[tt.html])
				w.Header().Set("Retry-After", tt.header)
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
			})
			failure := failing(t, c, ask())
			wantStatus := tt.status
			if tt.wantStatus != 0 {
				wantStatus = tt.wantStatus
			}
			if failure.Kind != tt.kind || failure.Status != wantStatus || failure.RetryAfter != tt.retryAfter {
				t.Errorf("kind %s, status %d, retry after %s: %v",
					failure.Kind, failure.Status, failure.RetryAfter, failure)
			}
			if !strings.Contains(failure.Error(), tt.wantText) {
				t.Errorf("%q does not contain %q", failure, tt.wantText)
			}
		})
	}
}

// Answers that came and were billed, with the text or without.
func TestFinishReasons(t *testing.T) {
	t.Parallel()
	type kinds struct{ plain, structured providers.Kind } // empty: an answer
	filtered := kinds{providers.KindContentFilter, providers.KindContentFilter}
	cut := kinds{structured: providers.KindTruncated}
	for name, tt := range map[string]struct {
		body string
		want kinds
		stop providers.Stop
	}{
		"stop":             {body: says("STOP", `{"text":"{}"}`), stop: providers.StopEnd},
		"stop, no parts":   {body: says("STOP", ``), stop: providers.StopEnd},
		"from tomorrow":    {body: says("FROM_TOMORROW", `{"text":"{}"}`), stop: providers.StopOther},
		"limit":            {body: says("MAX_TOKENS", `{"text":"{"}`), want: cut, stop: providers.StopLength},
		"limit, no parts":  {body: says("MAX_TOKENS", ``), want: cut, stop: providers.StopLength},
		"to be continued":  {body: says("CONTINUATION", `{"text":"{"}`), want: cut, stop: providers.StopLength},
		"safety":           {body: says("SAFETY", ``), want: filtered},
		"recitation":       {body: says("RECITATION", `{"text":"It was the"}`), want: filtered},
		"prohibited":       {body: says("PROHIBITED_CONTENT", ``), want: filtered},
		"personal numbers": {body: says("SPII", ``), want: filtered},
		"limit, no content": {
			body: `{"candidates":[{"finishReason":"MAX_TOKENS"}],"usageMetadata":{"promptTokenCount":7,"thoughtsTokenCount":3}}`,
			want: cut, stop: providers.StopLength,
		},
		"prompt": {
			body: `{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":10}}`, want: filtered,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fixed(t, tt.body)
			for kind, schema := range map[*providers.Kind]json.RawMessage{
				&tt.want.plain: nil, &tt.want.structured: json.RawMessage(`{"type":"object"}`),
			} {
				req := ask()
				req.Schema = schema
				if *kind != "" {
					if failure := failing(t, c, req); failure.Kind != *kind || failure.Usage.Total() != 10 {
						t.Errorf("kind %s, usage %v: %v", failure.Kind, failure.Usage, failure)
					}
				} else if resp, err := c.Complete(t.Context(), req); err != nil || resp.Stop != tt.stop {
					t.Errorf("got %+v, %v", resp, err)
				}
			}
		})
	}
}

// The SDK refuses some names of models before it sends anything; trying again would not help.
func TestModelNameThatIsNotSent(t *testing.T) {
	t.Parallel()
	c := at(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("sent to %s", r.URL) })
	for _, model := range []string{"", "a?key=b", "../../etc"} {
		req := ask()
		req.Model = model
		if failure := failing(t, c, req); failure.Kind != providers.KindBadRequest {
			t.Errorf("%q: kind %s: %v", model, failure.Kind, failure)
		}
	}
}
