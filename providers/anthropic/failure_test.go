package anthropic_test

import (
	"testing"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/adaptertest"
)

// The forms in which the API reports errors.
func TestErrorForms(t *testing.T) {
	t.Parallel()
	adaptertest.ErrorForms(t, open, map[string]adaptertest.ErrorForm{
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
			Kind: providers.KindAuth, WantStatus: 403, WantText: "permission_error",
		},
		"broken after the 200": {
			Status: 200, Body: `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`,
			Kind: providers.KindNetwork, WantStatus: 500, WantText: "Internal",
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
