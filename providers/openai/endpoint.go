package openai

import (
	"fmt"
	"slices"

	"github.com/bouldermgr/manager/providers/internal/adapter"
)

// Structured is a form of structured output.
type Structured string

// From strong to weak. If an endpoint refuses the stronger form, the adapter uses the next one and remembers it.
const (
	JSONSchema Structured = "json_schema" // the answer is constrained to the schema
	JSONObject Structured = "json_object" // the answer is some JSON object; the schema is part of the prompt
	Prompted   Structured = "none"        // the schema is only part of the prompt
)

// TokenParam is the name of the parameter that limits the answer.
type TokenParam string

// OpenAI and xAI require the newer name; older compatible servers ignore it and know the other one.
const (
	MaxTokens           TokenParam = "max_tokens"
	MaxCompletionTokens TokenParam = "max_completion_tokens"
)

// Endpoint describes an OpenAI-compatible server. The tags are those of the configuration file.
type Endpoint struct {
	Name string `yaml:"name"` // the provider's name in model references; required
	// BaseURL is the address without "/chat/completions", usually ending in "/v1"; required. It must not contain a
	// password or a query, since addresses are printed: secrets belong in KeyEnv.
	BaseURL string `yaml:"base_url"`
	// KeyEnv names the environment variable of the key. Empty: the server needs none.
	KeyEnv string `yaml:"key_env,omitempty"`
	// Structured is the strongest form of structured output to ask for. Defaults to json_schema.
	Structured Structured `yaml:"structured,omitempty"`
	TokenParam TokenParam `yaml:"token_param,omitempty"` // defaults to max_tokens
}

// Validate returns what is wrong with a configured endpoint.
func (e Endpoint) Validate() error {
	if e.Name == "" {
		return fmt.Errorf("endpoint %s has no name", e.BaseURL)
	}
	if err := adapter.CheckBaseURL(e.BaseURL); err != nil {
		return fmt.Errorf("endpoint %s: base_url %w", e.Name, err)
	}
	if !slices.Contains([]Structured{"", JSONSchema, JSONObject, Prompted}, e.Structured) {
		return fmt.Errorf("endpoint %s: structured is %q; use %s, %s or %s",
			e.Name, e.Structured, JSONSchema, JSONObject, Prompted)
	}
	if !slices.Contains([]TokenParam{"", MaxTokens, MaxCompletionTokens}, e.TokenParam) {
		return fmt.Errorf("endpoint %s: token_param is %q; use %s or %s",
			e.Name, e.TokenParam, MaxTokens, MaxCompletionTokens)
	}
	return nil
}
