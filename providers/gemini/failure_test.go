package gemini_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/adaptertest"
)

// The forms in which the API reports errors.
func TestErrorForms(t *testing.T) {
	t.Parallel()
	status := func(code, status, text, details string) string {
		return fmt.Sprintf(`{"error":{"code":%s,"message":%q,"status":%q,"details":[%s]}}`, code, text, status, details)
	}
	const retryInfo = `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"37.5s"}`
	const quota = "You exceeded your current quota, please check your plan and billing details."
	adaptertest.ErrorForms(t, open, map[string]adaptertest.ErrorForm{
		"wrong key is a 400": {
			Status: 400, Body: status("400", "INVALID_ARGUMENT", "Please pass a valid key.",
				`{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}`),
			Kind: providers.KindAuth, WantText: "API_KEY_INVALID",
		},
		"not allowed": {
			Status: 403, Body: status("403", "PERMISSION_DENIED", "no access to this model", ""),
			Kind: providers.KindAuth, WantText: "no access",
		},
		"limit per minute": {
			Status: 429, Body: status("429", "RESOURCE_EXHAUSTED", quota, retryInfo+
				`,{"violations":[{"quotaId":"GenerateContentInputTokensPerModelPerMinute-FreeTier"}]}`),
			Kind: providers.KindRateLimit, WantText: "RESOURCE_EXHAUSTED", RetryAfter: 37500 * time.Millisecond,
		},
		"the longer of two waits": {
			Status: 429, Body: status("429", "RESOURCE_EXHAUSTED", quota, retryInfo),
			Header: map[string]string{"Retry-After": "50"},
			Kind:   providers.KindRateLimit, WantText: "quota", RetryAfter: 50 * time.Second,
		},
		"limit per day": {
			Status: 429, Body: status("429", "RESOURCE_EXHAUSTED", quota, retryInfo+
				`,{"violations":[{"quotaId":"PerMinute"},{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}`),
			Kind: providers.KindQuota, WantText: "quota", RetryAfter: 37500 * time.Millisecond,
		},
		"model is not in the tier": {
			Status: 429, Body: status("429", "RESOURCE_EXHAUSTED", quota+
				" * Quota exceeded for metric: free_tier_requests, limit: 0, model: gemini-pro", retryInfo),
			Kind: providers.KindQuota, WantText: "limit: 0", RetryAfter: 37500 * time.Millisecond,
		},
		"overloaded inside of a 200, with a list around it": {
			Status: 200, Body: "[" + status("503", "UNAVAILABLE", "The model is overloaded.", "") + "]",
			Kind: providers.KindOverloaded, WantStatus: 503, WantText: "UNAVAILABLE",
		},
		"error inside of a 200": {
			Status: 200, Body: status("429", "RESOURCE_EXHAUSTED", "slow down", retryInfo),
			Kind: providers.KindRateLimit, WantStatus: 429, WantText: "slow down", RetryAfter: 37500 * time.Millisecond,
		},
		"details of unknown forms": {
			Status: 500, Body: status("500", "INTERNAL", "oops", `{"reason":7,"violations":{"a":1}},{"retryDelay":"soon"}`),
			Kind: providers.KindNetwork, WantText: "oops",
		},
		"no candidates": {Status: 200, Body: `{"modelVersion":"m"}`, Kind: providers.KindNetwork, WantText: "no candidates"},
		"empty":         {Status: 200, Kind: providers.KindNetwork, WantText: "no candidates"},
		"cut":           {Status: 200, Body: `{"candidates":[{"con`, Kind: providers.KindNetwork, WantText: "cannot be read"},
		// The SDK panics at this one.
		"another type": {
			Status: 200, Body: `{"candidates":"none"}`, Kind: providers.KindNetwork, WantText: "cannot be read",
		},
	})
}

func TestFinishReasons(t *testing.T) {
	t.Parallel()
	filtered := func(body string) adaptertest.End {
		return adaptertest.End{
			Body: body, Plain: providers.KindContentFilter, Structured: providers.KindContentFilter,
		}
	}
	cut := func(body string) adaptertest.End {
		return adaptertest.End{Body: body, Structured: providers.KindTruncated, Stop: providers.StopLength}
	}
	adaptertest.Ends(t, open, map[string]adaptertest.End{
		"stop":             {Body: says("STOP", `{"text":"{}"}`), Stop: providers.StopEnd},
		"stop, no parts":   {Body: says("STOP", ``), Stop: providers.StopEnd},
		"from tomorrow":    {Body: says("FROM_TOMORROW", `{"text":"{}"}`), Stop: providers.StopOther},
		"limit":            cut(says("MAX_TOKENS", `{"text":"{"}`)),
		"limit, no parts":  cut(says("MAX_TOKENS", ``)),
		"to be continued":  cut(says("CONTINUATION", `{"text":"{"}`)),
		"safety":           filtered(says("SAFETY", ``)),
		"recitation":       filtered(says("RECITATION", `{"text":"It was the"}`)),
		"prohibited":       filtered(says("PROHIBITED_CONTENT", ``)),
		"personal numbers": filtered(says("SPII", ``)),
		"limit, no content": cut(`{"candidates":[{"finishReason":"MAX_TOKENS"}],
			"usageMetadata":{"promptTokenCount":7,"thoughtsTokenCount":3}}`),
		"prompt": filtered(`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":10}}`),
	})
}

// The SDK refuses some names of models before it sends anything; trying again would not help.
func TestModelNameThatIsNotSent(t *testing.T) {
	t.Parallel()
	c := open(t, adaptertest.Trap(t), providers.NewKey("k"), adaptertest.HTTPClient(t))
	for _, model := range []string{"", "a?key=b", "../../etc"} {
		req := adaptertest.Ask()
		req.Model = model
		if failure := adaptertest.Fails(t, c, req); failure.Kind != providers.KindBadRequest {
			t.Errorf("%q: kind %s: %v", model, failure.Kind, failure)
		}
	}
}
