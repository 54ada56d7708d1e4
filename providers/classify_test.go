package providers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bouldermgr/manager/providers"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status     int
		code, text string
		err        error
		want       providers.Kind
		retryable  bool
	}{
		{err: context.Canceled, want: providers.KindCanceled},
		{status: 500, err: fmt.Errorf("read: %w", context.Canceled), want: providers.KindCanceled},
		{err: context.DeadlineExceeded, want: providers.KindNetwork, retryable: true},
		{err: io.ErrUnexpectedEOF, want: providers.KindNetwork, retryable: true},
		{status: 200, err: io.ErrUnexpectedEOF, want: providers.KindNetwork, retryable: true},
		{status: 402, want: providers.KindQuota},
		{status: 429, code: "insufficient_quota", want: providers.KindQuota},
		{status: 400, text: "Your credit balance is too low", want: providers.KindQuota},
		{status: 400, text: "You have reached your specified API usage limits.", want: providers.KindQuota},
		{status: 400, text: "You have reached your specified API usage limits. You will regain access on 2025-07-01 at 00:00 UTC.",
			want: providers.KindQuota}, // in the past
		{status: 400, text: "You have reached your specified API usage limits. Try again in 3 days.",
			want: providers.KindRateLimit, retryable: true},
		{text: "5 hour usage limit reached. It will reset in 2 hours 5 minutes.", want: providers.KindRateLimit, retryable: true},
		{text: "The connection was lost. Please try again in 5 minutes.", want: providers.KindNetwork, retryable: true},
		{status: 429, code: "rate_limit_exceeded", text: "Request too large for gpt-4o. Try again in 5 minutes.", want: providers.KindContextLength},
		{status: 429, text: "Your prepayment credits are depleted.", want: providers.KindQuota},
		{status: 429, code: "rate_limit_error", text: "Usage credits are required for long context requests.",
			want: providers.KindQuota},
		{status: 403, code: "BILLING_DISABLED", want: providers.KindQuota},
		{status: 403, text: "Your team has used all available credits or reached its spending limit.", want: providers.KindQuota},
		{status: 401, want: providers.KindAuth},
		{status: 403, want: providers.KindAuth},
		{status: 400, code: "API_KEY_INVALID", want: providers.KindAuth},
		{status: 400, code: "context_length_exceeded", want: providers.KindContextLength},
		{status: 413, want: providers.KindContextLength},
		{status: 400, text: "This model's maximum prompt length is 131072.", want: providers.KindContextLength},
		{status: 429, code: "rate_limit_exceeded", text: "Request too large for gpt-4o", want: providers.KindContextLength},
		{status: 400, text: "prompt is too long: 210000 tokens", want: providers.KindContextLength},
		{status: 400, text: "input length and `max_tokens` exceed context limit: 190000 + 16000 > 200000",
			want: providers.KindContextLength},
		{status: 400, text: "The input token count (2) exceeds the maximum number of tokens allowed (1).",
			want: providers.KindContextLength},
		{status: 400, code: "content_filter", want: providers.KindContentFilter},
		{status: 400, text: "Output blocked by content filtering policy", want: providers.KindContentFilter},
		{status: 529, want: providers.KindOverloaded, retryable: true},
		{status: 200, code: "overloaded_error", want: providers.KindOverloaded, retryable: true},
		{status: 503, want: providers.KindOverloaded, retryable: true},
		{status: 429, want: providers.KindRateLimit, retryable: true},
		// Gemini uses these words for its limits per minute, where waiting helps.
		{
			status: 429, code: "RESOURCE_EXHAUSTED",
			text: "You exceeded your current quota, please check your plan and billing details.",
			want: providers.KindRateLimit, retryable: true,
		},
		{status: 500, want: providers.KindNetwork, retryable: true},
		{status: 408, want: providers.KindNetwork, retryable: true},
		{status: 400, want: providers.KindBadRequest},
		{status: 404, code: "model_not_found", want: providers.KindBadRequest},
		{status: 302, want: providers.KindBadRequest},
	} {
		got := providers.Classify(tt.status, tt.code, tt.text, nil, tt.err)
		if got.Kind != tt.want || got.Retryable() != tt.retryable || tt.err != nil && !errors.Is(got, tt.err) {
			t.Errorf("%+v: kind %s, retryable %t: %v", tt, got.Kind, got.Retryable(), got)
		}
	}
}

// Whatever a provider sends, the message is short, valid UTF-8 and has no keys.
func TestMessageIsBoundedAndRedacted(t *testing.T) {
	t.Parallel()
	got := providers.Classify(500, "", "sk-abcdefgh12345678 "+strings.Repeat("ü", 5000), nil, nil)
	if n := utf8.RuneCountInString(got.Message); n != 600 || !utf8.ValidString(got.Message) {
		t.Errorf("%d characters", n)
	}
	if strings.Contains(got.Error(), "sk-abc") || !strings.HasSuffix(got.Message, "…") {
		t.Errorf("message: %s", got.Message)
	}
}

func TestErrorTellsWhatToDo(t *testing.T) {
	t.Parallel()
	failure := providers.Classify(401, "invalid_api_key", "Incorrect API key provided.", nil, nil)
	failure.Provider, failure.Model, failure.KeyEnv = "openai", "gpt-4o", "OPENAI_API_KEY"
	want := "openai/gpt-4o: the key was refused (401 invalid_api_key): Incorrect API key provided; " +
		"check the key in OPENAI_API_KEY and that it may use this model"
	if failure.Error() != want {
		t.Errorf("got  %s\nwant %s", failure, want)
	}
	for _, test := range []struct {
		status     int
		code, said string
		want       string
	}{
		{403, "", "Project p has no access to model gpt-5.", "the key is valid but lacks this model (403): Project p has no access to model gpt-5; " +
			"check with the provider what the key in OPENAI_API_KEY may use, or choose another model"},
		{403, "", "Country not supported", "the key is valid but may not do this (403): Country not supported; check with the provider"},
		{404, "model_not_found", "No such model", "the provider does not have this model, or the key lacks it (404 model_not_found): " +
			"No such model; check its name (`opencode models` lists what there is) and what the key in OPENAI_API_KEY may use, or choose another with --ledger-model"},
	} {
		e := providers.Classify(test.status, test.code, test.said, nil, nil)
		if e.KeyEnv = "OPENAI_API_KEY"; !strings.HasPrefix(e.Error(), test.want) {
			t.Errorf("got  %s\nwant %s", e, test.want)
		}
	}
}
