package openai_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/adaptertest"
)

// The forms in which servers of this family were seen to report errors.
func TestErrorForms(t *testing.T) {
	t.Parallel()
	adaptertest.ErrorForms(t, open, map[string]adaptertest.ErrorForm{
		"xAI: error is a string, wrong key is a 400": {
			Status: 400, Body: `{"code":"Client specified an invalid argument",
				"error":"Incorrect API key provided: xa***yz."}`,
			Kind: providers.KindAuth, WantText: "Incorrect API key",
		},
		"vLLM: flat, code is a number": {
			Status: 400, Body: `{"object":"error","message":"This model's maximum context length is 8192 tokens.",
				"type":"BadRequestError","param":null,"code":400}`,
			Kind: providers.KindContextLength, WantText: "8192",
		},
		"OpenRouter: upstream error inside of a 200": {
			Status: 200, Body: `{"error":{"message":"Provider returned error","code":502}}`,
			Kind: providers.KindNetwork, WantStatus: 502, WantText: "Provider returned error",
		},
		"OpenRouter: rate limit inside of a 200": {
			Status: 200, Body: `{"error":{"message":"slow down","code":429}}`, Header: map[string]string{"Retry-After": "7"},
			Kind: providers.KindRateLimit, WantStatus: 429, WantText: "slow down", RetryAfter: 7 * time.Second,
		},
		"OpenAI: code null, wait in milliseconds": {
			Status: 429, Body: `{"error":{"message":"slow down","type":"requests","param":null,"code":null}}`,
			Header: map[string]string{"Retry-After-Ms": "1500"},
			Kind:   providers.KindRateLimit, WantText: "slow down", RetryAfter: 1500 * time.Millisecond,
		},
		"Gemini's compatible endpoint: a list around the error": {
			Status: 400, Body: `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.",
				"status":"INVALID_ARGUMENT"}}]`,
			Kind: providers.KindAuth, WantText: "API key not valid",
		},
		"FastAPI: detail": {
			Status: 404, Body: `{"detail":"Not Found"}`,
			Kind: providers.KindBadRequest, WantText: "Not Found",
		},
		"no choices": {
			Status: 200, Body: `{"id":"x","object":"chat.completion","choices":[]}`,
			Kind: providers.KindNetwork, WantText: "no choices",
		},
		"empty body": {
			Status: 200, Body: ``, Kind: providers.KindNetwork, WantText: "cannot be read",
		},
		"plain text": {
			Status: 418, Type: "text/plain", Body: "short and stout",
			Kind: providers.KindBadRequest, WantText: "short and stout",
		},
	})
}

func TestFinishReasons(t *testing.T) {
	t.Parallel()
	says := func(choice string) string {
		return `{"choices":[` + choice + `],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`
	}
	const filtered = providers.KindContentFilter
	adaptertest.Ends(t, open, map[string]adaptertest.End{
		"stop":   {Body: says(`{"message":{"content":"{}"},"finish_reason":"stop"}`), Stop: providers.StopEnd},
		"others": {Body: says(`{"message":{"content":"{}"},"finish_reason":"eos"}`), Stop: providers.StopOther},
		"limit": {
			Body: says(`{"message":{"content":"{"},"finish_reason":"length"}`), Structured: providers.KindTruncated,
			Stop: providers.StopLength,
		},
		"refusal": {
			Body:  says(`{"message":{"content":null,"refusal":"I can't help with that."},"finish_reason":"stop"}`),
			Plain: filtered, Structured: filtered,
		},
		"filter": {
			Body:  says(`{"message":{"content":""},"finish_reason":"content_filter"}`),
			Plain: filtered, Structured: filtered,
		},
	})
}

// A redirect would carry the key to whoever the first server names.
func TestRedirectToAnotherHostIsRefused(t *testing.T) {
	t.Parallel()
	thief := adaptertest.Trap(t)
	c := adaptertest.At(t, open, http.RedirectHandler(
		thief+"/v1/chat/completions?session=private", http.StatusTemporaryRedirect))
	failure := adaptertest.Fails(t, c, adaptertest.Ask())
	if failure.Kind != providers.KindBadRequest {
		t.Errorf("kind %s: a redirect repeats itself", failure.Kind)
	}
	if !strings.Contains(failure.Error(), thief) || strings.Contains(failure.Message, "private") {
		t.Errorf("message: %v", failure)
	}
}

func TestAnswerWithoutEndIsRefused(t *testing.T) {
	t.Parallel()
	c := adaptertest.At(t, open, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 1<<20)
		for range 20 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	if failure := adaptertest.Fails(t, c, adaptertest.Ask()); failure.Kind != providers.KindBadRequest {
		t.Errorf("kind %s: %v", failure.Kind, failure)
	}
}
