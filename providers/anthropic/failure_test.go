package anthropic_test

import (
	"testing"
	"time"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/adaptertest"
)

// The forms in which the API reports errors.
func TestErrorForms(t *testing.T) {
	t.Parallel()
	invalid := func(text string) string {
		return `{"type":"error","error":{"type":"invalid_request_error","message":"` + text + `"}}`
	}
	adaptertest.ErrorForms(t, open, map[string]adaptertest.ErrorForm{
		"no credit is a 400": {
			Status: 400, Body: invalid("Your credit balance is too low to access the Anthropic API."),
			Kind: providers.KindQuota, WantText: "credit balance",
		},
		"own spending limit is a 400": {
			Status: 400, Body: invalid("You have reached your specified API usage limits. You will regain access on 2026-12-1."),
			Kind: providers.KindQuota, WantText: "regain access",
		},
		"a 429 that waiting does not cure": {
			Status: 429, Body: `{"type":"error","error":{"type":"rate_limit_error",
				"message":"Usage credits are required for long context requests."}}`,
			Kind: providers.KindQuota, WantText: "long context",
		},
		"billing": {
			Status: 402, Body: `{"type":"error","error":{"type":"billing_error","message":"check your payment details"}}`,
			Kind: providers.KindQuota, WantText: "payment",
		},
		"rate limit": {
			Status: 429, Body: `{"type":"error","error":{"type":"rate_limit_error",
				"message":"This request would exceed your account's rate limit. Please try again later."}}`,
			Header: map[string]string{"Retry-After": "37"},
			Kind:   providers.KindRateLimit, WantText: "rate limit", RetryAfter: 37 * time.Second,
		},
		"overloaded": {
			Status: 529, Body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
			Kind: providers.KindOverloaded, WantText: "overloaded",
		},
		"overloaded after the 200": {
			Status: 200, Body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
			Kind: providers.KindOverloaded, WantStatus: 529, WantText: "overloaded_error",
		},
		"rate limit after the 200": {
			Status: 200, Body: `{"type":"error","error":{"type":"rate_limit_error","message":"later"}}`,
			Kind: providers.KindRateLimit, WantStatus: 429, WantText: "later",
		},
		"not allowed, after the 200": {
			Status: 200, Body: `{"type":"error","error":{"type":"permission_error","message":"no"}}`,
			Kind: providers.KindAuth, WantStatus: 403, WantText: "ANTHROPIC_API_KEY",
		},
		"broken after the 200": {
			Status: 200, Body: `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`,
			Kind: providers.KindNetwork, WantStatus: 500, WantText: "Internal",
		},
		"prompt too long": {
			Status: 400, Body: invalid("prompt is too long: 210000 tokens > 200000 maximum"),
			Kind: providers.KindContextLength, WantText: "210000",
		},
		"prompt and answer too long": {
			Status: 400, Body: invalid("input length and `max_tokens` exceed context limit: 190000 + 16000 > 200000"),
			Kind: providers.KindContextLength, WantText: "190000",
		},
		"request too large": {
			Status: 413, Body: `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds 32 MB"}}`,
			Kind: providers.KindContextLength, WantText: "32 MB",
		},
		"filter": {
			Status: 400, Body: invalid("Output blocked by content filtering policy"),
			Kind: providers.KindContentFilter, WantText: "content filtering",
		},
		"timeout": {
			Status: 504, Body: `{"type":"error","error":{"type":"timeout_error","message":"Request timed out"}}`,
			Kind: providers.KindNetwork, WantText: "timed out",
		},
		"another API": {
			Status: 200, Body: `{"choices":[]}`, Kind: providers.KindNetwork, WantText: "no message",
		},
		"cut": {
			Status: 200, Body: `{"type":"message","content":[{"type":"te`,
			Kind: providers.KindNetwork, WantText: "cannot be read",
		},
		"empty": {Status: 200, Kind: providers.KindNetwork, WantText: "no usable answer"},
		"fields of other types": {
			Status: 429, Body: `{"error":{"type":7,"message":"slow down"}}`,
			Kind: providers.KindRateLimit, WantText: "slow down",
		},
		"a string": {Status: 403, Body: `{"error":"Request not allowed"}`, Kind: providers.KindAuth, WantText: "not allowed"},
	})
}

func TestStopReasons(t *testing.T) {
	t.Parallel()
	const filtered, full = providers.KindContentFilter, providers.KindContextLength
	ends := map[string]adaptertest.End{
		"end_turn":                      {Stop: providers.StopEnd},
		"stop_sequence":                 {Stop: providers.StopEnd},
		"pause_turn":                    {Stop: providers.StopOther},
		"from_tomorrow":                 {Stop: providers.StopOther},
		"max_tokens":                    {Structured: providers.KindTruncated, Stop: providers.StopLength},
		"refusal":                       {Plain: filtered, Structured: filtered},
		"model_context_window_exceeded": {Plain: full, Structured: full},
	}
	for reason, end := range ends {
		end.Body = says(reason, `{"type":"text","text":"{"}`)
		ends[reason] = end
	}
	adaptertest.Ends(t, open, ends)
}
