package providers_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/providers"
)

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
		strings.Repeat("x", 999): "longer",
	} {
		if _, err := providers.ParseModel(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want an error that says %q", text, err, says)
		}
	}
}

// A reference survives text, JSON and YAML, as a value and as a map key, the zero value included.
func TestModelRefRoundTrips(t *testing.T) {
	t.Parallel()
	type document struct {
		Model providers.ModelRef            `json:"model" yaml:"model"`
		Of    map[string]providers.ModelRef `json:"of" yaml:"of"`
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.Just(""), rapid.StringMatching(`[a-z][a-z0-9._-]{0,8}/[a-zA-Z0-9._:/@#-]{1,20}`)).Draw(t, "ref")
		var ref providers.ModelRef
		if err := ref.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if ref.String() != text {
			t.Fatalf("%q became %q", text, ref)
		}
		in := document{Model: ref, Of: map[string]providers.ModelRef{"a": ref}}
		var fromJSON, fromYAML document
		encoded, err := json.Marshal(in)
		if err == nil {
			err = json.Unmarshal(encoded, &fromJSON)
		}
		if err != nil || fromJSON.Model != ref || fromJSON.Of["a"] != ref {
			t.Fatalf("JSON %s: %+v, %v", encoded, fromJSON, err)
		}
		encoded, err = yaml.Marshal(in)
		if err == nil {
			err = yaml.Unmarshal(encoded, &fromYAML)
		}
		if err != nil || fromYAML.Model != ref || fromYAML.Of["a"] != ref {
			t.Fatalf("YAML %s: %+v, %v", encoded, fromYAML, err)
		}
	})
}
