package retryafter_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/bouldermgr/manager/internal/retryafter"
)

func TestOf(t *testing.T) {
	t.Parallel()
	const sent, until = "Sat, 21 Nov 2026 12:11:03 GMT", "Sat, 21 Nov 2026 12:12:33 GMT"
	now := time.Date(2026, 11, 21, 12, 12, 3, 0, time.UTC)
	for name, test := range map[string]struct {
		ms, wait, date string
		want           time.Duration
	}{
		"nothing":           {date: sent},
		"seconds":           {wait: "37", want: 37 * time.Second},
		"fraction":          {wait: "1.5", want: 1500 * time.Millisecond},
		"zero":              {wait: "0"},
		"negative":          {wait: "-3"},
		"no number":         {wait: "NaN"},
		"words":             {wait: "soon"},
		"absurd":            {wait: "1e300", want: 365 * 24 * time.Hour},
		"milliseconds":      {ms: "1500", want: 1500 * time.Millisecond},
		"the longer":        {ms: "1500", wait: "2", want: 2 * time.Second},
		"words and seconds": {ms: "soon", wait: "2", want: 2 * time.Second},
		"date":              {wait: until, date: sent, want: 90 * time.Second},
		"date gone by":      {wait: sent, date: until},
		"date by our clock": {wait: until, want: 30 * time.Second},
	} {
		header := http.Header{"Retry-After-Ms": {test.ms}, "Retry-After": {test.wait}, "Date": {test.date}}
		if got := retryafter.Of(header, now); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// Headers as OpenAI, Groq, Anthropic and OpenRouter send them.
func TestResetsOfUsedUpLimits(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 12, 3, 0, time.UTC)
	for name, test := range map[string]struct {
		header map[string]string
		want   time.Duration
	}{
		"openai": {map[string]string{
			"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s",
			"x-ratelimit-remaining-tokens": "149984", "x-ratelimit-reset-tokens": "8h",
		}, 6 * time.Minute},
		"nothing is used up": {map[string]string{"x-ratelimit-remaining-requests": "59", "x-ratelimit-reset-requests": "1s"}, 0},
		"groq": {map[string]string{
			"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "7.66s",
			"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2m59.56s",
		}, 2*time.Minute + 59560*time.Millisecond},
		"retry-after is the provider's word": {map[string]string{
			"retry-after": "2", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1h",
		}, 2 * time.Second},
		"anthropic": {map[string]string{
			"anthropic-ratelimit-input-tokens-remaining": "0", "anthropic-ratelimit-input-tokens-reset": "2026-11-21T12:13:00Z",
		}, 57 * time.Second},
		"anthropic subscription": {map[string]string{
			"anthropic-ratelimit-unified-status": "rejected", "anthropic-ratelimit-unified-reset": "1795335123",
		}, 20 * time.Hour},
		"openrouter":    {map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1795263183000"}, time.Minute},
		"seconds":       {map[string]string{"ratelimit-remaining": "0", "ratelimit-reset": "12"}, 12 * time.Second},
		"a minute ago":  {map[string]string{"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1795263063"}, 0},
		"another limit": {map[string]string{"x-password-reset": "10m"}, 0},
	} {
		header := http.Header{}
		for k, v := range test.header {
			header.Set(k, v)
		}
		if got := retryafter.Of(header, now); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
