package providers_test

import (
	"strings"
	"testing"

	"github.com/bouldermgr/manager/providers"
)

func TestCheckModels(t *testing.T) {
	t.Parallel()
	for list, says := range map[string]string{
		"a/b": "", "a/b#high,c/d#x-high,e/f": "", "a/b#default": "",
		"a/b#": `"" is no effort`, "a/b#c#d": `"c#d" is no effort`, "a/b#high,a/b#low": "a/b is named twice", "b#high": "names no provider",
	} {
		_, err := providers.ParseModels(list)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, and not %q", list, err, says)
		}
	}
}

func TestParseModel(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]providers.ModelRef{
		"openai/gpt-4o":                 {Provider: "openai", Model: "gpt-4o"},
		"openrouter/anthropic/claude:x": {Provider: "openrouter", Model: "anthropic/claude:x"},
		"vllm//models/llama":            {Provider: "vllm", Model: "/models/llama"},
	} {
		got, err := providers.ParseModel(text)
		if err != nil || got != want {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
	for text, says := range map[string]string{
		"":                       "no model named",
		"gpt-4o":                 "openai/gpt-4o", // shows how to write it
		"openai/":                "half",
		"/gpt-4o":                "half",
		"openai/gpt 4":           "spaces",
		"openai/gpt\n4":          "spaces",
		"openai/\xff":            "spaces",
		"openai/gpt#high":        "effort",
		strings.Repeat("x", 999): "longer",
	} {
		if _, err := providers.ParseModel(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want an error that says %q", text, err, says)
		}
	}
}
