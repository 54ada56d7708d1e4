package anthropic_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/providers"
)

// The forms in which the API, and proxies before it, report errors.
func TestErrorForms(t *testing.T) {
	t.Parallel()
	invalid := func(text string) string {
		return `{"type":"error","error":{"type":"invalid_request_error","message":"` + text + `"}}`
	}
	for name, tt := range map[string]struct {
		status     int
		html       bool
		body       string
		header     map[string]string
		kind       providers.Kind
		wantStatus int
		wantText   string
		retryAfter time.Duration
	}{
		"no credit is a 400": {
			status: 400, body: invalid("Your credit balance is too low to access the Anthropic API."),
			kind: providers.KindQuota, wantText: "credit balance",
		},
		"own spending limit is a 400": {
			status: 400, body: invalid("You have reached your specified API usage limits. You will regain access on 2026-12-1."),
			kind: providers.KindQuota, wantText: "regain access",
		},
		"a 429 that waiting does not cure": {
			status: 429, body: `{"type":"error","error":{"type":"rate_limit_error",
				"message":"Usage credits are required for long context requests."}}`,
			kind: providers.KindQuota, wantText: "long context",
		},
		"billing": {
			status: 402, body: `{"type":"error","error":{"type":"billing_error","message":"check your payment details"}}`,
			kind: providers.KindQuota, wantText: "payment",
		},
		"rate limit": {
			status: 429, body: `{"type":"error","error":{"type":"rate_limit_error",
				"message":"This request would exceed your account's rate limit. Please try again later."}}`,
			header: map[string]string{"Retry-After": "37"},
			kind:   providers.KindRateLimit, wantText: "rate limit", retryAfter: 37 * time.Second,
		},
		"overloaded": {
			status: 529, body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
			kind: providers.KindOverloaded, wantText: "overloaded",
		},
		"overloaded after the 200": {
			status: 200, body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
			kind: providers.KindOverloaded, wantStatus: 529, wantText: "overloaded_error",
		},
		"rate limit after the 200": {
			status: 200, body: `{"type":"error","error":{"type":"rate_limit_error","message":"later"}}`,
			kind: providers.KindRateLimit, wantStatus: 429, wantText: "later",
		},
		"not allowed, after the 200": {
			status: 200, body: `{"type":"error","error":{"type":"permission_error","message":"no"}}`,
			kind: providers.KindAuth, wantStatus: 403, wantText: "ANTHROPIC_API_KEY",
		},
		"broken after the 200": {
			status: 200, body: `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`,
			kind: providers.KindNetwork, wantStatus: 500, wantText: "Internal",
		},
		"prompt too long": {
			status: 400, body: invalid("prompt is too long: 210000 tokens > 200000 maximum"),
			kind: providers.KindContextLength, wantText: "210000",
		},
		"prompt and answer too long": {
			status: 400, body: invalid("input length and `max_tokens` exceed context limit: 190000 + 16000 > 200000"),
			kind: providers.KindContextLength, wantText: "190000",
		},
		"request too large": {
			status: 413, body: `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds 32 MB"}}`,
			kind: providers.KindContextLength, wantText: "32 MB",
		},
		"filter": {
			status: 400, body: invalid("Output blocked by content filtering policy"),
			kind: providers.KindContentFilter, wantText: "content filtering",
		},
		"timeout": {
			status: 504, body: `{"type":"error","error":{"type":"timeout_error","message":"Request timed out"}}`,
			kind: providers.KindNetwork, wantText: "timed out",
		},
		"proxy: HTML 502": {
			status: 502, html: true, body: `<html><h1>Bad gateway</h1></html>`,
			kind: providers.KindNetwork, wantText: "web page",
		},
		"base URL of a web site: HTML 200 is not worth a retry": {
			status: 200, html: true, body: `<!doctype html><title>Console</title>`,
			kind: providers.KindBadRequest, wantText: "web page",
		},
		"another API": {
			status: 200, body: `{"choices":[]}`, kind: providers.KindNetwork, wantText: "no message",
		},
		"cut": {
			status: 200, body: `{"type":"message","content":[{"type":"te`,
			kind: providers.KindNetwork, wantText: "cannot be read",
		},
		"empty": {status: 200, kind: providers.KindNetwork, wantText: "no usable answer"},
		"fields of other types": {
			status: 429, body: `{"error":{"type":7,"message":"slow down"}}`,
			kind: providers.KindRateLimit, wantText: "slow down",
		},
		"a string": {status: 403, body: `{"error":"Request not allowed"}`, kind: providers.KindAuth, wantText: "not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := at(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", map[bool]string{true: "text/html", false: "application/json"}[tt.html])
				for key, value := range tt.header {
					w.Header().Set(key, value)
				}
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

// Answers that came and were billed, and are no answers.
func TestStopReasons(t *testing.T) {
	t.Parallel()
	for stop, want := range map[string]struct {
		plain, structured providers.Kind // empty: an answer
		stop              providers.Stop
	}{
		"end_turn":      {stop: providers.StopEnd},
		"stop_sequence": {stop: providers.StopEnd},
		"pause_turn":    {stop: providers.StopOther},
		"from_tomorrow": {stop: providers.StopOther},
		"max_tokens":    {structured: providers.KindTruncated, stop: providers.StopLength},
		"refusal":       {plain: providers.KindContentFilter, structured: providers.KindContentFilter},
		"model_context_window_exceeded": {
			plain: providers.KindContextLength, structured: providers.KindContextLength,
		},
	} {
		t.Run(stop, func(t *testing.T) {
			t.Parallel()
			c := at(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(says(stop, `{"type":"text","text":"{"}`)))
			})
			for kind, schema := range map[*providers.Kind]json.RawMessage{
				&want.plain: nil, &want.structured: json.RawMessage(`{"type":"object"}`),
			} {
				req := ask()
				req.Schema = schema
				if *kind != "" {
					if failure := failing(t, c, req); failure.Kind != *kind || failure.Usage.Total() != 10 {
						t.Errorf("kind %s, usage %v: %v", failure.Kind, failure.Usage, failure)
					}
				} else if resp, err := c.Complete(t.Context(), req); err != nil || resp.Stop != want.stop {
					t.Errorf("got %+v, %v", resp, err)
				}
			}
		})
	}
}
